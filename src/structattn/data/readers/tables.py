"""Tab-separated tables: the GLUE layouts, any other by naming its columns, and SICK.

No CSV quoting: a field ends at a tab and nowhere else, and a quotation mark is text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from structattn.data.example import Example
from structattn.data.readers.fields import Place, check_target, label_of, sentence_of
from structattn.syntax import ConfigError, read_lines
from structattn.syntax.errors import shown
from structattn.syntax.files import Source

_TEXTS = (
    ("sentence1", "sentence2"),  # RTE, MNLI, STS-B with a header, counterfactual SNLI
    ("question", "sentence"),  # QNLI
    ("question1", "question2"),  # QQP
    ("#1 String", "#2 String"),  # MRPC
    ("premise", "hypothesis"),
    ("sentence_A", "sentence_B"),
    ("sentence",),  # SST-2
    ("text",),
)
_LABELS = ("label", "gold_label", "Quality", "is_duplicate", "score")
_IDS = ("id", "index", "pairID", "pair_ID")
_ROLES = ("first", "second", "label", "id")
_SICK = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


@dataclass(frozen=True)
class _Layout:
    """Which column holds what; ``header`` is the header line's fields, if the file has one."""

    texts: tuple[int, ...]
    label: int | None = None
    id: int | None = None
    header: tuple[str, ...] | None = None
    target: str = "class"


def read_tsv(
    path: Source,
    *,
    columns: Mapping[str, str | int] | None = None,
    target: str | None = None,
    tokenised: bool = False,
) -> Iterator[Example]:
    """A tab-separated table, one example a line.

    Known without ``columns``: a header with the column names of RTE, MRPC, QNLI, QQP, MNLI, SST-2 or counterfactual
    SNLI, and STS-B (scores) and CoLA without a header. With ``columns`` that are all numbers the file has no header.

    Raises:
        ConfigError: for a role in ``columns`` that is not known.
        ParseError: for an unknown layout, a column that the header lacks, or a line with too few or too many fields.
    """
    layout: _Layout | None = None
    count = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        fields = tuple(line.split("\t"))
        if layout is None:
            layout = _known_layout(fields, place) if columns is None else _given_layout(fields, columns, place)
            kind = check_target(layout.target if target is None else target)
            if layout.header is not None:
                continue
        _check_width(fields, layout, place)
        label = None if layout.label is None else label_of(fields[layout.label], place, target=kind)
        sentences = tuple(sentence_of(fields[text], tokenised=tokenised) for text in layout.texts)
        yield Example(sentences, label, id=str(count) if layout.id is None else fields[layout.id])
        count += 1


def read_sick(path: Source, *, target: str = "relatedness", tokenised: bool = False) -> Iterator[Example]:
    """SICK (Marelli et al. 2014): pairs with a relatedness score from 1 to 5 and an entailment judgement.

    Raises:
        ConfigError: for an unknown target.
        ParseError: if the header is another one, a line has not five fields, or a score is not from 1 to 5.
    """
    check_target(target, ("relatedness", "entailment"))
    layout = _Layout((1, 2), 3 if target == "relatedness" else 4, 0, _SICK)
    seen_header = False
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        fields = tuple(line.split("\t"))
        if not seen_header:
            if fields[:5] != _SICK:
                raise place.error(f"expected the header {' '.join(_SICK)}, got {shown(line)}")
            layout = _Layout(layout.texts, layout.label, layout.id, fields)
            seen_header = True
            continue
        _check_width(fields, layout, place)
        if target == "relatedness":
            label = label_of(fields[3], place, target="score")
            if isinstance(label, str) or not 1 <= label <= 5:
                raise place.error(f"expected a relatedness score from 1 to 5, got {shown(fields[3])}")
        else:
            label = label_of(fields[4], place, target="class")
        yield Example([sentence_of(fields[text], tokenised=tokenised) for text in layout.texts], label, id=fields[0])


def _known_layout(fields: Sequence[str], place: Place) -> _Layout:
    header = tuple(fields)
    for texts in _TEXTS:
        if all(name in header for name in texts):
            label = next((name for name in _LABELS if name in header), None)
            return _Layout(
                tuple(header.index(name) for name in texts),
                None if label is None else header.index(label),
                next((header.index(name) for name in _IDS if name in header), None),
                header,
                "score" if label == "score" else "class",
            )
    if len(fields) >= 7 and _is_number(fields[4]):  # STS-B: genre, file, year, id, score, two sentences, perhaps more
        return _Layout((5, 6), 4, target="score")
    if len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):  # CoLA: source, label, star, sentence
        return _Layout((3,), 1)
    raise place.error(
        "expected a header with columns such as sentence1, sentence2 and label, "
        f"got {shown(' | '.join(fields), width=80)}; say which columns to read: first=, second=, label=, id="
    )


def _given_layout(fields: Sequence[str], columns: Mapping[str, str | int], place: Place) -> _Layout:
    for role in columns:
        if role not in _ROLES:
            raise ConfigError(f"unknown column role {role!r}; known: {', '.join(_ROLES)}")
    if "first" not in columns:
        raise ConfigError(f"columns must say which column is 'first', got {', '.join(columns) or 'none'}")
    has_header = any(isinstance(column, str) for column in columns.values())
    found: dict[str, int] = {}
    for role, column in columns.items():
        if isinstance(column, str):
            if column not in fields:
                raise place.error(f"expected a column {column!r} in the header, got {', '.join(fields)[:80]}")
            found[role] = list(fields).index(column)
        elif 0 <= column < len(fields):
            found[role] = column
        else:
            raise place.error(f"expected a column {column} (from 0), got a line of {len(fields)} columns")
    texts = tuple(found[role] for role in ("first", "second") if role in found)
    return _Layout(texts, found.get("label"), found.get("id"), tuple(fields) if has_header else None)


def _check_width(fields: Sequence[str], layout: _Layout, place: Place) -> None:
    if layout.header is not None and len(fields) != len(layout.header):
        raise place.error(f"expected {len(layout.header)} tab-separated columns as in the header, got {len(fields)}")
    needed = 1 + max(column for column in (*layout.texts, layout.label, layout.id) if column is not None)
    if len(fields) < needed:
        raise place.error(f"expected at least {needed} tab-separated columns, got {len(fields)}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
