"""What shows a run while it goes on: a bar on terminals, curves for TensorBoard."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from structattn.training.folder import RunFolder


@runtime_checkable
class Watcher(Protocol):
    """Shows a run while it goes on."""

    def step(self) -> None:
        """A step was taken."""
        ...

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """The model was evaluated after so many steps."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Bar:
    """A bar on stderr, on terminals only; ``TQDM_DISABLE=1`` turns it off."""

    def __init__(self, done: int, total: int) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped]

        self.bar = tqdm(total=total, initial=done, disable=None, unit="step", dynamic_ncols=True)

    def step(self) -> None:
        """As ``Watcher``."""
        self.bar.update(1)

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """As ``Watcher``."""
        self.bar.set_postfix({name: short(value) for name, value in metrics.items()})

    def close(self) -> None:
        """As ``Watcher``."""
        self.bar.close()


class Curves:
    """Curves for TensorBoard."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def step(self) -> None:
        """Nothing: a point for each evaluation is enough."""

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """As ``Watcher``."""
        for room, values in (("train", training), ("dev", metrics)):
            for name, value in values.items():
                if value is not None:
                    self.writer.add_scalar(f"{room}/{name}", value, step)

    def close(self) -> None:
        """As ``Watcher``."""
        self.writer.close()


def curves(folder: RunFolder) -> list[Curves]:
    """Curves for TensorBoard, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return []
    return [Curves(SummaryWriter(str(folder.path / "tensorboard")))]


def short(value: Any) -> str:
    """A value in four digits.

    Example:
        >>> short(0.123456), short(3)
        ('0.1235', '3')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
