"""Results as tables and lines of figures for a terminal, and as JSON."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from structattn.files.markdown import align_columns

if TYPE_CHECKING:
    from structattn.backbones.head_evaluation import RelationReport

_RELATIONS = ("relation", "MSE", "best constant", "a sentence", "AUC", "spanning tree", "neighbours", "best head")


def format_metrics(values: Mapping[str, float]) -> str:
    """Named figures in one line, as commands print them.

    Args:
        values: the figures; counts have no decimals, others four.

    Returns:
        Names and figures, in their order.

    Example:
        >>> format_metrics({"accuracy": 0.5, "macro_f1": 1 / 3, "unseen_labels": 7})
        'accuracy 0.5000  macro_f1 0.3333  unseen_labels 7'
    """
    shown = {name: f"{value}" if isinstance(value, int) else f"{value:.4f}" for name, value in values.items()}
    return "  ".join(f"{name} {value}" for name, value in shown.items())


def format_relations(reports: "Mapping[str, RelationReport]") -> list[str]:
    """Lines of a table of what HYDRA heads have learnt, one for each relation."""
    return align_columns(_RELATIONS, [_relation_row(name, report) for name, report in reports.items()])


def relation_values(reports: "Mapping[str, RelationReport]") -> dict[str, Any]:
    """The same as values for JSON."""
    return {name: report.to_dict() for name, report in reports.items()}


def _relation_row(name: str, report: "RelationReport") -> list[str]:
    trees = ["" if share is None else f"{100 * share:.1f}" for share in (report.attachment, report.neighbours)]
    best = f"{100 * max(report.accuracy):.1f}" if report.accuracy else ""
    numbers = (report.mean_squared_error, report.constant_error, report.sentence_constant_error)
    area = "" if math.isnan(report.area) else f"{report.area:.4f}"
    return [name, *(f"{number:.4f}" for number in numbers), area, *trees, best]
