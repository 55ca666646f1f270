"""Reports on HYDRA heads, for a terminal and as JSON."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from structattn.cli.lines import table

if TYPE_CHECKING:
    from structattn.backbones import RelationReport

_HEADER = ("relation", "MSE", "best constant", "a sentence", "AUC", "spanning tree", "neighbours", "best head")


def relation_table(reports: "Mapping[str, RelationReport]") -> list[str]:
    """A line for each relation.

    Example:
        >>> from structattn.backbones import RelationReport
        >>> print("\\n".join(relation_table({"arc": RelationReport(0.07, 0.1, 0.09, 0.8, 0.5, 0.4, (0.6, 0.7))})))
        relation     MSE  best constant  a sentence     AUC  spanning tree  neighbours  best head
        arc       0.0700         0.1000      0.0900  0.8000           50.0        40.0       70.0
    """
    return table(_HEADER, [_row(name, report) for name, report in reports.items()])


def relation_values(reports: "Mapping[str, RelationReport]") -> dict[str, Any]:
    """The reports as values for JSON.

    Example:
        >>> from structattn.backbones import RelationReport
        >>> relation_values({"arc": RelationReport(0.07, 0.1, 0.09, 0.8, None, None, (0.6,))})["arc"]["area"]
        0.8
    """
    return {name: report.to_dict() for name, report in reports.items()}


def _row(name: str, report: "RelationReport") -> list[str]:
    trees = ["" if share is None else f"{100 * share:.1f}" for share in (report.attachment, report.neighbours)]
    best = f"{100 * max(report.accuracy):.1f}" if report.accuracy else ""
    numbers = (report.mean_squared_error, report.constant_error, report.sentence_constant_error)
    area = "" if math.isnan(report.area) else f"{report.area:.4f}"
    return [name, *(f"{number:.4f}" for number in numbers), area, *trees, best]
