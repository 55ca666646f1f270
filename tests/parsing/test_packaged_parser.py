"""The English parser of the package: what is in it, what it finds, and where it is used without a word."""

import gzip
import hashlib
import itertools
import json
import logging
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml

import structattn as sa
from structattn.cli import main
from structattn.data import Example
from structattn.errors import ConfigError, MissingStructure
from structattn.explorer.plots import save_plots
from structattn.parsing import TreeParser, bridges, load_parser, to_pandas, to_spacy
from structattn.parsing.missing_trees import MissingTrees, locate_cache
from structattn.parsing.parsers import PACKAGED
from structattn.parsing.tree_parser import read_parser
from structattn.syntax import Sentence, format_conllu
from structattn.tasks import SentenceModel, get_task
from structattn.training import ParserConfig, RunResult
from structattn.training.parser_config import parser_optimization

Call = Callable[..., tuple[int, str, str]]
MODEL = PACKAGED["en"]
SENTENCES = {
    "Two kids wash their hands": (2, 3, 0, 5, 3),
    "The dogs bark.": (2, 3, 0, 3),
    "She gave him a red apple": (2, 0, 2, 6, 6, 2),
    "I think that he is right": (2, 0, 6, 6, 6, 2),
}
TREEBANK = """\
# sent_id = 7
# a remark
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tDo\tdo\tX\tVBP\tMood=Ind\t0\troot\t0:root\t_
2\tn't\tnot\tX\tRB\t_\t1\tdep\t1:dep\t_
2.1\tever\tever\tADV\tRB\t_\t_\t_\t1:advmod\t_
3\tbite\tbite\tX\tVB\t_\t1\tdep\t1:dep\tGloss=x

"""


@pytest.fixture
def trained(tmp_path: Path) -> RunResult:
    """MS-SAN with a distance in dependency trees, trained on texts without trees."""
    rows = [("Two kids wash their hands", "clean"), ("The dogs bark", "loud")] * 4
    return sa.train(rows, rows, encoder="ms_san", options={"dim": 6}, optimization={"epochs": 1}, out=tmp_path / "run")


# What is in the package.


def test_the_package_holds_a_small_parser_that_its_card_describes() -> None:
    files = sorted(file.relative_to(MODEL).as_posix() for file in MODEL.rglob("*.*"))
    of_parser = ["characters.json", "config.json", "model.safetensors", "words.json"]
    assert files == sorted([*of_parser, "splitter/config.json", "splitter/model.safetensors"])
    assert sum((MODEL / name).stat().st_size for name in of_parser) <= 5_000_000
    card = (MODEL.parent / "README.md").read_text(encoding="utf-8")
    known = dict(re.findall(r"`([\w./]+)` \| `([0-9a-f]{64})`", card))
    assert known == {name: hashlib.sha256((MODEL / name).read_bytes()).hexdigest() for name in files}
    assert "CC BY-SA 4.0" in card


def test_its_options_are_those_of_the_recipe_that_made_it() -> None:
    recipe = yaml.safe_load((MODEL.parent / "recipe.yaml").read_text(encoding="utf-8"))
    ParserConfig("train.conllu", "dev.conllu", "run", **{**recipe, "optimization": parser_optimization()})
    config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
    for section, given in (("options", recipe.get("encoder", {})), ("scorer", recipe.get("scorer", {}))):
        assert {name: config[section][name] for name in given} == given
    stored = {tensor.dtype for tensor in safetensors.torch.load_file(MODEL / "model.safetensors").values()}
    assert recipe["storage"] == "int8"
    assert torch.int8 in stored


def test_its_teacher_reads_every_text_once_in_an_order_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    squad, mnli = tmp_path / "squad.json", tmp_path / "mnli.jsonl.gz"
    squad.write_text(json.dumps({"data": [{"paragraphs": [{"context": "A  b.\nC."}, {"context": "é"}]}]}))
    pairs = [{"premise": "A b. C.", "hypothesis": "x"}, {"sentence1": " d", "sentence2": "y"}]
    mnli.write_bytes(gzip.compress("\n".join(map(json.dumps, pairs)).encode()))
    monkeypatch.setattr("sys.argv", ["silver_texts.py", "--squad", str(squad), "--mnli", str(mnli)])
    runpy.run_path(str(MODEL.parent / "silver_texts.py"), run_name="__main__")
    by_digest = {hashlib.sha256(text.encode()).hexdigest(): text for text in ("A b. C.", "é", "d")}
    assert capsys.readouterr().out.splitlines() == [by_digest[digest] for digest in sorted(by_digest)]


@pytest.mark.parametrize("text", SENTENCES)
def test_it_finds_plain_english_trees(text: str) -> None:
    (found,) = sa.parse(text)
    assert found.dependency is not None
    assert found.dependency.heads == SENTENCES[text]
    assert found.metadata == {"sent_id": "1-1", "text": text, "parser": f"en {load_parser('en').version}"}


def test_it_is_read_once() -> None:
    parser = load_parser("en")
    assert isinstance(parser, TreeParser)
    assert load_parser("en") is parser
    assert parser.name == "en"
    assert str(parser.version).startswith(f"{sa.__version__}+")
    found = read_parser(MODEL).parse([Sentence(["Kids", "wash"])])
    assert found[0].dependency == sa.parse([["Kids", "wash"]])[0].dependency


# Any number of texts.


def test_an_iterator_is_parsed_as_it_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in itertools.cycle(SENTENCES):
            read.append(text)
            yield text

    found = sa.parse(texts(), batch_size=3, progress=True, total=9)
    assert next(found).metadata["sent_id"] == "1-1"
    assert len(read) == 3
    assert [one.metadata["sent_id"] for one in itertools.islice(found, 3)] == ["2-1", "3-1", "4-1"]
    assert len(read) == 6
    assert "/9 [" in capfd.readouterr().err


def test_what_a_treebank_says_beside_the_tree_is_kept(tmp_path: Path) -> None:
    (tmp_path / "gold.conllu").write_text(TREEBANK, encoding="utf-8")
    (found,) = sa.parse(list(sa.read_conllu(tmp_path / "gold.conllu")))
    tree = found.dependency
    assert tree is not None
    assert tree.labels is not None
    assert found.tags is not None
    lines = format_conllu(found).splitlines()
    assert lines[:4] == [
        "# sent_id = 7",
        "# a remark",
        f"# parser = en {load_parser('en').version}",
        "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
    ]
    beside = (
        ("Do", "do", "VBP", "Mood=Ind", "_"),
        ("n't", "not", "RB", "_", "_"),
        ("bite", "bite", "VB", "_", "Gloss=x"),
    )
    for place, (form, lemma, xpos, feats, misc) in enumerate(beside):
        new = f"{tree.heads[place]}\t{tree.labels[place]}\t_"
        assert lines[4 + place] == f"{place + 1}\t{form}\t{lemma}\t{found.tags[place]}\t{xpos}\t{feats}\t{new}\t{misc}"
    assert found.tags == ("AUX", "PART", "VERB")


# As other libraries have it.


def test_as_a_data_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "gold.conllu").write_text(TREEBANK, encoding="utf-8")
    frame = to_pandas([*sa.read_conllu(tmp_path / "gold.conllu"), Sentence(["_"]), Sentence([])])
    assert list(frame.columns) == ["sentence", "id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel"]
    rows = frame.astype(object).where(frame.notna(), None).values.tolist()
    assert rows == [
        ["7", 1, "Do", "do", "X", "VBP", "Mood=Ind", 0, "root"],
        ["7", 2, "n't", "not", "X", "RB", None, 1, "dep"],
        ["7", 3, "bite", "bite", "X", "VB", None, 1, "dep"],
        ["2", 1, "_", None, None, None, None, None, None],
    ]


def test_as_a_spacy_document(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        Vocab = staticmethod(lambda: "a new vocabulary")
        Doc = staticmethod(lambda vocab, **columns: (vocab, columns))

    monkeypatch.setattr(bridges, "require", lambda module, extra: Module)
    wash = Sentence(["Kids", "wash"], ["NOUN", "_"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
    hush = Sentence(["hush", "-RRB-"], dependency=sa.DependencyTree([0, 1]), metadata={"text": "hush)"})
    vocab, columns = to_spacy([wash, Sentence([], dependency=sa.DependencyTree([])), hush])
    assert vocab == "a new vocabulary"
    assert columns == {
        "words": ["Kids", "wash", "hush", "-RRB-"],
        "spaces": [True, True, False, False],
        "heads": [1, 1, 2, 2],
        "deps": ["nsubj", "ROOT", "ROOT", "dep"],
        "pos": ["NOUN", "", "", ""],
        "sent_starts": [True, False, True, False],
    }
    other = Sentence(["We", "hush"], dependency=sa.DependencyTree([2, 0]), metadata={"text": "Hush"})
    assert to_spacy([other])[1]["spaces"] == [True, False]
    assert to_spacy([wash], "theirs")[0] == "theirs"
    with pytest.raises(ValueError, match="expected sentences with dependency trees, 'hush' has none"):
        to_spacy([Sentence(["hush"])])


# Trees that are missing.


def test_sentences_keep_their_own_trees_and_tags(tmp_path: Path) -> None:
    own = Sentence(["Kids", "wash"], dependency=sa.DependencyTree([0, 1]))
    tagged = Sentence(["Dogs", "bark"], ["X", "Y"], metadata={"text": "Dogs bark"})
    find_trees = MissingTrees("en", cache=tmp_path / "cache")
    pair, empty = find_trees([Example((own, tagged), "x", id="7", weight=2.0), Example((Sentence([]),), id="8")])
    assert pair.sentences[0] == own
    assert pair.sentences[1].tags == ("X", "Y")
    assert pair.sentences[1].metadata == {"text": "Dogs bark"}
    assert pair.sentences[1].dependency == sa.parse([["Dogs", "bark"]])[0].dependency
    assert (pair.label, pair.id, pair.weight, find_trees.count) == ("x", "7", 2.0, 1)
    assert empty.sentences[0].dependency is None
    assert find_trees.record == {"name": "en", "version": load_parser("en").version, "structures": "dependency"}


def test_phrases_follow_from_dependencies_that_are_there_or_are_found() -> None:
    phrases = sa.ConstituencyTree(["Dogs", "bark"], [("S", 0, 2)])
    own = Sentence(["Dogs", "bark"], constituency=phrases)
    with_heads = Sentence(["Dogs", "bark"], dependency=sa.DependencyTree([0, 1]))
    find_trees = MissingTrees("en", structures=["constituency"])
    pair, single = find_trees([Example((own, with_heads)), Example("Two kids wash")])
    assert find_trees.count == 2
    assert pair.sentences[0] is own
    shown = [one.constituency.to_brackets() for one in (*pair.sentences, *single.sentences) if one.constituency]
    assert shown == ["(S Dogs bark)", "(X Dogs bark)", "(root (nsubj Two kids) wash)"]
    # What is not asked for is not found.
    assert find_trees.record["structures"] == "constituency"
    assert MissingTrees("en")([Example((with_heads,))])[0].sentences[0] is with_heads


@pytest.mark.parametrize(("source", "found"), [("own", "constituency"), ("dependency", "dependency")])
def test_encoders_of_phrases_get_phrases(tmp_path: Path, source: str, found: str) -> None:
    rows = [("Two kids wash their hands", "clean"), ("The dogs bark", "loud")] * 2
    small: dict[str, Any] = {"options": {"dim": 8}, "optimization": {"epochs": 1}, "out": tmp_path / "run"}
    run = sa.train(rows, rows, encoder="tree_transformer", trees=source, **small)
    saved = json.loads((run.folder / "best" / "config.json").read_text())
    assert saved["tree_parser"]["structures"] == found
    (sentence,) = sa.parse("The kids bark", constituency=True)
    raw, parsed = sa.load(run.folder).predict(["The kids bark", sentence])
    assert raw.probabilities == parsed.probabilities


def test_another_version_is_used_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    find_trees = MissingTrees("en", version="0.0+x")
    with caplog.at_level(logging.WARNING, logger="structattn.parsing"):
        for _ in range(2):
            find_trees([Example((Sentence(["Dogs", "bark"]),))])
    assert [record.getMessage() for record in caplog.records] == [
        "this model's training data was parsed by en 0.0+x; here it is "
        f"{load_parser('en').version}, which may give different trees"
    ]
    assert find_trees.record["version"] == "0.0+x"


def test_without_a_folder_for_caches_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert locate_cache() == tmp_path / "caches" / "structattn" / "parses.sqlite"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert locate_cache() is None


def test_a_run_remembers_its_parser(trained: RunResult, caplog: pytest.LogCaptureFixture) -> None:
    saved = json.loads((trained.folder / "best" / "config.json").read_text())
    assert saved["tree_parser"] == {"name": "en", "version": load_parser("en").version, "structures": "dependency"}
    model = sa.load(trained.folder)
    text, sentence = "The kids bark", sa.parse("The kids bark")[0]
    assert model.predict([text])[0].probabilities == model.predict([sentence])[0].probabilities
    assert sa.predict(trained.folder, [text])[0].probabilities == model.predict([sentence])[0].probabilities
    # A model that learns from trees that came with its data remembers none, and says what to do.
    with pytest.raises(MissingStructure, match=r"has none; it is of example '0'; parse the sentence \(--parser en"):
        sa.load(trained.folder, parser="none").predict([text])
    model.save_pretrained(trained.folder.parent / "copy")
    assert sa.load(trained.folder.parent / "copy").find_trees.record == saved["tree_parser"]


def test_a_parser_of_others_is_not_started_on_the_word_of_a_folder(trained: RunResult) -> None:
    file = trained.folder / "best" / "config.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "tree_parser": {"name": "spacy:os", "version": "1"}}))
    model = sa.load(trained.folder)
    assert model.predict(sa.parse("Dogs bark"))
    with pytest.raises(ConfigError, match=r"'spacy:os', a parser from another .* not started just because .*--parser"):
        model.predict(["Dogs bark"])
    assert sa.load(trained.folder, parser="en").predict(["Dogs bark"])
    file.write_text(json.dumps({**content, "tree_parser": {"name": "en"}}))
    with pytest.raises(sa.errors.ParseError, match=r"config\.json: expected the key 'version'"):
        sa.load(trained.folder)


def test_only_encoders_that_need_trees_get_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: MissingTrees, examples: Sequence[Example]) -> Any:
        raise AssertionError("nothing needs a tree here")

    monkeypatch.setattr(MissingTrees, "__call__", refused)
    rows = [("Two kids wash their hands", "clean"), ("The dogs bark", "loud")] * 4
    once: dict[str, Any] = {"optimization": {"epochs": 1}}
    plain = sa.train(rows, rows, encoder="emb_s2t", options={"dim": 4}, out=tmp_path / "plain", **once)
    assert "tree_parser" not in json.loads((plain.folder / "best" / "config.json").read_text())
    without = {"dim": 6, "missing_trees": "word"}
    sa.train(rows, rows, encoder="ms_san", options=without, out=tmp_path / "without", **once)
    trees = [Example((sentence,), label) for text, label in rows for sentence in sa.parse(text)]
    sa.train(trees, trees, encoder="ms_san", options={"dim": 6}, out=tmp_path / "trees", **once)


def test_from_raw_text_to_an_answer_on_the_command_line(call: Call, tmp_path: Path) -> None:
    data = tmp_path / "reviews.csv"
    data.write_text("text,label\n" + "a fine film,good\nthe plot is dull,bad\n" * 4, encoding="utf-8")
    run = tmp_path / "run"
    words = ["--task", "classification", "--encoder", "ms_san", "--options.dim", 6, "--optimization.epochs", 1]
    code, _, log = call("train", *words, "--data.train", data, "--data.dev", data, "--out", run)
    assert code == 0, log
    assert f"trees: 16 sentences had none; found by en {load_parser('en').version}, kept in {locate_cache()}" in log
    code, printed, log = call("eval", run, "--data", data, "--json")
    assert (code, json.loads(printed)["examples"]) == (0, 8), log
    assert f"trees: 8 sentences had none; found by en {load_parser('en').version}, kept in {locate_cache()}" in log
    (tmp_path / "new.txt").write_text("a dull film\nfine\n", encoding="utf-8")
    code, printed, log = call("predict", run, "--data", tmp_path / "new.txt", "--format", "text")
    assert (code, len(printed.splitlines())) == (0, 2), log
    assert f"trees: 2 sentences had none; found by en {load_parser('en').version}, not kept" in log
    assert call("predict", run, "--data", tmp_path / "new.txt", "--format", "text", "--parser", "en")[1] == printed
    code, _, log = call("predict", run, "--data", tmp_path / "new.txt", "--format", "text", "--parser", "none")
    assert code == 2
    assert "--parser en" in log
    assert "missing_trees" in log
    code, printed, log = call("plot", run, "--text", "a dull film", "--out", tmp_path / "pictures")
    assert code == 0, log


def test_parse_needs_no_parser_and_takes_columns(call: Call, tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_text("what,mark\nTwo kids wash their hands,1\nThe dogs bark.,0\n", encoding="utf-8")
    code, printed, log = call("parse", table, "--text_column", "what", "--label_column", "mark")
    assert code == 0, log
    (tmp_path / "found.conllu").write_text(printed, encoding="utf-8")
    found = list(sa.read_conllu(tmp_path / "found.conllu"))
    assert [one.metadata["label"] for one in found] == ["1", "0"]
    assert [one.dependency.heads for one in found if one.dependency] == [
        SENTENCES["Two kids wash their hands"],
        SENTENCES["The dogs bark."],
    ]


def test_pictures_of_raw_texts_have_trees_too(tmp_path: Path) -> None:
    vocabulary = sa.Vocabulary(["dogs", "bark"])
    encoder = sa.encoders.build("ms_san", vocab_size=len(vocabulary), dim=6)
    model = SentenceModel(encoder, get_task("classification"), ["no", "yes"], vocabulary=vocabulary)
    with pytest.raises(MissingStructure):
        sa.inspection.attention_maps(model, ["Dogs bark"])
    model.find_trees = MissingTrees("en")
    (found,) = model.find_trees([Example("Dogs bark")])
    for text in ("Dogs bark", ["Dogs bark"], [Example("Dogs bark")]):
        first, second = (sa.inspection.attention_maps(model, given)[0] for given in (text, found))
        torch.testing.assert_close(first.weights, second.weights)
    save_plots(tmp_path, model, "Dogs bark", formats=["html"], influence=True)
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert all(f'"{label}"' in page for label in found.sentences[0].dependency.labels)


ENGLISH = "Kids wash their hands before they eat because nobody wants to be ill for long."
OTHERS = {
    "German": "Die Kinder waschen sich vor dem Essen die Hände, weil niemand lange krank sein möchte.",
    "Dutch": "De kinderen wassen hun handen voor het eten omdat niemand lang ziek wil zijn.",
    "Greek": "Τα παιδιά πλένουν τα χέρια τους πριν φάνε, γιατί κανείς δεν θέλει να είναι άρρωστος.",
    "Chinese": "孩子们 在 吃饭 之前 洗手 因为 没有 人 想 长期 生病",
}


@pytest.mark.parametrize("language", OTHERS)
def test_texts_in_another_language_are_said_once(language: str, caplog: pytest.LogCaptureFixture) -> None:
    parser = load_parser("en")
    parser._is_warned = False  # the parser of the package is loaded once
    parser.parse_texts([ENGLISH] * 3)
    assert not caplog.records
    for _ in range(2):
        parser.parse_texts([OTHERS[language]])
    (record,) = caplog.records
    assert "words are unknown to the parser 'en'" in record.getMessage()


def test_the_command_says_that_a_text_is_in_another_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text(OTHERS["German"] + "\n", encoding="utf-8")
    main(["parse", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "trees.conllu")])
    assert "words are unknown to the parser 'en'" in capsys.readouterr().err


def test_it_is_built_when_a_sentence_is_missing(tmp_path: Path) -> None:
    sentences = [["Kids", "wash"], ["Dogs", "bark"]]
    cache = tmp_path / "cache"
    expected = sa.parse(sentences[:1], cache=cache)
    parser = TreeParser.when_needed(MODEL, name="en")
    assert sa.parse(sentences[:1], parser, cache=cache) == expected
    assert "model" not in vars(parser)
    assert sa.parse(sentences, parser, cache=cache)[0] == expected[0]
    assert "model" in vars(parser)


def test_building_a_parser_does_not_import_torchs_compiler() -> None:
    code = "import sys; from structattn.parsing import load_parser; load_parser('en').model; "
    code += "print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
