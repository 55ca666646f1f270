"""Documents: from JSON lines through a parser to forests with one label, and a run that learns from them."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import structattn as sa
from structattn.data import Example, PhraseTrees
from structattn.data.readers import read_examples
from structattn.data.readers.formats import recognise_format
from structattn.errors import ParseError
from structattn.parsing import read_raw_documents
from structattn.parsing.parsers import Document
from structattn.parsing.text_files import read_sentences, resolve_format
from structattn.syntax import Sentence
from structattn.tasks import SENTIMENT, Prediction
from structattn.tasks.answering import answer_by_length
from structattn.training import DataConfig, OptimizationConfig, RunConfig, run

Call = Callable[..., tuple[int, str, str]]
SENTENCES = {"It is fine .": [3, 3, 0, 3], "It is dull .": [3, 3, 0, 3], "Really !": [0, 1], "Sorry !": [0, 1]}
REVIEWS = [
    {"id": "a", "label": 1, "rating": 9, "stars": None, "text": "It is fine. Really!"},
    {"id": "b", "label": 0, "rating": 2, "stars": None, "text": "It is dull<br /><br />Sorry!"},
    {"id": "c", "label": 1, "rating": 8, "stars": None, "text": "Really!"},
]


def write(path: Path, *items: object) -> Path:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    return path


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    """A parser: the trees of the sentences that the reviews are made of."""
    known = {**SENTENCES, "It is dull": [3, 3, 0], "the keys to": [2, 0, 2], "he": [0]}
    path = tmp_path / "gold.conllu"
    sa.write_conllu(
        path,
        [
            Sentence(text.split(), dependency=sa.DependencyTree(heads, ["x"] * len(heads)))
            for text, heads in known.items()
        ],
    )
    return path


# Files that are parsed.


@pytest.mark.parametrize(
    ("file", "format", "expected"),
    [("a.csv.gz", None, "csv"), ("a.jsonl", None, "json"), ("a.txt", None, "text"), ("a.csv", "words", "words")],
)
def test_the_format_of_texts_is_that_of_the_name(file: str, format: str | None, expected: str) -> None:
    assert resolve_format(file, format, {}) == expected


def test_documents_keep_their_names_labels_and_paragraphs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *REVIEWS, {"label": True, "words": ["hush", "now"], "text=": "x"})
    first, second, _, words = read_raw_documents(path)
    assert first == Document("It is fine. Really!", "a", {"label": "1", "rating": "9"})
    assert second.text == "It is dull\n\nSorry!"
    assert words == Sentence(["hush", "now"], metadata={"sent_id": "3", "label": "True"})


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([1], "expected a JSON object"),
        (
            {"sentence1": "a", "sentence2": "b"},
            "expected one text, got two in sentence1 and sentence2: choose one as text_column",
        ),
        ({"text": 3}, "text or a list of words under 'text', got 3"),
    ],
)
def test_lines_that_are_no_documents(tmp_path: Path, item: object, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        list(read_raw_documents(write(tmp_path / "a.jsonl", {"text": "fine"}, item)))
    assert caught.value.line == 2


def test_the_sentences_of_a_pair_have_names_of_their_own_and_not_its_label(tmp_path: Path) -> None:
    pair = {"premise": "a cat", "hypothesis": "b", "label": "entailment"}
    found = list(read_sentences(write(tmp_path / "a.jsonl", pair), "json"))
    assert [(one.words, one.metadata) for one in found] == [
        (("a", "cat"), {"sent_id": "0-1"}),
        (("b",), {"sent_id": "0-2"}),
    ]


def test_a_parsed_document_carries_its_metadata_once(treebank: Path) -> None:
    first, second = sa.parse([Document("It is fine. Really!", "a", {"label": "1"})], str(treebank))
    origin = first.metadata["parser"]
    assert list(first.metadata) == ["newdoc id", "label", "sent_id", "text", "parser"]
    assert second.metadata == {"sent_id": "a-2", "text": "Really!", "parser": origin}
    (whole,) = sa.parse([Document("It is fine. Really!", "a", {"label": "1"})], str(treebank), whole=True)
    assert whole.metadata == {"label": "1", "sent_id": "a", "text": "It is fine. Really!", "parser": origin}
    assert whole.dependency is not None
    assert whole.dependency.heads == (3, 3, 0, 3, 0, 5)
    (empty,) = sa.parse([Document(" ", "a", {"label": "1"})], str(treebank))
    assert (empty.words, empty.metadata) == ((), {**first.metadata, "text": ""})


def test_json_lines_become_a_training_file(call: Call, treebank: Path, tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.jsonl", *REVIEWS), tmp_path / "a.conllu.gz"
    code, printed, _ = call("parse", source, "--parser", treebank, "--out", out)
    assert (code, printed) == (0, f"{out}  5 sentences, 13 words\n")
    assert recognise_format(out) == "documents"
    examples = list(SENTIMENT.read(out))
    assert [(one.id, one.label) for one in examples] == [("a", "positive"), ("b", "negative"), ("c", "positive")]
    document = examples[0].sentences[0]
    assert document.words == ("It", "is", "fine", ".", "Really", "!")
    assert {"sent_id", "text"}.isdisjoint(document.metadata)
    assert document.metadata["rating"] == "9"
    phrases = PhraseTrees("dependency")(document).constituency
    assert phrases is not None
    assert phrases.spans == [("ROOT", 0, 6), ("x", 0, 4), ("x", 4, 6)]
    # Some of them, in the order of the file.
    for given, names in ((["--limit", 1], "a"), (["--skip", 1, "--limit", 5], "bc")):
        assert call("parse", source, "--parser", treebank, "--out", tmp_path / "part.conllu", *given)[0] == 0
        assert "".join(one.id for one in read_examples(tmp_path / "part.conllu")) == names
    code, _, error = call("parse", source, "--parser", treebank, "--limit", 0)
    assert (code, error.count("\n")) == (2, 1)
    assert "--limit: expected at least 1, got 0" in error


def test_a_document_without_text_keeps_its_label(call: Call, treebank: Path, tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.jsonl", {"id": "x", "label": 1, "text": " "}, *REVIEWS), tmp_path / "a.conllu"
    for whole in ([], ["--whole"]):
        assert call("parse", source, "--parser", treebank, "--out", out, *whole)[0] == 0
        format = "documents" if not whole else "conllu"
        first = next(iter(read_examples(out, format)))
        assert (first.id, first.label, first.sentences[0].words) == ("x", "1", ())
    (found,) = sa.parse([Document("", "x", {"label": "1"})], str(treebank), constituency=True)
    assert (len(found), found.metadata["label"], len(found.constituency)) == (0, "1", 0)


def test_agreement_is_parsed_up_to_the_verb(call: Call, treebank: Path, tmp_path: Path) -> None:
    (tmp_path / "agr.text").write_text("the keys to are here <eos>\nhe sees <eos>\n")
    (tmp_path / "agr.gold").write_text("3\tare\tis\t1\n1\tsees\tsee\t0\n")
    out = tmp_path / "agr.conllu"
    assert call("parse", tmp_path / "agr.text", "--format", "agreement", "--parser", treebank, "--out", out)[0] == 0
    plain, parsed = list(read_examples(tmp_path / "agr.text")), list(read_examples(out))
    assert [(one.id, one.label, one.sentences[0].words) for one in parsed] == [
        (one.id, one.label, one.sentences[0].words) for one in plain
    ]
    assert [sa.inspection.num_attractors(one) for one in parsed] == [1, 0]
    assert parsed[0].sentences[0].dependency.heads == (2, 0, 2)


# Files that are read.


def test_treebanks_without_labels_stay_treebanks(tmp_path: Path) -> None:
    row = "1\tFine\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    for comments, name in (
        ("# newdoc id = a\n", "conllu"),
        ("# label = x\n", "conllu"),
        ("# newdoc\n# label = x\n", "documents"),
    ):
        (tmp_path / "a.conllu").write_text(comments + row)
        assert recognise_format(tmp_path / "a.conllu") == name
    found = list(read_examples(tmp_path / "a.conllu"))
    assert [(one.id, one.label) for one in found] == [("0", "x")]


def test_documents_that_do_not_start_or_have_bad_scores(tmp_path: Path) -> None:
    row = "1\tFine\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "a.conllu").write_text(f"{row}# newdoc id = b\n# label = x\n{row}")
    with pytest.raises(ParseError, match=r"expected a comment '# newdoc' at the first sentence"):
        list(read_examples(tmp_path / "a.conllu", format="documents"))
    (tmp_path / "a.conllu").write_text(f"# newdoc id = b\n# label = x\n{row}")
    with pytest.raises(ParseError, match="document b: expected a number as score, got 'x'"):
        list(read_examples(tmp_path / "a.conllu", target="score"))


# Runs.


def configuration(folder: Path, encoder: str) -> RunConfig:
    trees = {"trees": "dependency"} if encoder == "tree_transformer" else {}
    return RunConfig(
        "sentiment",
        encoder,
        DataConfig(str(folder / "train.conllu"), dev=str(folder / "dev.conllu"), **trees),  # type: ignore[arg-type]
        options={"dim": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0},
        classifier=sa.tasks.ClassifierConfig(hidden=8),
        optimization=OptimizationConfig(epochs=6, batch_tokens=24, learning_rate=0.02),
        out=str(folder / encoder),
        device="cpu",
    )


@pytest.mark.parametrize("encoder", ["tree_transformer", "transformer"])
def test_a_run_learns_from_documents(call: Call, treebank: Path, tmp_path: Path, encoder: str) -> None:
    write(tmp_path / "a.jsonl", *[{**REVIEWS[i % 3], "id": str(i)} for i in range(30)])
    for part, chosen in (("train", ["--limit", 24]), ("dev", ["--skip", 24])):
        command = ["parse", tmp_path / "a.jsonl", *chosen, "--parser", treebank, "--out", tmp_path / f"{part}.conllu"]
        assert call(*command)[0] == 0
    result = run(configuration(tmp_path, encoder))
    assert result.metrics["accuracy"] == 1.0
    # Python and torch alone need more.
    assert result.peak_memory > 50
    assert json.loads((tmp_path / encoder / "result.json").read_text())["peak_memory"] == result.peak_memory


def test_long_examples_are_answered_fewer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structattn.tasks.memory.TRIED_PAIRS", math.inf)  # an estimate asks too
    asked: list[list[int]] = []

    def answer(batch: Sequence[Example]) -> list[Prediction]:
        asked.append([len(example.sentences[0]) for example in batch])
        return [Prediction(example.id, example.id, None, {}) for example in batch]

    lengths = [3000, 5, 1500, 6, 2000, 1400, 7]
    examples = [Example([Sentence(["a"] * length)], id=str(number)) for number, length in enumerate(lengths)]
    found = answer_by_length(examples, answer, size_of=lambda one: len(one.sentences[0]), batch_size=4)
    assert [one.label for one in found] == [str(number) for number in range(7)]
    # 4 x 1400 x 1400 and 2 x 2000 x 2000 pairs of words are within 8 million, 2 x 3000 x 3000 are not.
    assert asked == [[5, 6, 7, 1400], [1500, 2000], [3000]]
