"""The report on a model's predictions as a page: tables, the confusion matrix as a picture, residuals."""

from collections.abc import Mapping
from pathlib import Path

from structattn.files.replacing import replace_text
from structattn.pictures import Names, Series, heatmap, line_chart, page, table
from structattn.pictures.html_page import Section
from structattn.tasks.reports import Report
from structattn.training.calibrate_run import Calibrated
from structattn.training.run_folder import RunFolder, RunResult

# A matrix of more classes than this has no numbers in its cells.
_NUMBERED = 20


def report_page(reports: Mapping[str, Report], title: str = "Report") -> str:
    """Reports as one self-contained HTML file: their notes, tables, and the confusion matrix with shares of each row.

    Args:
        reports: from the name of the data to the report, see ``Evaluation.report``.
        title: the heading.

    Returns:
        An HTML document, which a notebook displays.

    Example:
        >>> from structattn.tasks import SENTIMENT
        >>> rows = [{"id": "0", "gold": "bad", "predicted": "good", "scores": {"good": 0.9}, "texts": ["so so"]}]
        >>> "never predicted: bad" in report_page({"dev": SENTIMENT.report(rows)})
        True
    """
    return page(title, [_section(name, report) for name, report in reports.items()])


def save_report(result: RunResult) -> Path:
    """Write the page of a finished run, ``plots/report.html``: what lies behind its metrics on dev and test."""
    path = RunFolder(result.folder).plots / "report.html"
    reports = {name: Report.from_dict(values) for name, values in result.reports.items()}
    with replace_text(path) as stream:
        stream.write(report_page(reports, result.folder.name))
    return path


def calibration_page(result: Calibrated, title: str) -> str:
    """The reliability of a model before and after it was calibrated: a table, and accuracy by confidence.

    Args:
        result: what ``structattn.training.calibrate`` returned.
        title: the heading.
    """
    curves = [
        Series(name, [confidence for confidence, _, _ in each.bins], [accuracy for _, accuracy, _ in each.bins])
        for name, each in (("before", result.before), ("after", result.after))
    ]
    curves.append(Series("calibrated", [0.0, 1.0], [0.0, 1.0]))
    drawn = line_chart(curves, x_label="mean confidence", y_label="accuracy", percent=True, from_zero=True)
    note = f"Figures on {result.measured_on}; ten bins of confidence."
    return page(title, [Section("Reliability", table(result.table()) + drawn, note=note)])


def _section(name: str, report: Report) -> Section:
    parts = [table(rows, caption=title) for title, rows in report.texts().items()]
    if report.confusion is not None:
        labels, counts = report.confusion.labels, report.confusion.counts
        shares = [[count / max(1, sum(row)) for count in row] for row in counts]
        numbered = len(labels) <= _NUMBERED
        names = Names(rows="gold", columns="predicted", values="share of the gold class")
        parts.insert(1, heatmap(labels, labels, shares, names=names, show_values=numbered))
    return Section(name, "".join(parts), note="; ".join(report.notes))
