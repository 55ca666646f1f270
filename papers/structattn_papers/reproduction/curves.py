"""Learning curves from records: a line for each system over the sizes of the training data, with its deviation."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from structattn.pictures import Series, line_chart, line_panels
from structattn_papers.reproduction.figures import Figure


def learning_curve(
    lines: Mapping[str, Mapping[int, Figure | None]],
    places: Sequence[str],
    *,
    title: str,
    against: str | None = None,
    x_label: str = "training examples",
    y_label: str = "accuracy, per cent",
) -> str:
    """A picture of figures over places, with bands of one standard deviation over the seeds to either side.

    Args:
        lines: for each system its figure at each place; where it is missing, the line goes straight to the next.
        places: names of the places.
        title: a heading.
        against: the system that the others are compared with, each in a panel of its own; ``None`` for one chart.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.

    Returns:
        An SVG.

    Example:
        >>> lines = {"plain": {0: Figure((70.0, 72.0)), 1: Figure((80.0, 81.0))}, "tree": {0: Figure((75.0,)), 1: None}}
        >>> learning_curve(lines, ["100", "300"], title="TREC").count('class="sa-point"')
        3
    """
    series = {}
    for name, figures in lines.items():
        known = {place: one for place, one in figures.items() if one is not None}
        if known:
            deviations = [stdev(one.values) if len(one.values) > 1 else 0.0 for one in known.values()]
            means = [mean(one.values) for one in known.values()]
            series[name] = Series(name.replace("`", ""), list(known), means, errors=deviations)
    baseline = series.pop(against) if against in series and len(series) > 1 else None
    drawn = list(series.values())
    if baseline is None:
        return line_chart(drawn, title=title, x_names=places, x_label=x_label, y_label=y_label, bands=True)
    columns = 2 if len(drawn) == 4 else 3
    return line_panels(drawn, baseline, title=title, x_names=places, x_label=x_label, y_label=y_label, columns=columns)
