"""One bad item among many loses nothing: the others are answered, it is named as in the user's file, or all stops."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import structattn as sa
from backbones import MINILM, minilm_tokenizer, save_tiny
from small_models import sentence_model
from structattn.cli import main
from structattn.data import Example
from structattn.data.shortening import shorten_text
from structattn.errors import ConfigError, StructAttnError
from structattn.files.item_faults import collecting_faults
from structattn.parsing.missing_trees import MissingTrees
from structattn.parsing.parse_texts import parse_each
from structattn.serving import ModelService
from structattn.tasks import SENTIMENT

pytestmark = pytest.mark.integration

ROWS = [(f"a {word} film", mood) for word, mood in (("fine", "good"), ("dull", "bad"))] * 6
LONG = " ".join(["walking"] * 60)
needs_minilm = pytest.mark.skipif(not MINILM.is_dir(), reason="needs the extra test, with MiniLM")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model of words on a backbone with 24 positions."""
    folder = tmp_path_factory.mktemp("runs")
    save_tiny(folder / "backbone", max_position_embeddings=24)
    embedder = {"name": "backbone", "folder": str(folder / "backbone")}
    options: dict[str, Any] = {"options": {"dim": 8}, "optimization": {"epochs": 1}}
    return sa.train(ROWS, ROWS, encoder="disan", embedder=embedder, out=folder / "run", **options).folder


ROW = "1\tfine\t_\t_\t_\t_\t{}\t_\t_\t_\n\n"
# A file, the ids that are predicted, and what is said of the others: the line is that of the file.
FILES = {
    "a long text": ("a.txt", f"a fine film\n{LONG}\n\ndull\n", ["0", "2", "3"], ["a.txt:2: the text 'walking"]),
    "tabs": ("a.txt", "a fine film\na\tb\tc\ndull\n", ["0", "2"], ["a.txt:2: expected one sentence, or two separated"]),
    "a pair": ("a.txt", "a fine film\na\tb\ndull\n", ["0", "2"], ["takes one sentence, example 1 (line 2) has 2"]),
    "JSON lines": (
        "a.jsonl",
        '{"text": "fine"}\n{"text": null}\n{"text":\n{"label": 1}\n{"text": "dull"}\n',
        ["0", "4"],
        [
            "a.jsonl:2: expected text or a list of words",
            "a.jsonl:3: expected a JSON object",
            "a.jsonl:4: expected a col",
        ],
    ),
    "a JSON array": ("a.json", '[{"text": "fine"}, 3, {"text": "dull"}]', ["0", "2"], ["item 2: expected a JSON obj"]),
    "a treebank": (
        "a.conllu",
        "".join(ROW.format(head) for head in (0, 7, 0)),
        ["0", "2"],
        ["a.conllu:3: expected a head from 0 to 1, got '7'"],
    ),
    "documents": (
        "a.conllu",
        "".join(
            f"# newdoc id = {name}\n# label = good\n{ROW.format(head)}{ROW.format(0)}"
            for name, head in (("a", 0), ("b", 7), ("c", 0))
        ),
        ["a", "c"],
        ["a.conllu:9: expected a head from 0 to 1, got '7'"],
    ),
    "bytes": ("a.txt", "a fine film\nf\udce9\ndull\n", ["0", "2"], ["a.txt:2: expected UTF-8 text, but byte 2"]),
    "a table": ("a.csv", "text,label\nfine,x\na,b,c\ndull,y\n", ["0", "2"], ["a.csv:3: expected 2 comma-separated"]),
}


@needs_minilm
@pytest.mark.parametrize("case", FILES)
def test_predict_answers_the_others(
    case: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content, ids, messages = FILES[case]
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content, encoding="utf-8", errors="surrogateescape")
    assert main(["predict", str(run), "--data", name]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["id"] for line in captured.out.splitlines()] == ids
    assert f"{len(messages)} fault" in captured.err
    for message in messages:
        assert message in captured.err
    assert main(["predict", str(run), "--data", name, "--strict"]) == 2
    assert messages[0] in capsys.readouterr().err


@needs_minilm
def test_long_texts_are_cut_by_choice_and_counted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "long.txt"
    file.write_text(f"a fine film\n{LONG}\n", encoding="utf-8")
    assert main(["predict", str(run), "--data", str(file), "--truncate"]) == 0
    captured = capsys.readouterr()
    cut = json.loads(captured.out.splitlines()[1])
    assert "1 sentence truncated to 22 words" in captured.err  # 24 positions but two special tokens
    (expected,) = sa.load(run).predict([" ".join(["walking"] * 22)])
    assert cut["probabilities"] == pytest.approx(dict(expected.probabilities))


@needs_minilm
def test_only_whole_words_are_left_of_a_text() -> None:
    def shortened(*sentences: sa.Sentence) -> tuple[sa.Sentence, ...]:
        return shorten_text(sentences, minilm_tokenizer(), max_length=8)

    words = ["a", "xylophonist", "b", "c", "d", "e", "f", "g"]  # the second word has several subwords
    length = len(minilm_tokenizer()("xylophonist")["input_ids"]) - 2
    (sentence,) = shortened(sa.Sentence(words))
    assert sentence.words == tuple(words[: 1 + (length <= 5) + max(0, 5 - length)])
    pair = tuple(part.words for part in shortened(sa.Sentence(["a"] * 9), sa.Sentence(["b"])))
    assert pair == (("a",) * 4, ("b",))
    assert shortened(sa.Sentence(["a"])) == (sa.Sentence(["a"]),)


class Choosy:
    """Parses every text but those with an x."""

    name, version = "choosy", "1"

    def parse_texts(self, texts: Sequence[str]) -> list[list[sa.Sentence]]:
        if any("x" in text for text in texts):
            raise ConfigError("no x")
        return [[sa.Sentence(text.split(), dependency=sa.DependencyTree([0]))] for text in texts]

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[sa.Sentence]:
        raise NotImplementedError


def test_parsing_goes_on_after_a_text_that_cannot_be_parsed(tmp_path: Path) -> None:
    texts = [*"abxdexg"]
    for cache in (tmp_path / "cache", tmp_path / "cache"):
        with collecting_faults() as faults:
            parsed = [sentence.words[0] for _, text in parse_each(texts, Choosy(), cache) for sentence in text]
        assert "".join(parsed) == "abdeg"
        assert [str(fault) for fault in faults] == ["text 3: no x", "text 6: no x"]
    with pytest.raises(StructAttnError, match="text 3: no x"):
        list(parse_each(texts, Choosy()))


@needs_minilm
def test_predict_names_the_file_of_several(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", f"fine\n{LONG}\n"), ("b", ""), ("c", "dull\n")):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    assert main(["predict", str(run), "--data", str(tmp_path / "*.txt"), "--format", "text"]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["id"] for line in captured.out.splitlines()] == ["a.txt/0", "c.txt/0"]
    assert f"{tmp_path / 'a.txt'}:2: the text 'walking" in captured.err
    assert f"{tmp_path / 'b.txt'}: expected at least one example" in captured.err


def test_a_sentence_without_a_tree_leaves_those_of_the_others(tmp_path: Path) -> None:
    trees = [["a", "b"], ["c", "d"], ["e", "f"]]
    file = tmp_path / "trees.conllu"
    sa.write_conllu(file, [sa.Sentence(words, dependency=sa.DependencyTree([0, 1])) for words in trees])
    finder = MissingTrees(str(file))
    examples = [Example(sa.Sentence(words)) for words in (["a", "b"], ["x", "y"], ["e", "f"])]
    with collecting_faults() as faults, pytest.raises(StructAttnError, match="'x y'"):
        finder(examples)
    assert not faults


def test_the_command_parse_answers_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "a.jsonl", tmp_path / "a.conllu"
    file.write_text('{"text": "Kids wash."}\n{"text": 3}\n{"text": "They sing."}\n', encoding="utf-8")
    assert main(["parse", str(file), "--out", str(out)]) == 2
    assert [sentence.metadata["sent_id"] for sentence in sa.read_conllu(out)] == ["0-1", "2-1"]
    assert f"1 fault; the rest is parsed: {file}:2: expected text" in capsys.readouterr().err
    assert main(["parse", str(file), "--out", str(out), "--strict"]) == 2


def served(request: dict[str, Any], predict: Callable[[list[Example]], Any] | None = None) -> dict[str, Any]:
    vocabulary = sa.Vocabulary(["dull", "fine"])
    model = sentence_model("emb_s2t", SENTIMENT, vocabulary=vocabulary, options={"dim": 4})
    service = ModelService(model, sa.parsing.load_parser("en"))
    try:
        return service.answer("/predict", request)
    finally:
        service.close()


def test_serve_answers_the_others() -> None:
    answers = served({"texts": ["fine", " ", "dull"]})["predictions"]
    assert list(answers[1]) == ["error"]
    assert "texts 1: expected a text" in answers[1]["error"]
    assert {answer["label"] for answer in (answers[0], answers[2])} <= {"positive", "negative"}
    for request in ({"texts": ["fine", " "], "strict": True}, {"texts": ["", " "]}):
        with pytest.raises(StructAttnError, match="expected a text"):
            served(request)


def test_rows_of_collections_are_counted_from_1(tmp_path: Path) -> None:
    frame = [{"text": "fine", "label": "good"}, {"text": "dull", "label": None}]
    with pytest.raises(ConfigError, match=r"training example 1 \(row 2\) has no label"):
        sa.train(frame, frame[:1], encoder="emb_s2t", out=tmp_path / "run")
