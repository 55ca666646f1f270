"""Parsing many texts: what is split, kept, resumed and refused; the command line on top."""

import contextlib
import dataclasses
import io
import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import torch

import structattn as sa
from forking import run_forked
from structattn.cli import main
from structattn.data import agreement_treebank
from structattn.errors import ConfigError, MissingExtra, ParseError, StructAttnError
from structattn.parsing import TreebankParser, build_parser, load_parser, parsers
from structattn.parsing.parse_cache import ParseCache, make_key
from structattn.parsing.parse_texts import add_phrases, parse_each
from structattn.parsing.parsers import is_ours
from structattn.parsing.sentence_splitting import split_sentences
from structattn.syntax import Sentence, split_words

TEXTS = [
    "The dogs bark. They don't bite!",
    "",
    "One of the artists near Mr. J. Smith waits",
    "The dogs bark. They don't bite!",
]


class Chain:
    """Every word hangs from the word before it; counts what it is asked."""

    name = "chain"

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.asked: list[object] = []

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        self.asked += sentences
        return [Sentence(words, ["X"] * len(words), sa.DependencyTree(range(len(words)))) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        self.asked += texts
        found = []
        for text in texts:
            parts = [(part, split_words(part)) for part in split_sentences(text)]
            found.append(
                [
                    Sentence(words, None, sa.DependencyTree(range(len(words))), metadata={"text": part})
                    for part, words in parts
                ]
            )
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parser folder; untrained, but different from word to word."""
    torch.manual_seed(1)
    stream = agreement_treebank(1)
    parser = build_parser(
        [next(stream).sentences[0] for _ in range(20)],
        encoder={"word_dim": 8, "character_dim": 8, "filters": 8, "hidden": 12, "num_layers": 1},
        scorer={"arc_dim": 12, "label_dim": 8},
    )
    for parameter in (parser.scorer.arc_weight, parser.scorer.arc_bias, parser.scorer.label_weight):
        torch.nn.init.normal_(parameter, std=0.5)
    path = tmp_path_factory.mktemp("parser") / "parser"
    parser.save_pretrained(path)
    return path


# Splitting.


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n ", []),
        ("No end", ["No end"]),
        ("One. Two? Three! Four", ["One.", "Two?", "Three!", "Four"]),
        ("Mr. Smith met J. Doe of U.S. Steel.", ["Mr. Smith met J. Doe of U.S. Steel."]),
        ('He said: "Go!" and left. "Why?" Nobody knew.', ['He said: "Go!" and left.', '"Why?"', "Nobody knew."]),
        ("It cost 3.50. (Really.) Well...  Yes", ["It cost 3.50.", "(Really.)", "Well...", "Yes"]),
        ("a blank\n\nline", ["a blank", "line"]),
        ("one\nline end", ["one line end"]),
    ],
)
def test_texts_are_split_into_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_splitting_loses_no_character() -> None:
    text = 'Dr. Who isn\'t here... or is he?! "Yes." Fine; see p. 3 (or not). etc. End'
    assert " ".join(split_sentences(text)).split() == text.split()


# What comes back.


def test_texts_words_and_sentences_are_parsed(folder: Path) -> None:
    known = Sentence(["Dogs", "bark"], metadata={"sent_id": "d1", "label": "loud"})
    found = sa.parse([*TEXTS, ["Dogs", "bark"], known], f"structattn:{folder}")
    assert [one.metadata["sent_id"] for one in found] == ["1-1", "1-2", "3-1", "4-1", "4-2", "5", "d1"]
    assert found[0].words == ("The", "dogs", "bark", ".")
    assert found[1].metadata["text"] == "They don't bite!"
    assert found[-1].metadata["label"] == "loud"
    assert {one.metadata["parser"] for one in found} == {f"structattn {load_parser(f'structattn:{folder}').version}"}
    assert all(len(one.dependency.roots) == 1 and one.tags is not None for one in found)
    assert found[-1].dependency == found[-2].dependency


def test_a_whole_text_is_one_sentence_with_a_root_for_each(folder: Path) -> None:
    apart = sa.parse(TEXTS[:1], f"structattn:{folder}")
    together, empty = sa.parse(TEXTS[:2], f"structattn:{folder}", whole=True)
    assert together.words == (*apart[0].words, *apart[1].words)
    assert len(together.dependency.roots) == 2
    assert together.dependency.heads[: len(apart[0])] == apart[0].dependency.heads
    assert together.metadata["text"] == TEXTS[0]
    assert len(empty) == len(empty.dependency) == 0


def test_phrases_follow_from_dependencies() -> None:
    (found,) = sa.parse([["a", "b"]], Chain(), constituency=True)
    assert (
        found.constituency.to_brackets()
        == sa.ConstituencyTree.from_dependency(found.words, found.dependency).to_brackets()
    )


@pytest.mark.integration
@pytest.mark.parametrize("start", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_one_process_or_two_find_the_same(start: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package spawns; a process that is forked from a server is given the same by the same way, and starts sooner.
    context = multiprocessing.get_context(start)
    monkeypatch.setattr("structattn.parsing.processes.multiprocessing.get_context", lambda _: context)
    stream = agreement_treebank(2)
    texts = [" ".join(next(stream).sentences[0].words) + ". And so on" for _ in range(30)]
    one = sa.parse(texts, f"structattn:{folder}", batch_size=7)
    two = sa.parse(texts, f"structattn:{folder}", batch_size=7, num_workers=2)
    assert one == two
    assert len(one) == 60


def test_a_text_of_a_hundred_thousand_words(folder: Path) -> None:
    """Some 17,000 sentences, and one stretch without an end."""
    text = "The dogs near the house bark . " * 200 + "Word " * 1000
    found = sa.parse([text], f"structattn:{folder}")
    assert sum(map(len, found)) == 200 * 7 + 1000
    assert max(map(len, found)) == 1000
    assert all(len(one.dependency.roots) == 1 for one in found)
    assert sum(len(split_words(part)) for part in split_sentences("The dogs near the house bark . " * 14286)) == 100_002


def test_nothing_to_parse() -> None:
    assert sa.parse([], Chain()) == []
    assert list(parse_each(["", "  "], Chain())) == [("", []), ("  ", [])]


# The cache.


def test_what_the_cache_has_is_not_parsed_again(tmp_path: Path) -> None:
    first, second, other = Chain(), Chain(), Chain(version="2")
    texts = [*TEXTS, ["a", "b"], "a b"]
    found = sa.parse(texts, first, tmp_path / "cache")
    assert len(first.asked) == 5, "the same text is parsed once"
    assert sa.parse(texts, second, tmp_path / "cache") == found
    assert second.asked == []
    assert sa.parse([*texts, "new"], second, tmp_path / "cache")[:-1] == found
    assert second.asked == ["new"]
    sa.parse(texts, other, tmp_path / "cache")
    assert len(other.asked) == 5, "another version may find something else"


def test_keys_tell_texts_words_and_parsers_apart() -> None:
    keys = {
        make_key(origin, text)
        for origin in (("p", "1"), ("p", "2"), ("q", "1"))
        for text in ("a b", ("a", "b"), ("a b",))
    }
    assert len(keys) == 9


def test_the_cache_keeps_all_of_a_sentence(tmp_path: Path) -> None:
    tree = sa.ConstituencyTree.from_brackets("(S (NP (NNS kids)) (VP (VB wash)))")
    sentences = [
        Sentence(
            ["kids", "wash"],
            ["N", "V"],
            sa.DependencyTree([2, 0], ["nsubj", "root"]),
            tree,
            metadata={"text": "kids wash"},
        ),
        Sentence(["\u2028", "('", '"'], None, sa.DependencyTree([0, 1, 1])),
        Sentence([], [], sa.DependencyTree([])),
    ]
    with ParseCache(tmp_path / "cache") as cache:
        cache.put({"k": sentences, "none": []})
    with ParseCache(tmp_path / "cache") as cache:
        assert cache.get(["k", "none", "other"]) == {"k": sentences, "none": []}
        assert len(cache.get([str(number) for number in range(2000)] + ["k"])) == 1


def test_phrases_leave_the_rest_of_a_sentence() -> None:
    tree = sa.DependencyTree([2, 0], ["nsubj", "root"])
    rows = [("1", "kids", "kid", "NOUN", "NNS", "_", "2", "nsubj", "_", "_")] * 2
    sentence = Sentence(["kids", "wash"], ["N", "V"], tree, metadata={"a": "b"}, rows=rows, comments=["a = b"])
    found = add_phrases(sentence)
    assert found.constituency == sa.ConstituencyTree.from_dependency(sentence.words, tree)
    assert dataclasses.replace(found, constituency=None) == sentence
    assert add_phrases(found) is found


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("something else, long enough to be looked at" * 10)
    with pytest.raises(ParseError, match="expected a cache of parses") as caught:
        sa.parse(["a"], Chain(), tmp_path / "cache")
    assert caught.value.file == str(tmp_path / "cache")


def test_a_cache_of_other_rows_is_named(tmp_path: Path) -> None:
    sa.parse(["a"], Chain(), tmp_path / "cache")
    with sqlite3.connect(tmp_path / "cache") as base:
        base.execute("UPDATE parses SET sentences = '[[1]]'")
    base.close()
    with pytest.raises(ParseError, match="expected a cache of parses"):
        sa.parse(["a"], Chain(), tmp_path / "cache")


# A killed run: the parser kills its own process when it meets a certain text.


class Mortal(Chain):
    """Ends its own process with signal 9."""

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        if "text 7" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().parse_texts(texts)


def parse_and_die(words: list[str]) -> None:
    parsers.load_parser = lambda name, hardware: Mortal()
    main(words)


def test_a_killed_run_goes_on_where_it_was(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "out.conllu"
    lines = [f"text {number}" for number in range(10)]
    texts.write_text("\n".join(lines))
    died = run_forked(parse_and_die, ["parse", str(texts), "--parser", "en", "--out", str(out), "--batch_size", "2"])
    assert died.code == -signal.SIGKILL, died.err
    assert not out.exists()
    parser = Chain()
    monkeypatch.setattr("structattn.parsing.parsers.load_parser", lambda name, hardware: parser)
    assert call("parse", texts, "--parser", "en", "--out", out, "--batch_size", "2")[0] == 0
    assert parser.asked == lines[6:], "three batches of two were finished"
    assert list(sa.read_conllu(out)) == sa.parse(lines, Chain())
    assert not (tmp_path / "out.conllu.cache").exists()
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix != ".tmp") == ["out.conllu", "texts.txt"]


def test_a_killed_worker_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def dying(parser: object, known: Chain, num_workers: int, *, hardware: object) -> Iterator[Callable[..., object]]:
        def result(texts: list[str]) -> list[list[Sentence]]:
            if "b" in texts:
                raise BrokenProcessPool("killed")
            return known.parse_texts(texts)

        yield lambda texts: lambda: result(texts)

    monkeypatch.setattr("structattn.parsing.parse_texts._open_workers", dying)
    with pytest.raises(StructAttnError, match=r"a parsing process was killed .* finished batches are kept"):
        sa.parse(["a", "b"], Chain(), tmp_path / "cache", num_workers=2, batch_size=1)
    monkeypatch.undo()
    parser = Chain()
    sa.parse(["a", "b"], parser, tmp_path / "cache")
    assert parser.asked == ["b"]


# Names.


def test_unknown_parsers_are_answered_with_the_known_kinds() -> None:
    for name in ("malt:swedish", "structattn:", "parses.txt", ""):
        with pytest.raises(
            ConfigError, match=r"known: en, en:rules, spacy:MODEL, stanza:LANGUAGE, structattn:FOLDER, FILE\.conllu"
        ):
            sa.parse(["a"], name)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("en", True),
        ("structattn:runs/ewt", True),
        ("gold.conllu", True),
        ("spacy:en_core_web_sm", False),
        ("stanza:en", False),
    ],
)
def test_parsers_of_other_libraries_run_code_of_others(name: str, ours: bool) -> None:
    assert is_ours(name) is ours


def test_a_parser_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"nowhere/config.json: cannot read this file"):
        load_parser(f"structattn:{tmp_path}/nowhere")


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one worker and one text per batch, got 0 and 2048"):
        sa.parse(["a"], Chain(), num_workers=0)
    with pytest.raises(TypeError):
        sa.parse([3], Chain())  # type: ignore[list-item]


# Files of trees.


def test_a_treebank_is_a_parser(tmp_path: Path) -> None:
    gold = [
        Sentence(["Dogs", "bark", "."], ["N", "V", "P"], sa.DependencyTree([2, 0, 2]), metadata={"text": "Dogs bark."}),
        Sentence(["Can", "not"], ["V", "P"], sa.DependencyTree([0, 1]), metadata={"text": "Cannot"}),
    ]
    sa.write_conllu(tmp_path / "gold.conllu.gz", gold)
    found = sa.parse(
        ["Dogs bark.", "Cannot", ["Can", "not"], "Dogs bark. Dogs  bark .", []], str(tmp_path / "gold.conllu.gz")
    )
    assert [one.dependency.heads for one in found] == [(2, 0, 2), (0, 1), (0, 1), (2, 0, 2), (2, 0, 2), ()]
    assert found[0].tags == ("N", "V", "P")
    for text, shown in (("Cats bark.", "Cats bark ."), (["Cats"], "Cats")):
        with pytest.raises(ParseError, match=f"expected a tree for every sentence, '{shown}' has none"):
            sa.parse([text], str(tmp_path / "gold.conllu.gz"))
    sa.write_conllu(tmp_path / "bare.conllu", [Sentence(["a"])])
    with pytest.raises(ParseError, match="expected heads of every word, 'a' has none"):
        sa.parse(["a"], str(tmp_path / "bare.conllu"))
    with pytest.raises(ParseError, match="cannot read this file"):
        sa.parse(["a"], str(tmp_path / "none.conllu"))


def test_cycles_and_several_roots_in_a_treebank_are_as_the_reader_has_them(tmp_path: Path) -> None:
    (tmp_path / "roots.conllu").write_text("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    (found,) = sa.parse(["a b"], str(tmp_path / "roots.conllu"))
    assert found.dependency.roots == (0, 1)
    (tmp_path / "cycle.conllu").write_text("1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n")
    with pytest.raises(ParseError, match="got the cycle 1 -> 2 -> 1") as caught:
        sa.parse(["a b"], str(tmp_path / "cycle.conllu"))
    assert caught.value.line == 1


def test_brackets_are_a_parser(tmp_path: Path) -> None:
    (tmp_path / "trees.mrg").write_text("( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks) (NP (-NONE- *T*)))) )")
    (found,) = sa.parse(["the dog barks"], str(tmp_path / "trees.mrg"), tmp_path / "cache")
    assert found.constituency.to_brackets() == "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
    assert found.dependency.heads == (2, 3, 0)
    assert sa.parse(["the dog barks"], str(tmp_path / "trees.mrg"), tmp_path / "cache", constituency=True) == [found]


def test_the_first_of_equal_sentences_counts() -> None:
    trees = (sa.DependencyTree([0, 1]), sa.DependencyTree([2, 0]))
    parser = TreebankParser([Sentence(["a", "b"], None, tree) for tree in trees], name="t", version="1", file="t")
    assert parser.parse_words([["a", "b"]])[0].dependency == trees[0]


# Without the extras.


@pytest.mark.parametrize(("name", "extra"), [("spacy:en", "spacy"), ("stanza:en", "stanza")])
def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, name: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'structattn\[{extra}\]'"):
        load_parser(name)


# The command line.


def test_parse_writes_what_the_reader_reads(
    call: Callable[..., tuple[int, str, str]], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    out, name = tmp_path / "out.conllu", f"structattn:{folder}"
    code, printed, _ = call(
        "parse", tmp_path / "texts.txt", "--parser", name, "--out", out, "--brackets", tmp_path / "b.mrg"
    )
    assert (code, printed) == (0, f"{out}  5 sentences, 27 words\n")
    found = list(sa.read_conllu(out))
    assert found == sa.parse(TEXTS, name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.mrg", "out.conllu", "texts.txt"]
    assert [tree.words for tree in sa.read_brackets(tmp_path / "b.mrg")] == [one.words for one in found]
    # The same to stdout, from stdin, and from the treebank that was written.
    stdin = io.TextIOWrapper(io.BytesIO((tmp_path / "texts.txt").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert call("parse", "-", "--parser", name)[:2] == (0, out.read_text())
    assert call("parse", out, "--parser", name)[:2] == (0, out.read_text())
    (tmp_path / "words.txt").write_text("They do n't bite !\n")
    code, printed, _ = call("parse", tmp_path / "words.txt", "--parser", name, "--format", "words")
    assert [line.split("\t")[1] for line in printed.splitlines() if "\t" in line] == ["They", "do", "n't", "bite", "!"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parse", "{}/texts.txt", "--parser", "malt:x"], "unknown parser 'malt:x'; known: en, en:rules, spacy:MODEL"),
        (["parse", "{}/none.txt", "--parser", "{}/gold.conllu"], "none.txt: cannot read this file"),
        (["parse", "{}/texts.txt", "--text_column", "t"], "--text_column: expected a table or JSON (csv, tsv, json)"),
        (
            ["parser", "train", "{}/none.conllu", "--dev", "{}/gold.conllu", "--out", "{}/run"],
            "none.conllu: cannot read",
        ),
        (["parser", "train", "{}/gold.conllu", "--out", "{}/run"], "missing --dev"),
        (["parse", "{}/texts.txt", "--out", "{}/texts.txt"], "texts.txt: expected another file than"),
        (["parse", "{}/texts.txt", "--out", "{}/a", "--brackets", "{}/./a"], "a: expected another file than"),
        (
            ["parse", "{}/texts.txt", "--out", "{}/a.parquet"],
            "a.conllu; then structattn convert {0}/a.conllu {0}/a.parquet",
        ),
        (["parse", "{}/texts.txt", "--out", "{}/a.mrg.gz"], "parse writes CoNLL-U there: expected a name such as"),
        (["parse", "{}/texts.txt", "--out", "{}/a", "--brackets", "{}/b.conllu"], "parse writes brackets there"),
        (
            ["parser"],
            "expected a command after 'parser', got none; known: parser train, parser splitter, parser eval",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "texts.txt").write_text("a\n")
    sa.write_conllu(tmp_path / "gold.conllu", [Sentence(["a"], ["X"], sa.DependencyTree([0], ["root"]))])
    code, printed, error = call(*(word.format(tmp_path) for word in words))
    assert (code, printed) == (2, "")
    assert message.format(tmp_path, tmp_path) in error
    assert error.count("\n") == 1


def test_train_and_eval(call: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    stream = agreement_treebank(1)
    sentences = [next(stream).sentences[0] for _ in range(40)]
    sa.write_conllu(tmp_path / "train.conllu", sentences[:30])
    sa.write_conllu(tmp_path / "dev.conllu", sentences[30:])
    sizes = [
        "--encoder.hidden",
        "12",
        "--encoder.num_layers",
        "1",
        "--scorer.arc_dim",
        "12",
        "--optimization.epochs",
        "2",
    ]
    run = tmp_path / "run"
    code, printed, _ = call(
        "parser", "train", tmp_path / "train.conllu", "--dev", tmp_path / "dev.conllu", "--out", run, *sizes
    )
    assert code == 0
    assert printed.startswith(f"{run}  uas 0.")
    code, printed, _ = call("parser", "eval", tmp_path / "dev.conllu", "--parser", f"structattn:{run}")
    assert code == 0
    assert "  las 0." in printed
    assert "sentences_per_second" in printed
    code, printed, _ = call("parser", "eval", tmp_path / "dev.conllu", "--parser", tmp_path / "dev.conllu", "--json")
    assert '"uas": 1.0, "las": 1.0' in printed
