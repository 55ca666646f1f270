"""Learning curves from records: a line for each system over the sizes of the training data, with its deviation."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from structattn.pictures import Series, line_chart
from structattn.reproduction.figures import Figure


def learning_curve(
    lines: Mapping[str, Mapping[int, Figure | None]],
    places: Sequence[str],
    *,
    title: str,
    x_label: str = "training examples",
    y_label: str = "accuracy, per cent",
) -> str:
    """A picture of figures over places, whose bands reach a standard deviation over the seeds to either side.

    Args:
        lines: for each system its figure at each place; where there is none, the line goes straight to the next.
        places: what the places are called.
        title: a heading.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.

    Returns:
        An SVG.

    Example:
        >>> lines = {"plain": {0: Figure((70.0, 72.0)), 1: Figure((80.0, 81.0))}, "tree": {0: Figure((75.0,)), 1: None}}
        >>> learning_curve(lines, ["100", "300"], title="TREC").count('class="sa-point"')
        3
    """
    series = []
    for name, figures in lines.items():
        known = {place: one for place, one in figures.items() if one is not None}
        if known:
            deviations = [stdev(one.values) if len(one.values) > 1 else 0.0 for one in known.values()]
            means = [mean(one.values) for one in known.values()]
            series.append(Series(name.replace("`", ""), list(known), means, errors=deviations))
    return line_chart(series, title=title, x_names=places, x_label=x_label, y_label=y_label, bands=True)
