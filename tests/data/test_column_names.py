"""Columns are found whatever the case and underscores of their names; a guess is said, and a mistake gets a hint."""

from pathlib import Path
from typing import Any

import pytest

from structattn.cli import main
from structattn.data.readers.fields import Columns, Location
from structattn.data.readers.formats import describe_columns, read_examples
from structattn.errors import ParseError
from structattn.files.text import read_start

WHERE = Location("table.csv", 1)


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["Review Text", "Class"], {"text_column": "review_text"}, (("Review Text",), "Class", None)),
        (["TEXT", "LABEL", "ID"], {}, (("TEXT",), "LABEL", "ID")),
        (["Sentence_1", "sentence-2", "gold label"], {}, (("Sentence_1", "sentence-2"), "gold label", None)),
        (["text", "Text"], {"text_column": "Text"}, (("Text",), None, None)),
        (["body", "Stars"], {"text_column": "Body", "label_column": "stars"}, (("body",), "Stars", None)),
    ],
)
def test_case_and_underscores_make_no_difference(
    names: list[str], options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    columns = Columns.from_options(**options).resolve(names, WHERE)
    assert (columns.text, columns.label, columns.id) == expected


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["te_xt", "te xt"], {"text_column": "text"}, "expected one column 'text', got 2: 'te_xt, te xt'"),
        (["text", "category"], {"label_column": "categry"}, r"\(did you mean label_column category\?\)"),
        (["text", "category"], {"label_column": "zzz"}, "expected a column 'zzz', got 'text, category'$"),
        (
            ["id", "date", "review_body", "stars", "category"],
            {},
            "; perhaps text_column review_body and label_column category$",
        ),
        (["a", "b"], {}, r"without a header\)$"),
    ],
)
def test_a_column_that_is_not_there(names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        Columns.from_options(**options).resolve(names, WHERE)


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.csv", "id,Review,stars\n1,fine,5\n", {}, "texts from column Review, labels from stars"),
        ("a.csv", "id,Review,stars\n1,fine,5\n", {"text_column": "review"}, "labels from stars"),
        ("a.csv", "x,y\nfine,5\n", {"text_column": "x", "label_column": "y"}, ""),
        ("a.jsonl", '{"premise": "a", "hypothesis": "b"}\n', {}, "texts from column premise and hypothesis"),
    ],
)
def test_columns_that_were_guessed_are_described(
    tmp_path: Path, name: str, content: str, columns: dict[str, Any], expected: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    format = "csv" if name.endswith("csv") else "json"
    assert describe_columns(str(tmp_path / name), format, columns) == expected
    assert describe_columns(str(tmp_path / name), format, columns, read_start(tmp_path / name)) == expected
    assert len(list(read_examples(tmp_path / name, **columns))) == 1


@pytest.mark.parametrize("label", ["['good', 'long']", '["good"]'])
def test_a_list_of_labels_written_as_text_is_no_label(tmp_path: Path, label: str) -> None:
    quoted = label.replace('"', '""')
    (tmp_path / "a.csv").write_text(f'text,label\nfine,[good]\ndull,"{quoted}"\n', encoding="utf-8")
    with pytest.raises(ParseError, match=r"a.csv:3: expected one label, got a list of labels written as text, .\["):
        list(read_examples(tmp_path / "a.csv"))


def test_a_command_names_the_option_as_it_is_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("id,review_body,category\n1,fine,good\n2,dull,bad\n", encoding="utf-8")
    arguments = ["train", "--task", "classification", "--encoder", "emb_s2t", "--data.train", str(table)]
    for options, message in (
        ([], "perhaps --data.text_column review_body and --data.label_column category"),
        (["--data.text_column", "reviews_body"], "(did you mean --data.text_column review_body?)"),
    ):
        assert main([*arguments, *options]) == 2
        assert message in capsys.readouterr().err
