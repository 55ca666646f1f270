"""A lattice: states in rows, steps in columns, and between neighbouring steps a line for each pair of states.

Nodes have weights of their own, and a path runs through all steps.

Reference: Kim et al. (2017), Structured attention networks, section 4.3 and the figure of its fact selection.
"""

from collections.abc import Sequence
from typing import Any

from structattn.pictures import Limits, Panel
from structattn.pictures.drawn_numbers import Number
from structattn.pictures.svg import (
    MARGIN,
    colour,
    element,
    find_top,
    isolate,
    number,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)

_PITCH, _GAP, _RADIUS = 26.0, 150.0, 8.0


def lattice(
    states: Sequence[str],
    steps: Sequence[str],
    nodes: Any,
    *,
    edges: Sequence[Any],
    path: Sequence[int] = (),
    threshold: Number = 0.01,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Marginals of a chain: a node is the darker, the more probable its state at that step; an edge likewise.

    Args:
        states: names of the rows.
        steps: names of the columns.
        nodes: ``(step, state)``: ``p(z_k = i)``, as nested sequences, an array or a tensor.
        edges: for each step but the last ``(state, state)``: ``p(z_k = i, z_{k+1} = j)``.
        path: the state of each step that is ringed, such as the true one.
        threshold: edges up to this probability are left out.
        title: a heading.
        notes: lines of text below.

    Raises:
        ValueError: if the numbers of states, steps and edges do not fit together.

    Example:
        >>> nodes, edges = [[0.75, 0.25], [0.25, 0.75]], [[[0, 0.75], [0.25, 0]]]
        >>> svg = lattice(["Mary left", "John came"], ["1", "2"], nodes, edges=edges, path=[0, 1])
        >>> svg.count('class="sa-edge"'), svg.count('class="sa-node"')
        (2, 4)
    """
    of_steps = Panel(steps, states, nodes).matrix()
    of_edges = [Panel(states, states, one).matrix() for one in edges]
    if len(of_edges) != max(0, len(steps) - 1):
        raise ValueError(f"lattice expects edges between {len(steps)} steps, got {len(of_edges)} matrices")
    if path and (len(path) != len(steps) or not all(0 <= state < len(states) for state in path)):
        raise ValueError(f"lattice expects as path one of {len(states)} states for each of {len(steps)} steps")
    scale = Limits(0.0, 1.0).scale([])
    left = MARGIN + max((text_width(visible(state), 13) for state in states), default=0.0) + 2 * _RADIUS + 6
    top = find_top(title) + 30

    def place(step: int, state: int) -> tuple[float, float]:
        return left + _GAP * step, top + _PITCH * (state + 0.5)

    lines = []
    for step, matrix in enumerate(of_edges):
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                if value is not None and value > threshold:
                    lines.append((value, _edge(place(step, i), place(step + 1, j), value, (states[i], states[j]))))
    # The darkest lie on top.
    body = [line for _, line in sorted(lines, key=lambda item: item[0])]
    for step, weights in enumerate(of_steps):
        body.append(text(left + _GAP * step, top - 10, steps[step], size=11, role="soft", anchor="middle"))
        for state, weight in enumerate(weights):
            x, y = place(step, state)
            hint = tooltip(f"{steps[step]}: {isolate(visible(states[state]))}: {weight or 0.0:.3f}")
            dot = element("circle", cx=x, cy=y, r=_RADIUS - 2, **colour(scale, weight or 0.0))
            rim = stroke("series1", 2.5) if path and path[step] == state else stroke("soft", 0.8)
            body.append(element("g", hint + dot + element("circle", cx=x, cy=y, r=_RADIUS, **rim), class_="sa-node"))
    body += [
        text(left - 2 * _RADIUS, place(0, row)[1] + 4.5, state, size=13, anchor="end")
        for row, state in enumerate(states)
    ]
    bottom = top + _PITCH * max(len(states), 1)
    body += [text(MARGIN, bottom + 26 + 20 * row, note, size=12) for row, note in enumerate(notes)]
    written = max((text_width(visible(note), 12) for note in notes), default=0.0)
    width = max(left + _GAP * max(0, len(steps) - 1) + 50, 2 * MARGIN + written)
    height = bottom + (12 + 20 * len(notes) if notes else 0) + MARGIN
    return picture(width, height, body, label=title or "lattice", title=title)


def _edge(start: tuple[float, float], end: tuple[float, float], value: Number, names: tuple[str, str]) -> str:
    hint = tooltip(f"{isolate(visible(names[0]))} → {isolate(visible(names[1]))}: {value:.3f}")
    path = f"M{number(start[0])} {number(start[1])}L{number(end[0])} {number(end[1])}"
    line = element("path", d=path, **stroke("series0", 1 + 3 * min(value, 1.0)))
    return element("g", hint + line, class_="sa-edge", opacity=round(0.1 + 0.9 * min(value, 1.0), 3))
