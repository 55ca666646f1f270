"""Examples from Python objects: data frames, datasets, mappings, tuples, texts."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.fields import Column, Columns, Item, Place, check_target
from structattn.errors import ParseError, shown
from structattn.files.text import is_unicode
from structattn.syntax import Sentence


def read_objects(
    data: Iterable[Any],
    *,
    text_column: Column | Sequence[Column] | None = None,
    label_column: Column | None = None,
    id_column: Column | None = None,
    target: str | None = None,
    num_texts: int = 1,
    name: str = "data",
) -> Iterator[Example]:
    """Stream the examples of a collection.

    Args:
        data: a pandas ``DataFrame``, a ``datasets.Dataset``, or an iterable of mappings such as
            ``{"text": ..., "label": ...}``, of tuples ``(text, label)`` or ``(text, second text, label)``, of
            ``Example``, of ``Sentence``, or of texts.
        text_column: the column of texts, two of them for pairs; found by its name if ``None``, see ``read_csv``.
        label_column: the column of labels. In a ``datasets.Dataset`` with class names, the numbers of classes become
            their names.
        id_column: the column of ids.
        target: ``"class"`` or ``"score"``, how labels are read, or ``"none"`` to ignore them; by default, numbers with
            a decimal point are scores.
        num_texts: how many texts an example has; if it is two, a tuple of two texts is a pair without a label.
        name: what error messages call the data.

    Yields:
        One example for each row. A label that is ``None``, NaN or ``pandas.NA`` is unknown.

    Raises:
        ParseError: for a data frame that has one of these columns twice; for a row that is none of these or contains
            half of a surrogate pair, with its number from 1.

    Example:
        >>> [(example.sentences[0].words, example.label) for example in read_objects([("so fine", "pos"), ("dull", 0)])]
        [(('so', 'fine'), 'pos'), (('dull',), '0')]
        >>> next(read_objects([{"review": "so fine", "stars": 4.5}])).label
        4.5
        >>> len(next(read_objects([("a dog", "an animal")], num_texts=2)).sentences)
        2
    """
    if target is not None:
        check_target(target)
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        # The parts of a ``datasets.DatasetDict`` have to be passed one by one.
        got = f"{type(data).__name__} with the keys {shown([*data])}" if isinstance(data, Mapping) else shown(data)
        raise ParseError(f"expected a data frame, a data set or a list of examples, got {got}", file=name)
    columns = Columns.given(text_column, label_column, id_column)
    names = _class_names(data)
    known: dict[tuple[Column, ...], Columns] = {}
    header = _header(data)
    for number, row in enumerate(data if header is None else _rows(data, header)):
        place = Place(name, number + 1, is_line=False)
        if isinstance(row, Example):
            yield _checked(row, place)
            continue
        if isinstance(row, str | Sentence) or _is_pair(row, num_texts):
            yield _checked(Example(row, id=str(number)), place)
            continue
        if isinstance(row, tuple):
            row = _named(row, place)
        if not isinstance(row, Mapping):
            expected = "a mapping, a tuple (text, label), an Example, a Sentence or a text"
            raise place.error(f"expected {expected}, got {shown(row, width=40)}")
        keys = tuple(row) if header is None else header
        if keys not in known:
            known[keys] = columns.found_in(keys, place)
        found = known[keys]
        yield _checked(Item(place, _plain(row, found, names), found, number).example(target), place)


def _checked(example: Example, place: Place) -> Example:
    """The example, if its words, label and id can be encoded: no file or model can contain half of a surrogate pair."""
    for text in (*(" ".join(one.words) for one in example.sentences), example.label, example.id):
        if isinstance(text, str) and not is_unicode(text):
            raise place.error(f"expected characters, got half of a surrogate pair in {shown(text, width=40)}")
    return example


def _header(data: object) -> tuple[Any, ...] | None:
    """The columns of a data frame, repeated ones included; ``None`` for anything else."""
    return tuple(data.columns) if hasattr(data, "itertuples") and hasattr(data, "columns") else None


def _rows(frame: Any, header: Sequence[Any]) -> Iterator[Mapping[Any, Any]]:
    """The rows of a data frame."""
    return (dict(zip(header, row, strict=True)) for row in frame.itertuples(index=False, name=None))


def _class_names(data: object) -> Mapping[str, Sequence[str]]:
    """Columns of a ``datasets.Dataset`` whose numbers stand for names."""
    features = getattr(data, "features", None)
    known = features.items() if isinstance(features, Mapping) else ()
    return {column: feature.names for column, feature in known if isinstance(getattr(feature, "names", None), list)}


def _is_pair(row: object, num_texts: int) -> bool:
    """Whether a row is the two texts of a pair, rather than a text and its label."""
    is_pair = isinstance(row, tuple) and len(row) == num_texts == 2
    return is_pair and all(isinstance(part, str | Sentence) for part in row)  # type: ignore[attr-defined]


def _named(row: tuple[Any, ...], place: Place) -> dict[str, Any]:
    if len(row) == 2:
        return {"text": row[0], "label": row[1]}
    if len(row) == 3:
        return {"text1": row[0], "text2": row[1], "label": row[2]}
    raise place.error(f"expected a tuple (text, label) or (text, second text, label), got {len(row)} values")


def _plain(row: Mapping[Any, Any], columns: Columns, names: Mapping[str, Sequence[str]]) -> Mapping[Any, Any]:
    """The row with its label as a Python value: not NumPy's, ``None`` if it is missing, a name instead of a number."""
    if columns.label is None:
        return row
    label = row[columns.label]
    label = label.item() if hasattr(label, "item") else label
    # From pandas, if the caller has imported it.
    is_missing = label is getattr(sys.modules.get("pandas"), "NA", None)
    if is_missing or (isinstance(label, float) and label != label):
        label = None
    if isinstance(label, int) and str(columns.label) in names and 0 <= label < len(names[str(columns.label)]):
        label = names[str(columns.label)][label]
    return {**row, columns.label: label}
