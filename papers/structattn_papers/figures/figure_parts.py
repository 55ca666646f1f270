"""What the scripts of figures here share: runs by name, seconds against length, files."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch

from structattn.data import SentenceBatch
from structattn.encoders import SentenceEncoder
from structattn.pictures import Series, line_chart, save

Runs = dict[str, list[str]]


def named(systems: Sequence[str]) -> Runs:
    """``name=RUN,RUN`` as names and their runs."""
    return {name: folders.split(",") for name, _, folders in (system.partition("=") for system in systems)}


def times_series(
    encoders: Mapping[str, SentenceEncoder],
    make_batch: Callable[[int], SentenceBatch],
    lengths: Sequence[int],
    *,
    repeats: int,
) -> list[Series]:
    """Milliseconds forward and back at each length, the best of some; each pass has a batch of its own, made before."""
    series = []
    for name, encoder in encoders.items():
        times = []
        for length in lengths:
            taken = []
            for _ in range(repeats + 1):
                given = make_batch(length)
                begun = time.perf_counter()
                encoder(given).states.sum().backward()
                taken.append(time.perf_counter() - begun)
            times.append(1000 * min(taken[1:]))
        series.append(Series(name, lengths, times))
    return series


def times_chart(series: Sequence[Series], *, batch: int) -> str:
    """Time against length as a picture."""
    return line_chart(
        series,
        title=f"{batch} sentences on {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}",
        x_label="words in each",
        y_label="milliseconds, forward and back",
        from_zero=True,
    )


def write(figures: Iterable[tuple[str, str]], folder: Path) -> None:
    """Each figure as an SVG file by its name, which is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in figures:
        save(folder / f"{name}.svg", svg)
        print(folder / f"{name}.svg")
