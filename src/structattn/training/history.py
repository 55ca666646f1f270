"""The evaluations of a run so far. Best model and patience are derived from them, without separate counters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structattn.tasks import Metric

# The keys of a row besides its metrics.
BOOKKEEPING = frozenset({"step", "epoch", "loss", "learning_rate", "tree_entropy", "seconds", "is_best"})


@dataclass
class History:
    """One row per evaluation, in order; ``metrics.jsonl`` is exactly this.

    Attributes:
        metric: decides which evaluation is the best; the latest one if ``None``.
        rows: each has the metric's value under its name, ``is_best`` (whether it was better than all before) and
            ``seconds``.

    Example:
        >>> from structattn.tasks import metric
        >>> history = History(metric("accuracy"))
        >>> for value in (0.5, 0.7, 0.6, 0.7):
        ...     history.add({"accuracy": value})
        >>> history.best["accuracy"], history.has_run_out(2), history.has_run_out(3)
        (0.7, True, False)
    """

    metric: Metric | None
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row, marked if it is the best so far."""
        metric = self.metric
        if metric is None:
            self.rows.append({**row, "is_best": True})
            return
        value = _goodness(row, metric)
        self.rows.append({**row, "is_best": all(value > _goodness(earlier, metric) for earlier in self.rows)})

    @property
    def last(self) -> Mapping[str, Any]:
        """The latest row."""
        return self.rows[-1]

    @property
    def best(self) -> Mapping[str, Any]:
        """The row of the best model."""
        return next(row for row in reversed(self.rows) if row["is_best"])

    def has_run_out(self, patience: int | None) -> bool:
        """Whether the last ``patience`` evaluations brought no improvement; never with ``None``."""
        latest: Sequence[Mapping[str, Any]] = self.rows[-patience:] if patience else ()
        return bool(latest) and not any(row["is_best"] for row in latest)


def _goodness(row: Mapping[str, Any], metric: Metric) -> tuple[bool, float]:
    """A sort key that is greater for better values; NaN is worse than any number."""
    value = row[metric.name]
    if math.isnan(value):
        return False, 0.0
    return True, value if metric.greater_is_better else -value
