"""``--device`` and ``--mixed_precision`` of every command that runs a model."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

import structattn as sa
from backbones import save_tiny, tiny
from structattn.backbones import HydraConfig, add_heads
from structattn.cli import main, program
from structattn.data.generated import agreement_treebank
from structattn.errors import ConfigError
from structattn.layers import recurrent
from structattn.options import hardware as devices
from structattn.options.hardware import Hardware
from structattn.parsing import TreeParser, build_parser

HEADS = ("--backbone", "backbone", "--adapter", "adapter")
# Arguments of each command; what they need is made in ``place``.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "train": (
        *("--task", "sst2", "--encoder", "tree_transformer", "--data.train", "sst.txt", "--data.dev", "sst.txt"),
        *("--options.dim", "8", "--options.num_heads", "2", "--options.num_layers", "1", "--optimization.epochs", "1"),
    ),
    "eval": ("run", "--data", "sst.txt"),
    "predict": ("run", "--data", "sst.txt"),
    "calibrate": ("run", "--test", "sst.txt"),
    "plot": ("run", "--example", "0", "--format", "svg", "--out", "plots"),
    "compare": ("run", "--data", "sst.txt"),
    "phrases": ("run",),
    "parse": ("trees.conllu", "--parser", "structattn:parser"),
    "parser train": (
        *("trees.conllu", "--dev", "trees.conllu", "--encoder.word_dim", "6", "--encoder.hidden", "6"),
        *("--encoder.num_layers", "1", "--optimization.epochs", "1"),
    ),
    "parser eval": ("trees.conllu", "--parser", "structattn:parser"),
    "parser compare": ("structattn:parser", "structattn:./parser", "trees.conllu"),
    "hydra pretrain": (
        "trees.conllu",
        "--backbone",
        "backbone",
        "--heads.relation",
        "arc",
        "--optimization.epochs",
        "1",
    ),
    "hydra eval": ("trees.conllu", *HEADS),
}
WRITE_A_RUN = ("train", "parser train", "hydra pretrain")
# Or with the models of ``train``, or with one of a kind of its own.
WITHOUT_MODEL = {"convert", "curve", "demo", "describe", "doctor", "list", "parser splitter", "score", "sweep"}
# What is traced runs where no function checks its arguments: ``unchecked/test_export.py``.
TRACED = {"export"}
# A server runs until it is interrupted: ``test_explorer_server.py``, ``test_serving.py``.
SERVES = {"explore", "serve"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    save_tiny(folder / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=2)).save_pretrained(folder / "adapter")
    trees = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=5), 12)]
    gold = [sa.Sentence(one.words, one.tags or ["X"] * len(one), one.dependency) for one in trees]
    sa.write_conllu(folder / "trees.conllu", gold)
    build_parser(gold, encoder={"word_dim": 6, "hidden": 6, "num_layers": 1}).save_pretrained(folder / "parser")
    lines = ["(3 (2 the) (3 (3 good) (2 film)))", "(1 (2 the) (1 (1 bad) (2 film)))"] * 8
    (folder / "sst.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", *COMMANDS["train"], "--out", "run", "--device", "cpu"]) == 0
    return folder


@pytest.fixture
def linear_types() -> Iterator[set[torch.dtype]]:
    """The types of what linear layers return."""
    found: set[torch.dtype] = set()

    def note(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(module, nn.Linear) and isinstance(output, torch.Tensor):
            found.add(output.dtype)

    hook = nn.modules.module.register_module_forward_hook(note)
    yield found
    hook.remove()


def words_of(command: str, out: Path) -> list[str]:
    return [*command.split(), *COMMANDS[command], *(["--out", str(out)] if command in WRITE_A_RUN else [])]


def test_the_table_has_every_command() -> None:
    assert set(COMMANDS) | WITHOUT_MODEL | TRACED | SERVES == set(program.COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_products_are_computed_as_asked(
    command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linear_types: set[torch.dtype]
) -> None:
    monkeypatch.chdir(place)
    for precision, dtype in (("no", torch.float32), ("bf16", torch.bfloat16)):
        linear_types.clear()
        options = ["--device", "cpu", "--mixed_precision", precision]
        assert main([*words_of(command, tmp_path / precision), *options]) == 0
        assert dtype in linear_types
        assert linear_types <= {torch.float32, dtype}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_there_is_said(
    command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    words = words_of(command, tmp_path / "run")
    assert main([*words, "--device", "cuda"]) == 2
    assert "device: cuda is not available on this machine; use cpu" in capsys.readouterr().err
    assert main([*words, "--mixed_precision", "fp16"]) == 2
    assert "mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_other_parsers_choose_their_device_themselves(place: Path) -> None:
    trees = str(place / "trees.conllu")
    for hardware in (Hardware("cpu", "bf16"), Hardware("cuda")):
        with pytest.raises(ConfigError, match="expected en or structattn:FOLDER with these options"):
            sa.parse([["the", "dog"]], trees, hardware=hardware)


def test_a_parser_of_other_roundings_has_another_version(place: Path) -> None:
    plain = TreeParser.from_folder(place / "parser")
    assert TreeParser.from_folder(place / "parser", Hardware("cpu")).version == plain.version
    assert TreeParser.from_folder(place / "parser", Hardware("cpu", "bf16")).version == f"{plain.version}+bf16"


@pytest.mark.parametrize("hardware", [("cpu", "fp16"), ("gpu", "no"), ("cpu", "fp8")])
def test_unknown_hardware(hardware: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    device, precision = hardware
    words = ["eval", "nowhere", "--data", "x", "--device", device, "--mixed_precision", precision]
    assert main(words) == 2
    assert "nowhere" not in capsys.readouterr().err.split("; see")[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstms_read_in_32_bits_where_the_processor_has_no_16(
    bidirectional: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "lacks_bfloat16", lambda: True)
    torch.manual_seed(1)
    lstm = sa.layers.LSTM(3, 4, num_layers=2, bidirectional=bidirectional)
    words = torch.randn(2, 5, 3)
    start = torch.randn(2, 2 * (1 + bidirectional), 2, 4).unbind()
    plain, going_on = lstm(words), lstm.read_on(words, start)
    (expected,) = torch.autograd.grad(plain.sum(), lstm.weight_ih_l0)
    with torch.autocast("cpu", dtype=dtype):
        read = lstm(words.to(dtype))
        assert read.dtype == torch.float32
        assert read.equal(lstm(words.to(dtype).float()))
        assert lstm(words).equal(plain)
        states, left = lstm.read_on(words, start)
    assert states.equal(going_on[0])
    assert all(map(torch.equal, left, going_on[1]))
    (gradient,) = torch.autograd.grad(read.sum(), lstm.weight_ih_l0)
    torch.testing.assert_close(gradient, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("lacks", [False, True])
def test_slow_products_are_said_once(
    lacks: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(devices, "lacks_bfloat16", lambda: lacks)
    devices._warn_of_bfloat16.cache_clear()
    for _ in range(2):
        Hardware("cpu", "bf16").torch_device()
    found = [one.getMessage() for one in caplog.records]
    assert [text.split(" instructions")[0] for text in found] == lacks * [
        "mixed_precision: this processor has no bfloat16"
    ]
    caplog.clear()
    Hardware("cpu").torch_device()
    assert not caplog.records
