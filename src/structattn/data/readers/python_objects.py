"""Examples from Python objects: data frames, datasets, mappings, tuples, texts."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.fields import Column, Columns, Location, Record, check_target, is_treebank_row
from structattn.errors import ParseError, shown
from structattn.files.text import is_unicode
from structattn.syntax.sentence import Sentence


def read_objects(
    data: Iterable[Any],
    *,
    text_column: Column | Sequence[Column] | None = None,
    label_column: Column | Sequence[Column] | None = None,
    id_column: Column | None = None,
    target: str | None = None,
    num_texts: int = 1,
    name: str = "data",
) -> Iterator[Example]:
    """The examples of a data frame, a data set, or an iterable of mappings, tuples, examples, sentences or texts.

    If an example has two texts, a tuple of two texts is a pair without a label; errors call the data ``name``. Rows of
    a treebank in columns, as ``structattn convert`` writes them, keep their trees.
    """
    if target is not None:
        check_target(target)
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        # The parts of a ``datasets.DatasetDict`` have to be passed one by one.
        got = f"{type(data).__name__} with the keys {shown([*data])}" if isinstance(data, Mapping) else shown(data)
        raise ParseError(f"expected a data frame, a data set or a list of examples, got {got}", file=name)
    columns = Columns.from_options(text_column, label_column, id_column)
    names = _find_class_names(data)
    resolved: dict[tuple[Column, ...], Columns] = {}
    header = _find_header(data)
    rows: Iterator[Any] = iter(data if header is None else _read_rows(data, header))
    if columns.text is None:
        rows, is_treebank = _look_at_first(rows)
        if is_treebank:
            from structattn.data.treebank.example_rows import make_examples  # which other objects do not need

            yield from make_examples(map(_make_plain, rows), name)
            return
    for number, row in enumerate(rows):
        location = Location(name, number + 1, is_line=False)
        if isinstance(row, Example):
            yield _check_characters(row, location)
            continue
        if isinstance(row, str | Sentence) or _is_pair(row, num_texts):
            yield _check_characters(Example(row, id=str(number), row=number + 1), location)
            continue
        if isinstance(row, tuple):
            row = _name_values(row, location)
        if not isinstance(row, Mapping):
            expected = "a mapping, a tuple (text, label), an Example, a Sentence or a text"
            raise location.error(f"expected {expected}, got {shown(row, width=40)}")
        keys = tuple(row) if header is None else header
        if keys not in resolved:
            resolved[keys] = columns.resolve(keys, location)
        values = _to_plain(row, resolved[keys], names, location)
        yield _check_characters(Record(location, values, resolved[keys], number).example(target), location)


def _look_at_first(rows: Iterator[Any]) -> tuple[Iterator[Any], bool]:
    """The rows, and whether they are those of a treebank, as ``structattn convert`` writes them."""
    first = list(itertools.islice(rows, 1))
    is_treebank = bool(first) and isinstance(first[0], Mapping) and is_treebank_row(first[0])
    return itertools.chain(first, rows), is_treebank


def _make_plain(value: Any) -> Any:
    """Python's lists and numbers for those of NumPy and pandas; ``None`` for what is missing."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: _make_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(item) for item in value]
    # From pandas, if the caller has imported it.
    is_missing = value is getattr(sys.modules.get("pandas"), "NA", None)
    return None if is_missing or (isinstance(value, float) and value != value) else value


def _check_characters(example: Example, location: Location) -> Example:
    """The example, if its words, label and id can be encoded: no file or model can contain half of a surrogate pair."""
    for text in (*(" ".join(sentence.words) for sentence in example.sentences), example.label, example.id):
        if isinstance(text, str) and not is_unicode(text):
            raise location.error(f"expected characters, got half of a surrogate pair in {shown(text, width=40)}")
    return example


def _find_header(data: object) -> tuple[Any, ...] | None:
    """The columns of a data frame, repeated ones included; ``None`` for anything else."""
    return tuple(data.columns) if hasattr(data, "itertuples") and hasattr(data, "columns") else None


def _read_rows(frame: Any, header: Sequence[Any]) -> Iterator[Mapping[Any, Any]]:
    """The rows of a data frame."""
    return (dict(zip(header, row, strict=True)) for row in frame.itertuples(index=False, name=None))


def _find_class_names(data: object) -> Mapping[str, Sequence[str]]:
    """Columns of a ``datasets.Dataset`` whose numbers stand for names."""
    features = getattr(data, "features", None)
    columns = features.items() if isinstance(features, Mapping) else ()
    # A list of tags has the names in the feature of its items.
    items = {column: getattr(feature, "feature", feature) for column, feature in columns}
    names = {column: getattr(item, "names", None) for column, item in items.items()}
    return {column: classes for column, classes in names.items() if isinstance(classes, list)}


def _is_pair(row: object, num_texts: int) -> bool:
    """Whether a row is the two texts of a pair, rather than a text and its label."""
    is_pair = isinstance(row, tuple) and len(row) == num_texts == 2
    return is_pair and all(isinstance(part, str | Sentence) for part in row)  # type: ignore[attr-defined]


def _name_values(row: tuple[Any, ...], location: Location) -> dict[str, Any]:
    if len(row) == 2:
        return {"text": row[0], "label": row[1]}
    if len(row) == 3:
        return {"text1": row[0], "text2": row[1], "label": row[2]}
    raise location.error(f"expected a tuple (text, label) or (text, second text, label), got {len(row)} values")


def _to_plain(
    row: Mapping[Any, Any], columns: Columns, names: Mapping[str, Sequence[str]], location: Location
) -> Mapping[Any, Any]:
    """The row with its label as a Python value: not NumPy's, ``None`` if it is missing, a name instead of a number."""
    if columns.label is None:
        return row
    if isinstance(columns.label, tuple):
        return {**row, **{column: _make_plain(row[column]) for column in columns.label}}
    label = _make_plain(row[columns.label])
    classes = names.get(str(columns.label))
    if classes is not None and isinstance(label, list):
        label = [_find_name(tag, classes, location) for tag in label]
    elif classes is not None:
        label = _find_name(label, classes, location)
    return {**row, columns.label: label}


def _find_name(label: Any, names: Sequence[str], location: Location) -> Any:
    """The name of a class; ``None`` for -1, by which ``datasets`` marks examples without a label."""
    if not isinstance(label, int) or label == -1:
        return None if label == -1 else label
    if not 0 <= label < len(names):
        raise location.error(f"expected a class from 0 to {len(names) - 1}, or -1 for none, got {label}")
    return names[label]
