"""The learnt splitter of raw text: what it loses, keeps and learns."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import structattn as sa
from structattn.errors import ConfigError, StructAttnError
from structattn.parsing import text_splitter
from structattn.parsing.parse_cache import ParseCache
from structattn.parsing.parsers import PACKAGED, load_parser
from structattn.parsing.splitter_training import label_texts, score_splitting, train_splitter
from structattn.parsing.text_splitter import TextSplitter
from structattn.parsing.tree_parser import SPLITTER, TreeParser, build_parser, read_splitter
from structattn.syntax import Sentence, format_conllu, read_conllu

Call = Callable[..., tuple[int, str, str]]
TREEBANK = """\
# newpar
# text = Kids don't wash(up)!
1\tKids\t_\tNOUN\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\t_\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\t_\tPART\t_\t_\t4\tadvmod\t_\t_
4\twash\t_\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
5\t(\t_\tPUNCT\t_\t_\t6\tpunct\t_\tSpaceAfter=No
6\tup\t_\tADP\t_\t_\t4\tcompound:prt\t_\tSpaceAfter=No
7\t)\t_\tPUNCT\t_\t_\t6\tpunct\t_\tSpaceAfter=No
8\t!\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_

# text = Dogs bark
1\tDogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_

# newpar
# text = zum Haus
1-2\tzum\t_\t_\t_\t_\t_\t_\t_\t_
1\tzu\t_\tADP\t_\t_\t3\tcase\t_\t_
2\tdem\t_\tDET\t_\t_\t3\tdet\t_\t_
3\tHaus\t_\tNOUN\t_\t_\t0\troot\t_\t_

"""
#       K  i  d  s      d  o  n  '  t      w  a  s  h  (  u  p  )  !      D  o  g  s      b  a  r  k
FIRST = [0, 0, 0, 2, -1, 0, 1, 0, 0, 2, -1, 0, 0, 0, 2, 2, 0, 2, 2, 3, -1, 0, 0, 0, 2, -1, 0, 0, 0, 3]
#         z  u  m      H  a  u  s
SECOND = [0, 0, 2, -1, 0, 0, 0, 3]
TEXTS = [
    "Kids don't wash! Dogs bark.",
    "",
    " \n ",
    "one\n\ntwo",
    "a  b\tc\nd",
    "…“Ünïcode” e\u0301 \U0001f600\U0001f44d \ud800x",
    "x" * 300 + " " + "y." * 200,
]


@pytest.fixture
def treebank(tmp_path: Path) -> list[Sentence]:
    (tmp_path / "treebank.conllu").write_text(TREEBANK, encoding="utf-8")
    return list(read_conllu(tmp_path / "treebank.conllu"))


@pytest.fixture
def untrained() -> TextSplitter:
    """A splitter whose random parameters are large, so that all kinds of ends occur."""
    torch.manual_seed(3)
    splitter = TextSplitter("abcdefghijklmnopqrstuvwxyz.,! ").eval()
    with torch.no_grad():
        for parameter in splitter.parameters():
            parameter.mul_(4)
    return splitter


def spelled(sentence: Sentence) -> str:
    """The text that the rows of a sentence describe."""
    text, last = "", 0
    for number, form, *_, misc in sentence.rows or [(str(i), w, "_") for i, w in enumerate(sentence.words, 1)]:
        if int(number.partition("-")[0]) > last:
            text += form + ("" if misc == "SpaceAfter=No" else " ")
            last = int(number.rpartition("-")[2])
    return text.removesuffix(" ")


def test_labels_are_those_of_the_treebank(treebank: list[Sentence]) -> None:
    assert label_texts(treebank) == [("Kids don't wash(up)! Dogs bark", FIRST), ("zum Haus", SECOND)]
    other = Sentence(["Other", "words"], metadata={"text": "Kids wash"})
    assert label_texts([other, treebank[1]])[0][0] == "Dogs bark"
    with pytest.raises(ConfigError, match="no sentence has '# text' with its words"):
        label_texts([other, Sentence(["no", "text"])])


def test_paragraphs_end_after_ten_sentences(treebank: list[Sentence]) -> None:
    assert [text.count("Dogs") for text, _ in label_texts([treebank[1]] * 23)] == [10, 10, 3]


def test_the_labels_give_the_sentences_again(treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(splitter: TextSplitter, batch: text_splitter.SplitBatch) -> torch.Tensor:
        labels = torch.zeros(len(batch.characters), dtype=torch.long)
        labels[: len(FIRST)] = torch.tensor(FIRST).clamp(min=0)
        return torch.nn.functional.one_hot(labels, 4).float()

    monkeypatch.setattr(TextSplitter, "forward", answer)
    (found,) = TextSplitter("abc").split(["Kids don't\nwash(up)! Dogs bark"])
    for sentence, gold in zip(found, treebank[:2], strict=True):
        assert sentence.words == gold.words
        assert sentence.text == gold.text
        if gold.rows:
            assert [(row[0], row[1], row[9]) for row in sentence.rows] == [(r[0], r[1], r[9]) for r in gold.rows]


@pytest.mark.parametrize("window", [7, 64, 1 << 15])
def test_texts_and_windows_change_nothing(
    window: int, untrained: TextSplitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [untrained.split([text])[0] for text in TEXTS]
    assert {len(text) for text in alone} > {0, 2}
    monkeypatch.setattr(text_splitter, "_WINDOW", window)
    assert untrained.split(TEXTS) == alone
    assert untrained.split([]) == []


def test_no_character_is_lost_and_rows_spell_the_text(untrained: TextSplitter) -> None:
    order = random.Random(5)
    texts = [*TEXTS, *("".join(order.choices("ab'.!,- \n", k=order.randrange(60))) for _ in range(40))]
    for text, sentences in zip(texts, untrained.split(texts), strict=True):
        assert " ".join(sentence.text for sentence in sentences) == " ".join(text.split())
        for sentence in sentences:
            assert spelled(sentence) == sentence.text
            assert "".join(sentence.words) == "".join(sentence.text.split())
    assert any("-" in row[0] for text in untrained.split(texts) for sentence in text for row in sentence.rows)


def test_it_learns_a_treebank_and_is_read_again(treebank: list[Sentence], tmp_path: Path) -> None:
    texts = label_texts(treebank) * 4
    before = torch.get_rng_state()
    *_, first = train_splitter(texts, epochs=60, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert score_splitting(first, texts) == {"sentences": 100.0, "words": 100.0}
    *_, second = train_splitter(texts[:4], epochs=2, seed=1)
    *_, third = train_splitter(texts[:4], epochs=2, seed=1)
    for one, other in zip(second.parameters(), third.parameters(), strict=True):
        assert torch.equal(one, other)
    first.save_pretrained(tmp_path / "splitter", storage="int8")
    found = read_splitter(tmp_path / "splitter")
    assert found.options == first.options
    assert score_splitting(found, texts) == {"sentences": 100.0, "words": 100.0}


def test_a_loss_that_is_not_finite_is_named(treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.nn.functional.cross_entropy", lambda *_, **__: torch.tensor(torch.nan))
    with pytest.raises(StructAttnError, match="the loss of a splitter is nan in epoch 1"):
        next(train_splitter(label_texts(treebank), epochs=1, seed=0))


def test_f1_counts_spans(treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch) -> None:
    splitter = TextSplitter("abc")
    monkeypatch.setattr(splitter, "split", lambda texts: [[Sentence.from_text(text) for text in texts]])
    (text, *_) = label_texts(treebank)
    # One sentence of Kids, do, n't, wash, (, up, ), !, Dogs, bark where gold has two.
    assert score_splitting(splitter, [text]) == {"sentences": 0.0, "words": 100.0}


# In parsers.


def test_the_parser_of_the_package_splits_as_its_treebank() -> None:
    assert sum(file.stat().st_size for file in (PACKAGED["en"] / SPLITTER).iterdir()) <= 600_000
    text = "The al-Qaeda man didn't pay $3.50!!! Why? See http://a.net/b/c.html for Dr. Who's cats"
    sentences = sa.parse(text)
    assert [sentence.text for sentence in sentences] == [
        "The al-Qaeda man didn't pay $3.50!!!",
        "Why?",
        "See http://a.net/b/c.html for Dr. Who's cats",
    ]
    assert sentences[0].words == ("The", "al", "-", "Qaeda", "man", "did", "n't", "pay", "$", "3.50", "!!!")
    assert sentences[2].words == ("See", "http://a.net/b/c.html", "for", "Dr.", "Who", "'s", "cats")
    assert "6-7\tdidn't\t_" in format_conllu(sentences[0])
    assert "\t$\t_\tSYM\t_\t_\t8\tobj\t_\tSpaceAfter=No\n" in format_conllu(sentences[0])
    by_rules = sa.parse(text, "en:rules")
    assert by_rules[0].words[-3:] == ("!", "!", "!")
    assert (by_rules[0].rows, by_rules[0].metadata["parser"].split()[0]) == ((), "en:rules")


def test_rows_survive_cache_file_and_joining(tmp_path: Path) -> None:
    text = "They don't. We can't."
    cache, file = tmp_path / "cache", tmp_path / "parsed.conllu"
    first = sa.parse(text, cache=cache)
    assert sa.parse(text, cache=cache) == first
    with ParseCache(cache) as store:
        store.put({"of an older version": first})
    sa.syntax.write_conllu(file, first)
    assert list(map(format_conllu, read_conllu(file))) == list(map(format_conllu, first))
    (whole,) = sa.parse(text, whole=True)
    assert whole.words == tuple(itertools.chain.from_iterable(sentence.words for sentence in first))
    assert [row[0] for row in whole.rows if "-" in row[0]] == ["2-3", "6-7"]
    assert spelled(whole) == "They don't. We can't."
    words = [row for row in format_conllu(whole).splitlines() if row[:1].isdigit() and "-" not in row.split("\t")[0]]
    assert [int(row.split("\t")[6]) for row in words] == list(whole.dependency.heads if whole.dependency else ())


def test_a_parser_learns_to_split_by_a_command(treebank: list[Sentence], tmp_path: Path, call: Call) -> None:
    parser, file = tmp_path / "parser", tmp_path / "treebank.conllu"
    build_parser(treebank).save_pretrained(parser)
    before = TreeParser.from_folder(parser).version
    code, out, err = call("parser", "splitter", file, parser, "--dev", file, "--epochs", "2")
    assert (code, err) == (0, "")
    first, second, last = out.splitlines()
    assert first.startswith("epoch 1  sentences ")
    assert second.startswith("epoch 2  sentences ")
    assert last == f"{parser / SPLITTER}  38 characters"
    loaded = load_parser(f"structattn:{parser}")
    assert loaded.version != before
    assert [sentence.text for sentence in loaded.parse_texts(["Kids don't."])[0]]
    file.write_text(TREEBANK.replace("# text", "# said"), encoding="utf-8")
    code, _, err = call("parser", "splitter", file, parser)
    assert (code, "no sentence has '# text' with its words" in err) == (2, True)
    code, _, err = call("parser", "splitter", file, tmp_path / "nothing")
    assert code == 2
    assert "config.json" in err
