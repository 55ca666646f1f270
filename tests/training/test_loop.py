"""The training loop by hand: steps, accumulated and clipped gradients, when it measures, and when it stops."""

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import accelerate
import pytest
import torch
from torch import Tensor, nn

from structattn.errors import ConfigError, StructAttnError
from structattn.files.json_yaml import read_json_lines
from structattn.options.hardware import Hardware
from structattn.tasks import metric
from structattn.training import distributed
from structattn.training.history import History, HistoryRow
from structattn.training.loop import Measured, fit
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.run_folder import RunFolder


class Fixed:
    """The same batches in every epoch."""

    def __init__(self, *batches: list[int]) -> None:
        self.batches = batches
        self.epochs: list[int] = []
        self.lengths = [1] * (1 + max(row for batch in batches for row in batch))

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)


class Slope(nn.Module):
    """``w x``; the loss is the mean of ``(w x - y)^2``, whose gradient is ``2 mean((w x - y) x)``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


class Toy:
    """Points on a line of slope 3; measured by a list of values, one after the other."""

    def __init__(self, values: Sequence[float] = (), points: Sequence[float] = (1.0, 2.0, 3.0, 4.0)) -> None:
        self.module: nn.Module = Slope()
        self.points = torch.tensor(points)
        self.values = iter(values)
        self.measured_at: list[float] = []
        self.kept: list[int] = []

    def batch(self, rows: list[int]) -> Tensor:
        return self.points[rows]

    def loss(self, module: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = (module(batch) - 3 * batch).square().mean()
        return loss

    def begin_epoch(self, epoch: int) -> None:
        pass

    def measure(self) -> Measured:
        number = len(self.measured_at)
        self.measured_at.append(float(self.module.weight.detach()))
        return Measured({"accuracy": next(self.values, 0.0)}, {"number": number}, lambda: self.kept.append(number))


def optimization(**options: object) -> OptimizationConfig:
    plain = {
        "optimizer": "sgd",
        "learning_rate": 0.01,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "clip": None,
        "patience": None,
        "epochs": 1,
    }
    return OptimizationConfig(**{**plain, **options})  # type: ignore[arg-type]


def trained(toy: Toy, sampler: Fixed, place: Path, *, first: bool = False, **options: object) -> History:
    folder = RunFolder(place)
    config, chosen = optimization(**options), metric("accuracy")
    with folder.claimed(), distributed.open_accelerator(Hardware("cpu")) as accelerator:
        return fit(toy, sampler, config, folder=folder, accelerator=accelerator, metric=chosen, measure_first=first)


def by_hand(batches: Sequence[Sequence[float]], *, rate: float = 0.01) -> list[float]:
    """The slope after each batch, by plain gradient descent."""
    slopes = [0.0]
    for batch in batches:
        gradient = sum(2 * (slopes[-1] * x - 3 * x) * x for x in batch) / len(batch)
        slopes.append(slopes[-1] - rate * gradient)
    return slopes[1:]


def test_a_step_for_each_batch(tmp_path: Path) -> None:
    toy, sampler = Toy(), Fixed([0], [1, 2])
    history = trained(toy, sampler, tmp_path / "run", epochs=2, evaluations_per_epoch=2)
    assert toy.measured_at == pytest.approx(by_hand([[1.0], [2.0, 3.0]] * 2))
    assert sampler.epochs == [0, 1]
    assert [row.step for row in history.rows] == [1, 2, 3, 4]
    assert [row.epoch for row in history.rows] == [0.5, 1.0, 1.5, 2.0]
    slopes = [0.0, *toy.measured_at[:-1]]
    batches = [[1.0], [2.0, 3.0]] * 2
    losses = [sum((w * x - 3 * x) ** 2 for x in xs) / len(xs) for w, xs in zip(slopes, batches, strict=True)]
    assert [row.training["loss"] for row in history.rows] == pytest.approx(losses)


def test_a_row_keeps_metrics_apart_from_what_else_is_logged(tmp_path: Path) -> None:
    history = trained(Toy([0.5, 0.25]), Fixed([0], [1]), tmp_path / "run", evaluations_per_epoch=2, clip=1.0)
    assert [row.metrics for row in history.rows] == [{"accuracy": 0.5}, {"accuracy": 0.25}]
    assert [row.values for row in history.rows] == [{"number": 0}, {"number": 1}]
    # d (w x - 3 x)^2 / dw, before it is clipped to 1: at 0 for x = 1, at 0.01 for x = 2.
    norms = [6.0, 2 * 2 * (3 * 2 - 0.01 * 2)]
    assert [row.training["grad_norm"] for row in history.rows] == pytest.approx(norms)
    first, _ = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert first == {
        "step": 1,
        "epoch": 0.5,
        "training": {"loss": 9.0, "learning_rate": 0.01, "grad_norm": pytest.approx(6.0)},
        "metrics": {"accuracy": 0.5},
        "values": {"number": 0},
        "seconds": history.rows[0].seconds,
        "is_best": True,
    }


def test_a_line_of_the_log_marks_the_best_and_shows_a_rate_that_changes() -> None:
    history = History(metric("accuracy"))
    lines = []
    for step, (rate, value) in enumerate([(0.5, 0.25), (0.5, 0.125), (0.25, 0.75)], start=1):
        history.add(HistoryRow(step, float(step), {"loss": 2.0, "learning_rate": rate}, {"accuracy": value}, {}, 9.0))
        lines.append(history.describe_last())
    assert lines == [
        "step 1 epoch 1 loss 2 accuracy 0.25 seconds 9  * best so far",
        "step 2 epoch 2 loss 2 accuracy 0.125 seconds 9",
        "step 3 epoch 3 loss 2 learning_rate 0.25 accuracy 0.75 seconds 9  * best so far",
    ]
    without = History(None)
    without.add(HistoryRow(1, 1.0, {}, {}, {}, 1.0))
    assert without.describe_last() == "step 1 epoch 1 seconds 1"


@pytest.mark.parametrize(
    ("every", "steps"), [(2.0, range(1, 11)), (1, [2, 4, 6, 8, 10]), (1 / 3, [6, 10]), (0.2, [10]), (0.1, [10])]
)
def test_when_is_evaluated_changes_no_step(every: float | int, steps: Sequence[int], tmp_path: Path) -> None:
    """Below 1 at the end of every so many epochs and of the last one, which may come sooner."""
    toy = Toy()
    history = trained(toy, Fixed([0], [1, 2]), tmp_path / "run", epochs=5, evaluations_per_epoch=every)
    slopes = by_hand([[1.0], [2.0, 3.0]] * 5)
    assert [row.step for row in history.rows] == list(steps)
    assert toy.measured_at == pytest.approx([slopes[step - 1] for step in steps])


@pytest.mark.parametrize("every", [0, -1, 1.5, 0.3, math.inf])
def test_evaluations_are_a_whole_number_or_one_divided_by_it(every: float | int) -> None:
    with pytest.raises(ConfigError, match=r"evaluations_per_epoch: expected a whole number, or 1 divided by one"):
        OptimizationConfig(evaluations_per_epoch=every)


def test_accumulated_batches_make_one_step_of_their_mean(tmp_path: Path) -> None:
    """An incomplete step at the end of an epoch is the mean of the batches that there are."""
    toy = Toy()
    history = trained(toy, Fixed([0], [1], [2]), tmp_path / "run", gradient_accumulation=2, evaluations_per_epoch=2)
    assert toy.measured_at == pytest.approx(by_hand([[1.0, 2.0], [3.0]]))
    assert [row.step for row in history.rows] == [1, 2]


def test_the_gradient_is_clipped_as_one(tmp_path: Path) -> None:
    toy = Toy()
    trained(toy, Fixed([3], [2]), tmp_path / "run", clip=5.0, evaluations_per_epoch=2)
    assert toy.measured_at == pytest.approx([0.05, 0.1])  # both gradients are longer than 5


def test_patience_counts_evaluations_without_a_better_one(tmp_path: Path) -> None:
    toy = Toy([0.1, 0.3, 0.2, 0.3, 0.9])
    history = trained(toy, Fixed([0]), tmp_path / "run", epochs=9, patience=2)
    assert [row.is_best for row in history.rows] == [True, True, False, False]
    assert toy.kept == [0, 1]
    assert history.best.values["number"] == 1


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ((math.nan, 0.5, 0.1), [True, True, False]),
        ((0.5, math.nan, 0.6), [True, False, True]),
        ((math.nan, math.nan, -math.inf), [True, False, True]),
    ],
)
@pytest.mark.parametrize(("name", "sign"), [("accuracy", 1), ("mean_squared_error", -1)])
def test_what_is_no_number_is_worse_than_any(values: Sequence[float], best: list[bool], name: str, sign: int) -> None:
    history = History(metric(name))
    for value in values:
        history.add(HistoryRow(1, 1.0, {}, {name: sign * value}, {}, 1.0))
    assert [row.is_best for row in history.rows] == best


def test_a_first_evaluation_may_be_the_best(tmp_path: Path) -> None:
    toy = Toy([0.5, 0.1])
    history = trained(toy, Fixed([0]), tmp_path / "run", first=True)
    assert (history.best.step, history.best.training["loss"], toy.kept) == (0, None, [0])


def test_averages_are_measured_and_the_own_parameters_go_on(tmp_path: Path) -> None:
    toy = Toy()
    trained(toy, Fixed([0]), tmp_path / "run", epochs=3, average=2)
    slopes = by_hand([[1.0]] * 3)
    assert toy.measured_at == pytest.approx([slopes[0], *(sum(pair) / 2 for pair in itertools.pairwise(slopes))])
    assert float(toy.module.weight.detach()) == pytest.approx(slopes[-1])


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(StructAttnError, match=r"the training loss is inf at step 1; try a lower learning rate"):
        trained(Toy(points=(1e30,)), Fixed([0]), tmp_path / "run")


def test_the_module_is_handed_back_as_it_came(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    toy, folder = Toy(), RunFolder(tmp_path / "run")
    before = toy.module.forward
    caplog.set_level(logging.INFO, "structattn.training")
    with folder.claimed(), distributed.open_accelerator(Hardware("cpu", "bf16")) as accelerator:
        fit(toy, Fixed([0]), optimization(), folder=folder, accelerator=accelerator)
    assert toy.module.forward == before
    assert "step 1 epoch 1 loss 9" in caplog.text


def test_the_accelerator_of_the_caller_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    # What tests before this one asked for is no matter.
    for state in (accelerate.state.AcceleratorState, accelerate.state.PartialState):
        monkeypatch.setattr(state, "_shared_state", {})
    own = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    with distributed.open_accelerator(Hardware("cpu")) as outer:
        assert outer.mixed_precision == "no"
        with distributed.open_accelerator(Hardware("cpu", "bf16")) as inner:
            assert inner.mixed_precision == "bf16"
        assert outer.mixed_precision == "no"
    assert (own.mixed_precision, own.device.type) == ("bf16", "cpu")
