"""Readers: each format read from a few lines, and recognised by them."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from structattn.data import Example, Vocabulary, collate, read_examples
from structattn.data.readers.formats import find_reader, recognise_format
from structattn.errors import ConfigError, ParseError
from structattn.syntax import Sentence
from structattn.testing import READER_LAWS

SST = "(3 (2 It) (4 (2 's) (3 fun)))\n(1 (2 not) (3 fun))\n(0 bad)\n"
CONLLU = """# sent_id = s-1
# label = good
1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_

1\tHush\t_\tINTJ\t_\t_\t0\troot\t_\t_

"""
PARSE = "(ROOT (S (NP (DT A) (NN dog)) (VP (VBZ barks))))"
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
SICK = f"{SICK_HEADER}\n7\tA dog barks\tA dog sleeps\t3.5\tNEUTRAL\n"


def snli_line(label: str) -> str:
    item = {"gold_label": label, "sentence1_parse": PARSE, "sentence2_parse": "(ROOT (INTJ (UH Hush)))", "pairID": "p"}
    return json.dumps(item) + "\n"


def write(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    else:
        path.write_text(text, encoding="utf-8", newline="\n")
    return path


def texts(example: Example) -> list[str]:
    return [" ".join(sentence.words) for sentence in example.sentences]


def test_sst_sentences(tmp_path: Path) -> None:
    examples = list(read_examples(write(tmp_path, SST, "train.txt.gz")))
    assert [(texts(example), example.label, example.id) for example in examples] == [
        (["It 's fun"], "3", "0"),
        (["not fun"], "1", "1"),
        (["bad"], "0", "2"),
    ]
    tree = examples[0].sentences[0].constituency
    assert tree is not None
    assert list(tree.spans) == [("3", 0, 3), ("4", 1, 3)]
    assert tree.tags == ("2", "2", "3")


def test_sst_phrases(tmp_path: Path) -> None:
    path = write(tmp_path, SST)
    every = list(read_examples(path, phrases="all"))
    assert [(texts(example)[0], example.label, example.id) for example in every] == [
        ("It 's fun", "3", "0"),
        ("It", "2", "0/1"),
        ("'s fun", "4", "0/2"),
        ("'s", "2", "0/3"),
        ("fun", "3", "0/4"),
        ("not fun", "1", "1"),
        ("not", "2", "1/1"),
        ("fun", "3", "1/2"),
        ("bad", "0", "2"),
    ]
    for example in every:
        tree = example.sentences[0].constituency
        assert tree is not None
        assert tree.words == example.sentences[0].words
        assert tree.labelled_subtrees()[0] == (example.label, 0, len(tree.words))
    unique = list(read_examples(path, phrases="unique"))
    assert [example.id for example in unique] == ["0", "0/1", "0/2", "0/3", "0/4", "1", "1/1", "2"]
    assert {example.weight for example in unique} == {1.0}
    weighted = list(read_examples(path, phrases="weighted"))
    assert [example.id for example in weighted] == [example.id for example in unique]
    assert [example.id for example in weighted if example.weight == 0.25] == ["0/1", "0/3", "1/1"]


def test_sst_batches(tmp_path: Path) -> None:
    examples = list(read_examples(write(tmp_path, SST), phrases="all"))
    batch = collate([example.sentences[0] for example in examples], Vocabulary.from_examples(examples))
    assert batch.available("constituency")


def test_labelled(tmp_path: Path) -> None:
    path = write(tmp_path, "1 a  fine\u00a0day !\nDESC:def\tWhat's it\n0 \n", "cr.all")
    examples = list(read_examples(path))
    assert [example.sentences[0].words for example in examples] == [
        ("a", "fine\u00a0day", "!"),
        ("What's", "it"),
        (),
    ]
    assert [example.label for example in examples] == ["1", "DESC:def", "0"]
    assert list(read_examples(path, tokenised=False))[1].sentences[0].words == ("What", "'s", "it")


@pytest.mark.parametrize(
    ("text", "sentences", "label", "name"),
    [
        ("index\tsentence1\tsentence2\tlabel\n7\tIt is.\tIs it?\tyes\n", ["It is .", "Is it ?"], "yes", "7"),
        ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t3\t4\tA \"dog\tB\n", ['A " dog', "B"], "1", "0"),
        ("index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tnot_entailment\n", ["Who ?", "He ."], "not_entailment", "0"),
        ("sentence1\tsentence2\tgold_label\nA\tB\tneutral\n", ["A", "B"], "neutral", "0"),
        ("sentence\tlabel\na dog\t1\n", ["a dog"], "1", "0"),
        ("sentence\t label \na dog\t1\n", ["a dog"], "1", "0"),
        ("sentence1\tsentence2\tscore\nA\tB\t2.5\n", ["A", "B"], 2.5, "0"),
        ("text\nfine\n", ["fine"], None, "0"),
        ("main\tMSRvid\t2012\t04\t3.800\tA\tB\n", ["A", "B"], 3.8, "0"),
        ("main\tMSRvid\t2012\t04\t3.800\tA\tB\tx\ty\n", ["A", "B"], 3.8, "0"),
        ("gj04\t0\t*\tDogs bark.\n", ["Dogs bark ."], "0", "0"),
    ],
)  # fmt: skip
def test_known_tables(tmp_path: Path, text: str, sentences: list[str], label: str | float | None, name: str) -> None:
    (example,) = read_examples(write(tmp_path, text, "train.tsv"))
    assert texts(example) == sentences
    assert example.label == label
    assert example.id == name


@pytest.mark.parametrize(
    ("columns", "target", "sentences", "label", "rows"),
    [
        ({"text_column": "b", "label_column": "a"}, None, ["y y"], "3", 1),
        ({"text_column": ("b", "c"), "label_column": "a"}, "score", ["y y", "z"], 3.0, 1),
        ({"text_column": 2}, None, ["c"], None, 2),
        ({"text_column": "b", "id_column": 0}, None, ["y y"], None, 1),
    ],
)
def test_tables_with_named_columns(
    tmp_path: Path,
    columns: Mapping[str, Any],
    target: str | None,
    sentences: list[str],
    label: str | float | None,
    rows: int,
) -> None:
    path = write(tmp_path, "a\tb\tc\n3\ty y\tz\n")
    examples = list(read_examples(path, target=target, **columns))
    assert len(examples) == rows
    assert texts(examples[0]) == sentences
    assert examples[0].label == label
    assert examples[0].id == ("3" if "id_column" in columns else "0")


ROWS = [('Fine, "really" fine.', "pos"), ("Dull;\tand\nlong.", "neg"), ("No.", "neg")]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_a_program_writes_as_a_table_is_read_again(tmp_path: Path, delimiter: str, quoting: Any, end: str) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([("", "Review", "Sentiment"), *((str(number), *row) for number, row in enumerate(ROWS))])
    path = write(tmp_path, stream.getvalue(), "a.tsv" if delimiter == "\t" else "a.csv")
    for source in (path, io.StringIO(stream.getvalue(), newline="")):
        found = list(read_examples(source, None if source is path else "tsv" if delimiter == "\t" else "csv"))
        assert [(example.sentences[0], example.label) for example in found] == [
            (Sentence.from_text(text), label) for text, label in ROWS
        ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('sentence\tlabel\n"Yes," he said.\t1\nno\t0\n', ['" Yes , " he said .', "no"]),  # GLUE: marks are text
        ('sentence\tlabel\n"Yes.\t1\nNo."\t0\n', ['" Yes .', 'No . "']),
        ('sentence\tlabel\n"Yes"\t1\n"No" way\t0\n', ['" Yes "', '" No " way']),
        ('sentence\tlabel\n"Yes ""sir""."\t1\nNo\t0\n', ['Yes " sir " .', "No"]),  # pandas: marks are quotes
    ],
)
def test_quotation_marks_between_tabs_are_text_unless_all_are_quotes(
    tmp_path: Path, text: str, sentences: list[str]
) -> None:
    assert [
        " ".join(example.sentences[0].words) for example in read_examples(write(tmp_path, text, "a.tsv"))
    ] == sentences


def test_a_field_longer_than_the_limit_of_the_csv_module(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = write(tmp_path, "text,label\n" + "a " * 100_000 + ",1\n", "a.csv")
    (example,) = read_examples(path, tokenised=True)
    assert len(example.sentences[0]) == 100_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("lines", ["[{}, {}]", "[\n{},\n{}\n]\n", "{}\n{}\n", "\n {}\n\n{}"])
def test_json_as_lines_and_as_an_array(tmp_path: Path, lines: str) -> None:
    items = ('{"question": "Who?", "kind": "person"}', '{"question": "Why?", "kind": "reason"}')
    path = write(tmp_path, lines.replace("{}", "%s") % items, "a.json")
    found = list(read_examples(path, text_column="question", label_column="kind"))
    assert [(texts(example), example.label, example.id) for example in found] == [
        (["Who ?"], "person", "0"), (["Why ?"], "reason", "1")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "sentences", "label", "name"),
    [
        ('{"text": "It isn\'t.", "label": 1, "id": "neg_0"}', ["It is n't ."], "1", "neg_0"),
        ('{"words": ["It", "isn\'t."], "label": true}', ["It isn't."], "true", "0"),
        ('{"premise": "A", "hypothesis": "B", "label": "neutral"}', ["A", "B"], "neutral", "0"),
        ('{"sentence1": "A", "sentence2": "B", "gold_label": "x", "pairID": 3}', ["A", "B"], "x", "3"),
        ('{"sentence": "A", "label": 2.5}', ["A"], 2.5, "0"),
        ('{"sentence": "", "label": null}', [""], None, "0"),
    ],
)
def test_json_lines(tmp_path: Path, line: str, sentences: list[str], label: str | float | None, name: str) -> None:
    (example,) = read_examples(write(tmp_path, f"{line}\n\n"))
    assert (texts(example), example.label, example.id) == (sentences, label, name)


def test_json_lines_weight_and_target(tmp_path: Path) -> None:
    path = write(tmp_path, '{"text": "a", "label": 3, "weight": 2}\n')
    (example,) = read_examples(path, target="score")
    assert (example.label, example.weight) == (3.0, 2.0)
    (example,) = read_examples(write(tmp_path, '{"text": "a", "label": 2.5}\n'), target="class")
    assert example.label == "2.5"


def test_snli_has_both_trees_and_drops_unlabelled_pairs(tmp_path: Path) -> None:
    (example,) = read_examples(write(tmp_path, snli_line("-") + snli_line("neutral"), "dev.jsonl.gz"))
    assert texts(example) == ["A dog barks", "Hush"]
    assert (example.label, example.id) == ("neutral", "p")
    first = example.sentences[0]
    assert first.tags == ("DT", "NN", "VBZ")
    assert first.dependency is not None
    assert first.dependency.heads == (2, 3, 0)
    assert first.constituency is not None
    assert first.constituency.spans[0] == ("ROOT", 0, 3)


@pytest.mark.parametrize(("target", "label"), [(None, 4.5), ("relatedness", 4.5), ("entailment", "NEUTRAL")])
def test_sick(tmp_path: Path, target: str | None, label: str | float) -> None:
    (example,) = read_examples(write(tmp_path, f"{SICK_HEADER}\n12\tA dog\tA cat\t4.5\tNEUTRAL\n"), target=target)
    assert (texts(example), example.label, example.id) == (["A dog", "A cat"], label, "12")


def test_conllu(tmp_path: Path) -> None:
    first, second = read_examples(write(tmp_path, CONLLU))
    assert (texts(first), first.label, first.id) == (["Dogs bark"], "good", "s-1")
    assert (second.label, second.id) == (None, "1")
    assert first.sentences[0].dependency is not None
    assert first.sentences[0].dependency.heads == (2, 0)


def test_brackets_lose_traces_and_function_tags(tmp_path: Path) -> None:
    path = write(tmp_path, "( (S (NP-SBJ-1 (-NONE- *)) (VP (VB go)\n (ADVP-LOC (RB away)))) )\n")
    (example,) = read_examples(path)
    sentence = example.sentences[0]
    assert (sentence.words, sentence.tags, example.label) == (("go", "away"), ("VB", "RB"), None)
    assert sentence.constituency is not None
    assert list(sentence.constituency.spans) == [("S", 0, 2), ("VP", 0, 2), ("ADVP", 1, 2)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("which", ["text", "gold"])
def test_agreement(tmp_path: Path, which: str, suffix: str) -> None:
    lines = [
        ("the keys to the cabinet are here . <eos>", "5\tare\tis\t1"),
        ("he sees it <eos>", "1\tSees\tsee\t0"),
        ("they try <eos>", "1\ttry\ttries\t0"),
        ("it passes <eos>", "1\tpasses\tpass\t0"),
        ("was it <eos>", "0\twas\twere\t0"),
        ("origins lie there <eos>", "1\tlie\tlie\t0"),
    ]
    write(tmp_path, "".join(f"{text}\n" for text, _ in lines), f"agr.text{suffix}")
    write(tmp_path, "".join(f"{gold}\n" for _, gold in lines), f"agr.gold{suffix}")
    examples = list(read_examples(tmp_path / f"agr.{which}{suffix}"))
    assert [example.label for example in examples] == ["plural", "singular", "plural", "singular", "singular", "plural"]
    assert texts(examples[0]) == ["the keys to the cabinet"]
    assert examples[0].sentences[0].metadata == {"attractors": "1", "verb": "are", "wrong_verb": "is"}
    assert examples[4].sentences[0].words == ()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", SST, "sst"),
        ("a.txt", "(S (NP (DT the) (NN cat)))\n", "brackets"),
        ("a.conllu.gz", CONLLU, "conllu"),
        ("a.txt", CONLLU, "conllu"),
        ("a.txt", CONLLU.split("good\n")[1], "conllu"),
        ("a.txt", snli_line("neutral"), "snli"),
        ("a.txt", '{"text": "a"}\n', "json"),
        ("a.txt", f"{SICK_HEADER}\n", "sick"),
        ("a.txt", "\n\nsentence\tlabel\n", "tsv"),
        ("a.tsv", "text\na b\n", "tsv"),
        ("a.csv", "1,a fine film\n", "csv"),
        ("a.txt", "Text;Class\na;b\n", "csv"),
        ("a.txt", "fine, a text, said he\n", "labelled"),
        ("a.json", '[\n{"text": "a"}]\n', "json"),
        ("a.txt", '[{"text": "a"}]\n', "json"),
        ("a.text", "1 a b\n", "labelled"),
    ],
)
def test_recognised(tmp_path: Path, name: str, text: str, expected: str) -> None:
    assert recognise_format(write(tmp_path, text, name)) == expected


SMALL = {
    "sst": "(3 (2 It) (4 works))\n",
    "labelled": "1 a fine film\n",
    "tsv": "sentence\tlabel\na fine film\t1\n",
    "json": '{"text": "a fine film", "label": "1"}\n',
    "conllu": "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n",
    "documents": "# newdoc\n1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n",
    "brackets": "(S (NP (DT the) (NN cat)))\n",
    "parallel": "ein Film\ta film\n",
}


@pytest.mark.parametrize("law", READER_LAWS.values(), ids=READER_LAWS)
@pytest.mark.parametrize(
    ("format", "text"),
    [*SMALL.items(), ("csv", "text,label\na fine film,1\n"), ("snli", snli_line("neutral")), ("sick", SICK)],
)
def test_laws(format: str, text: str, law: Callable[..., None], tmp_path: Path) -> None:
    law(find_reader(format), text, list(read_examples(write(tmp_path, text), format)))


@pytest.mark.parametrize(("format", "text"), SMALL.items())
def test_streams_are_read_like_files(format: str, text: str, tmp_path: Path) -> None:
    expected = list(read_examples(write(tmp_path, text), format))
    for stream in (io.StringIO(text), io.BytesIO(text.encode()), io.BytesIO(gzip.compress(text.encode()))):
        assert list(read_examples(stream, format)) == expected
    with pytest.raises(ConfigError, match="expected the format of stream, got none; known: sst, labelled"):
        read_examples(io.StringIO(text))


def test_patterns_of_files(tmp_path: Path) -> None:
    for name, label in (("b.txt", "1"), ("a.txt", "0"), ("c.tsv", "2")):
        write(tmp_path, f"{label} a fine film\n{label} another\n", name)
    found = list(read_examples(str(tmp_path / "*.txt")))
    assert [(example.id, example.label) for example in found] == [
        ("a.txt/0", "0"),
        ("a.txt/1", "0"),
        ("b.txt/0", "1"),
        ("b.txt/1", "1"),
    ]
    assert [example.id for example in read_examples(tmp_path / "b*.txt")] == ["0", "1"]
    with pytest.raises(ParseError, match="expected a file that matches this pattern, got none"):
        read_examples(tmp_path / "*.csv")
    (tmp_path / "[x].txt").write_text("3 a name with brackets\n", encoding="utf-8")
    assert [example.label for example in read_examples(tmp_path / "[x].txt")] == ["3"]


@pytest.mark.parametrize(
    ("format", "text", "lines"),
    [
        ("sst", "\n" + SST, [2, 3, 4]),
        ("labelled", "1 fine\n\n0 dull\n", [1, 3]),
        ("text", "fine\n\ndull\n", [1, 2, 3]),
        ("csv", 'text,label\n"so\nfine",1\ndull,0\n', [2, 4]),
        ("tsv", "text\tlabel\nfine\t1\ndull\t0\n", [2, 3]),
        ("json", '{"text": "fine"}\n\n{"text": "dull"}\n', [1, 3]),
        ("json", '[\n{"text": "fine"},\n{"text": "dull"}\n]', [None, None]),
        ("snli", snli_line("neutral") + snli_line("-") + snli_line("neutral"), [1, 3]),
        ("sick", f"{SICK_HEADER}\n7\ta\tb\t4.5\tNEUTRAL\n", [2]),
        ("conllu", CONLLU, [None, None]),
        ("columns", "a DET\ndog NOUN\n\nhush VERB\n", [1, 4]),
        ("parallel", "ein Hund\ta dog\n\nja\tyes\n", [1, 3]),
    ],
)
def test_examples_know_their_line(tmp_path: Path, format: str, text: str, lines: list[int | None]) -> None:
    examples = list(read_examples(write(tmp_path, text), format))
    assert [example.line for example in examples] == lines
    said = [re.findall(r"\(line (\d+)\)", example.describe()) for example in examples]
    assert said == [[] if line is None else [str(line)] for line in lines]
    assert examples == [Example(one.sentences, one.label, id=one.id, weight=one.weight) for one in examples]


def test_the_top_of_the_house_reads_examples(tmp_path: Path) -> None:
    import structattn as sa

    path = write(tmp_path, "x\ty\na fine film\tgood\n")
    (example,) = sa.read_examples(path, "tsv", text_column="x", label_column="y")
    assert (example.label, example.sentences[0].words) == ("good", ("a", "fine", "film"))
