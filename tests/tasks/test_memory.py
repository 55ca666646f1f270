"""The memory of a batch: counted exactly, estimated from short runs, and refused before it is tried."""

from pathlib import Path

import pytest
import torch

import structattn as sa
from structattn.cli import main
from structattn.data import Example, Vocabulary
from structattn.tasks import memory
from structattn.tasks.memory import estimate_bytes, peak_bytes

WORDS = ["a", "fine", "film"]
ENCODERS = {"emb_s2t": {}, "transformer": {"num_heads": 2}, "disan": {}, "ms_san": {}}


def text_of(length: int) -> sa.Sentence:
    heads = [0, *range(1, length)]
    return sa.Sentence([WORDS[place % 3] for place in range(length)], dependency=sa.DependencyTree(heads))


def test_bytes_are_counted_while_tensors_are_alive() -> None:
    before = torch.zeros(100)

    def work() -> None:
        kept = before + 1  # 400 bytes
        passing = torch.zeros(1000, dtype=torch.float64)  # 8,000, with those above
        del passing
        view = kept.view(10, 10)[1:]  # of what is counted already
        before.add_(1)  # of what was there before
        torch.cat([view, view])  # 720

    assert peak_bytes(work) == 8400
    assert peak_bytes(lambda: before.mul_(2)) == 0
    weight = torch.zeros(50, requires_grad=True)
    # The product, its sum, the gradient of the sum, that of the product (which is spread out), that of the weight.
    assert 2 * 200 <= peak_bytes(lambda: torch.autograd.grad((weight * weight).sum(), [weight])) <= 4 * 200 + 8


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("is_training", [True, False])
def test_the_estimate_is_what_a_long_batch_needs(name: str, is_training: bool) -> None:
    torch.manual_seed(0)
    encoder = sa.encoders.build(name, vocab_size=5, dim=12, **ENCODERS[name])
    task = sa.tasks.get_task("classification")
    model = sa.tasks.SentenceModel(encoder, task, vocabulary=Vocabulary(WORDS), labels=("good", "bad"))
    trained = list(model.train(is_training).parameters())

    def work(some: list[Example]) -> None:
        with torch.set_grad_enabled(is_training):
            loss = model.loss(some)
        if is_training:
            torch.autograd.grad(loss, trained, allow_unused=True)

    batch = [Example((text_of(600),), "good", id=str(number)) for number in range(2)]
    assert estimate_bytes(work, batch[0], count=2) == pytest.approx(peak_bytes(lambda: work(batch)), rel=0.2)


def test_no_estimate_where_the_need_is_no_parabola() -> None:
    example = Example((text_of(4000),), "good")

    def truncated(some: list[Example]) -> None:
        torch.zeros(len(some), min(500, len(some[0].sentences[0])) ** 2)

    assert estimate_bytes(truncated, example, count=2) is None
    assert estimate_bytes(truncated, Example((text_of(3),), "good"), count=2) is None
    short = Example((text_of(400),), "good")
    assert estimate_bytes(truncated, short, count=2) == 2 * 4 * 400**2

    def whole(some: list[Example]) -> None:
        if len(some[0].sentences[0]) < 4000:
            raise ValueError("the first words of an example are none")

    assert estimate_bytes(whole, example, count=2) is None


def arguments(tmp_path: Path, out: str) -> list[str]:
    data = tmp_path / "reviews.csv"
    rows = ["a fine film,good", "a dull film,bad"] * 3 + [" ".join(WORDS * 20) + ",good"]
    data.write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    chosen = ["--task", "classification", "--encoder", "disan_nodir", "--options.dim", "4", "--device", "cpu"]
    files = ["--data.train", str(data), "--data.dev", str(data), "--out", str(tmp_path / out)]
    return ["train", *chosen, *files, "--optimization.epochs", "1"]


def test_a_batch_that_needs_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "run")) == 0
    capsys.readouterr()
    monkeypatch.setattr(memory, "TRIED_PAIRS", 0)
    assert main(arguments(tmp_path, "again")) == 0
    first, second = ((tmp_path / run / "predictions" / "dev.jsonl").read_bytes() for run in ("run", "again"))
    assert first == second, "an estimate leaves everything as it was"
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    capsys.readouterr()
    assert main(arguments(tmp_path, "third")) == 2
    said = capsys.readouterr().err
    assert (
        "a batch of 7 examples of up to 60 words needs about 0.0 GB of memory, 0.0 GB are free; use a smaller " in said
    )
    assert "optimization.batch_size or data.max_length" in said
    assert not (tmp_path / "third").exists()
    assert main(["predict", str(tmp_path / "run"), "--data", str(tmp_path / "reviews.csv")]) == 2
    assert "use a smaller batch_size, or train with a smaller max_length" in capsys.readouterr().err


def test_what_is_free_is_what_the_system_says(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    free = memory.free_bytes(cpu)
    if free is not None:
        held = torch.ones(2**26)
        assert free - 2**30 < memory.free_bytes(cpu) < free + 2**30, "of the order of what is taken meanwhile"
        del held
    assert memory.free_bytes(torch.device("meta")) is None
