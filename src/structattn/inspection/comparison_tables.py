"""Comparisons of runs for a paper and as a page: a table in Markdown or LaTeX, and the examples that flipped."""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from structattn.errors import ConfigError
from structattn.files.markdown import escape_markdown
from structattn.options.checking import suggest
from structattn.pictures.figure_style import escape_latex
from structattn.pictures.html_page import Section, page, table
from structattn.tasks.metrics import metric
from structattn.training.comparison import Comparison, Difference, Flip
from structattn.training.run_folder import RunFolder

# Per cent and one decimal, unless a metric is on another scale: its factor and its decimals.
_SCALES = {"bleu": (1, 1), "mean_squared_error": (1, 3)}

# Marks of significance, the strictest first.
_LEVELS = ((0.01, "**"), (0.05, "*"))


class _Markdown:
    """How a markup language writes the parts of a table."""

    plus_minus = "±"
    percent = "%"

    def escape(self, text: str) -> str:
        """Plain text."""
        return escape_markdown(text)

    def number(self, text: str) -> str:
        """A number, with its sign."""
        return text.replace("-", "−")

    def formula(self, text: str) -> str:
        """A condition such as ``p < .05``."""
        return text

    def bold(self, text: str) -> str:
        """The best figure of a column."""
        return f"**{text}**"

    def mark(self, mark: str) -> str:
        """A mark of significance."""
        return self.escape(mark)

    def whole(self, rows: Sequence[Sequence[str]], caption: str) -> str:
        """The table, with its header as the first row."""
        header, *lines = (f"| {' | '.join(row)} |" for row in rows)
        rule = f"|:---|{'---:|' * (len(rows[0]) - 1)}"
        return "\n".join([header, rule, *lines, "", caption])


class _LaTeX(_Markdown):
    plus_minus = r"$\pm$"
    percent = r"\%"

    def escape(self, text: str) -> str:
        return escape_latex(text)

    def number(self, text: str) -> str:
        return re.sub(r"[-+]", r"$\g<0>$", text)

    def formula(self, text: str) -> str:
        return f"${text}$"

    def bold(self, text: str) -> str:
        return rf"\textbf{{{text}}}"

    def mark(self, mark: str) -> str:
        return f"$^{{{mark}}}$" if mark else ""

    def whole(self, rows: Sequence[Sequence[str]], caption: str) -> str:
        header, *lines = (rf"{' & '.join(row)} \\" for row in rows)
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
                r"\toprule",
                header,
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{caption}}}",
                r"\end{table}",
            ]
        )


_LAYOUTS = {"markdown": _Markdown(), "latex": _LaTeX()}


def comparison_table(comparison: Comparison, layout: str) -> str:
    """A comparison as a table for a paper: the best mean in bold, significant differences marked, and a caption.

    Figures are in per cent with one decimal; mean squared errors and BLEU keep their scale. The marks are those of the
    bootstrap's p-value of each difference from the first system, not corrected for multiple comparisons. LaTeX needs
    the package ``booktabs``.

    Args:
        comparison: the result of ``structattn.compare``.
        layout: ``"markdown"`` or ``"latex"``.

    Returns:
        A table of systems in lines, with its caption below or in its environment.

    Raises:
        ConfigError: for any other layout.

    Example:
        >>> from structattn.training import Significance
        >>> from structattn.training.comparison import Comparison
        >>> from structattn.training.comparison import Difference, Group
        >>> groups = [Group("transformer", (), (0.875,), 0.875, None), Group("disan", (), (0.9,), 0.9, 0.011)]
        >>> difference = Difference("transformer", "disan", Significance(0.025, 0.004, 0.046, 0.031, None), ())
        >>> print(comparison_table(Comparison("accuracy", "dev", 545, tuple(groups), (difference,)), "markdown"))
        | system | seeds | accuracy (%) | difference | 95 % interval | p |
        |:---|---:|---:|---:|---:|---:|
        | transformer | 1 | 87.5 |  |  |  |
        | disan | 1 | **90.0** ± 1.1\\* | +2.5 | +0.4 to +4.6 | .031 |
        <BLANKLINE>
        545 examples (dev); mean ± standard deviation over seeds, the best in bold. Differences from ... p < .01.
    """
    if layout not in _LAYOUTS:
        raise ConfigError(f"unknown layout {layout!r}{suggest(layout, _LAYOUTS)}; known: {', '.join(_LAYOUTS)}")
    style = _LAYOUTS[layout]
    factor, decimals = _SCALES.get(comparison.metric, (100, 1))
    sign = 1 if metric(comparison.metric).greater_is_better else -1

    def number(value: float, *, signed: bool = False) -> str:
        return style.number(f"{factor * value:{'+' if signed else ''}.{decimals}f}")

    best = number(max((group.mean for group in comparison.groups), key=lambda mean: sign * mean))
    unit = f" ({style.percent})" if factor == 100 else ""
    header = ["system", "seeds", f"{comparison.metric.replace('_', ' ')}{unit}"]
    header += ["difference", f"95 {style.percent} interval", style.formula("p")] if comparison.differences else []
    rows = [header]
    for group, difference in zip(comparison.groups, (None, *comparison.differences), strict=True):
        mean = number(group.mean)
        score = style.bold(mean) if mean == best else mean
        score += "" if group.deviation is None else f" {style.plus_minus} {number(group.deviation)}"
        row = [style.escape(group.name), str(len(group.values)), score]
        if difference is None:
            row += [""] * (len(header) - len(row))
        else:
            test = difference.significance
            row[-1] += style.mark(_mark(test.bootstrap_p))
            ends = f"{number(test.low, signed=True)} to {number(test.high, signed=True)}"
            row += [number(test.difference, signed=True), ends, style.formula(format_probability(test.bootstrap_p))]
        rows.append(row)
    return style.whole(rows, _caption(comparison, style))


def flips_page(comparison: Comparison, data: str | None = None) -> str:
    """A page with the examples on which a system is better or worse than the first, in one self-contained HTML file.

    Args:
        comparison: the result of ``structattn.compare``.
        data: the file that was compared on, if it is not a split of the runs.

    Returns:
        An HTML document: all systems, then for each pair the examples that flipped, the largest changes first, with the
        command that opens each in the explorer.

    Raises:
        ConfigError: for a single system.

    Example:
        >>> from structattn.training import Significance
        >>> from structattn.training.comparison import Comparison
        >>> from structattn.training.comparison import Difference, Group
        >>> groups = (Group("plain", (), (0.8,), 0.8, None), Group("disan", (), (0.9,), 0.9, None))
        >>> flips = (Flip("7", ("a fine film",), "pos", ("neg",), ("pos",), True),)
        >>> difference = Difference("plain", "disan", Significance(0.1, 0.0, 0.2, 0.04, None), flips)
        >>> "a fine film" in flips_page(Comparison("accuracy", "dev", 10, groups, (difference,)))
        True
    """
    if not comparison.differences:
        raise ConfigError("examples that flipped: expected at least two systems to compare, got one")
    rows = [["system", "seeds", "mean", "difference", "95 % interval", "p"]]
    for group, difference in zip(comparison.groups, (None, *comparison.differences), strict=True):
        test = None if difference is None else difference.significance
        shown = [] if test is None else [f"{test.difference:+.4f}", f"{test.low:+.4f} to {test.high:+.4f}"]
        probability = [] if test is None else [format_probability(test.bootstrap_p)]
        row = [group.name, str(len(group.values)), f"{group.mean:.4f}", *shown, *probability]
        rows.append([*row, *[""] * (len(rows[0]) - len(row))])
    return page(
        f"{comparison.metric.replace('_', ' ')} on {comparison.split}",
        [
            Section(
                "Systems", table(rows), note="Intervals and p-values of a paired bootstrap over examples and seeds."
            ),
            *(_flips_section(comparison, difference, data) for difference in comparison.differences),
        ],
        lead=f"{comparison.num_examples:,} examples",
    )


def explore_flip(comparison: Comparison, difference: Difference, flip: Flip, data: str | None = None) -> str | None:
    """The command that opens an example in the explorer, with a run of each system whose answers differ.

    ``None`` if a run has no model, or its examples are neither a split of it nor a file.
    """
    source = ["--split", comparison.split] if data is None else ["--data", data]
    folders = {group.name: group.folders for group in comparison.groups}
    seconds = zip(folders[difference.second], flip.second, strict=False)
    firsts = zip(folders[difference.first], flip.first, strict=False)
    pairs = ((one, other) for (one, new), (other, old) in itertools.product(seconds, firsts) if new != old)
    runs = next(pairs, ())
    if not runs or (data is None and comparison.split not in ("dev", "test")):
        return None
    if not all(RunFolder(run).best.is_dir() for run in runs):
        return None
    return shlex.join(["structattn", "explore", *map(str, runs), *source, "--example", flip.id])


def _flips_section(comparison: Comparison, difference: Difference, data: str | None) -> Section:
    commands = {flip.id: explore_flip(comparison, difference, flip, data) for flip in difference.flips}
    won, lost = ([flip for flip in difference.flips if flip.won == side] for side in (True, False))
    tables = [
        table(_flip_rows(flips, difference, commands), caption=f"{name} ({len(flips):,})")
        for name, flips in (("better", won), ("worse", lost))
        if flips
    ]
    return Section(
        f"{difference.second} against {difference.first}",
        "".join(tables),
        note=f"Better on {len(won):,} of {comparison.num_examples:,} examples, worse on {len(lost):,}; "
        "the largest changes first.",
    )


def _flip_rows(flips: Sequence[Flip], difference: Difference, commands: Mapping[str, str | None]) -> list[list[str]]:
    texts = max(len(flip.texts) for flip in flips)
    names = ["text"] if texts == 1 else [f"text {number + 1}" for number in range(texts)]
    opens = ["explore"] if any(commands[flip.id] for flip in flips) else []
    rows = [["example", *names, "gold", difference.first, difference.second, *opens]]
    for flip in flips:
        shown = [*flip.texts, *[""] * (texts - len(flip.texts))]
        answers = map(format_answers, ((flip.gold,), flip.first, flip.second))
        rows.append([flip.id, *shown, *answers, *(commands[flip.id] or "" for _ in opens)])
    return rows


def format_answers(answers: Sequence[str | float]) -> str:
    """The answers of several runs in short: ``3.25 4.00``, or with how many runs gave them ``pos ×2, neg``."""
    if any(isinstance(answer, float) for answer in answers):
        return " ".join(f"{answer:.2f}" for answer in answers)
    return ", ".join(f"{answer} ×{count}" if count > 1 else f"{answer}" for answer, count in Counter(answers).items())


def _mark(probability: float) -> str:
    return next((mark for level, mark in _LEVELS if probability < level), "")


def format_probability(value: float) -> str:
    """A p-value without the zero before the point; the third decimal only if it is not zero."""
    return "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0").removesuffix("0")


def _caption(comparison: Comparison, style: _Markdown) -> str:
    caption = (
        f"{comparison.num_examples:,} examples ({style.escape(comparison.split)}); mean {style.plus_minus} standard "
        "deviation over seeds, the best in bold."
    )
    if comparison.differences:
        levels = ", ".join(
            f"{style.mark(mark)} {style.formula(f'p < {format_probability(level)}')}"
            for level, mark in reversed(_LEVELS)
        )
        several = ", not corrected for multiple comparisons" if len(comparison.differences) > 1 else ""
        caption += (
            f" Differences from {style.escape(comparison.groups[0].name)} with 95 {style.percent} interval and p-value "
            f"of a paired bootstrap over examples and seeds; {levels}{several}."
        )
    return caption
