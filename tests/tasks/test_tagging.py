"""Tags of words: their distribution against enumeration, spans in BIO, data in columns, and training end to end."""

import dataclasses
import io
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import structattn as sa
from structattn.__main__ import main
from structattn.data import Example, Vocabulary, read_examples
from structattn.data.readers.treebanks import find_noun_phrases
from structattn.data.span_tags import Span, TagScheme, list_pairs, recognise_scheme, tag_spans
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure, ParseError
from structattn.inspection import attention_maps, look
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import ClassifierConfig, ModelConfig, TaggingModel, get_task, metric
from structattn.training import DataConfig, OptimizationConfig, RunConfig, run
from structattn.training.prediction_inputs import read_inputs

WORDS = ["a", "dog", "barks", "loudly"]
VOCABULARY = Vocabulary(WORDS)
BIO = ("B-a", "B-b", "I-a", "I-b", "O")
PLAIN = ("DET", "NOUN", "VERB")


def model_of(
    labels: tuple[str, ...] = BIO,
    encoder: str = "bilstm",
    *,
    scheme: TagScheme | None = None,
    longest: int = 3,
    **config: object,
) -> TaggingModel:
    torch.manual_seed(3)
    built = build(encoder, vocab_size=len(VOCABULARY), dim=24 if encoder == "tree_transformer" else 12).double()
    classifier = ClassifierConfig(**config)  # type: ignore[arg-type]
    model = TaggingModel(
        built,
        get_task("span_tagging"),
        labels,
        vocabulary=VOCABULARY,
        classifier=classifier,
        scheme=scheme,
        longest=longest,
    ).double()
    for parameter in model.chain.parameters():
        torch.nn.init.normal_(parameter)
    return model.eval()


#: Tags of spans a and b with and without the letters that mark their ends, and what marks what.
SCHEMES = {
    TagScheme("IOB1"): BIO,
    TagScheme("IOB2"): BIO,
    TagScheme("IOBES"): ("O", *(f"{letter}-{label}" for label in "ab" for letter in "BIES")),
    TagScheme("BILOU"): ("O", *(f"{letter}-{label}" for label in "ab" for letter in "BILU")),
    TagScheme("BMES"): ("O", *(f"{letter}-{label}" for label in "ab" for letter in "BMES")),
    TagScheme("IOB2", "suffix"): ("a-B", "a-I", "b-B", "b-I", "O"),
    TagScheme("types", "bare"): ("a", "b", "O"),
}


def encode(spans: list[Span], num_words: int, scheme: TagScheme) -> tuple[str, ...]:
    """The tags of spans in a scheme, written down word by word."""
    tags = ["O"] * num_words
    for start, end, label in spans:
        for word in range(start, end):
            if scheme.name == "types":
                letter = ""
            elif scheme.name == "IOB1":
                letter = "B" if word == start and any(span[1:] == (start, label) for span in spans) else "I"
            elif scheme.name == "IOB2":
                letter = "B" if word == start else "I"
            else:
                first, inside, last, single = {"IOBES": "BIES", "BILOU": "BILU", "BMES": "BMES"}[scheme.name]
                letter = single if end - start == 1 else first if word == start else last if word == end - 1 else inside
            tags[word] = (
                label if not letter else f"{letter}-{label}" if scheme.form == "prefix" else f"{label}-{letter}"
            )
    return tuple(tags)


def list_spans(num_words: int, start: int = 0) -> list[list[Span]]:
    """All sets of spans of labels a and b without overlap."""
    if start >= num_words:
        return [[]]
    sets = list_spans(num_words, start + 1)
    for end, label in itertools.product(range(start + 1, num_words + 1), "ab"):
        sets += [[(start, end, label), *further] for further in list_spans(num_words, end)]
    return sets


def possible(tags: tuple[str, ...], scheme: TagScheme) -> bool:
    return all(scheme.may_follow(*pair) for pair in list_pairs(tags))


@pytest.mark.parametrize("text", ["a", "a dog", "a dog barks"])
@pytest.mark.parametrize("scheme", [*SCHEMES, None], ids=str)
def test_the_likelihoods_of_all_possible_tags_sum_to_one(scheme: TagScheme | None, text: str) -> None:
    labels = PLAIN if scheme is None else SCHEMES[scheme]
    model = model_of(labels, scheme=scheme)
    every = [
        tags for tags in itertools.product(labels, repeat=len(text.split())) if scheme is None or possible(tags, scheme)
    ]
    batch = model.collate([Example(text, " ".join(tags)) for tags in every])
    values = model(batch).exp()
    assert values.sum().item() == pytest.approx(1)
    answer = model.predict([text])[0]
    assert answer.text == " ".join(every[int(values.argmax())])
    assert answer.log_probability == pytest.approx(values.max().log().item())


@pytest.mark.parametrize("scheme", [TagScheme("IOB2"), TagScheme("IOB2", "suffix")], ids=str)
@pytest.mark.parametrize(("text", "longest"), [("a", 1), ("a dog barks", 3), ("a dog barks", 2)])
def test_the_likelihoods_of_all_segments_sum_to_one(scheme: TagScheme, text: str, longest: int) -> None:
    labels = SCHEMES[scheme]
    model = model_of(labels, scheme=scheme, tags="segments", longest=longest)
    every = [
        encode(spans, len(text.split()), scheme)
        for spans in list_spans(len(text.split()))
        if all(end - start <= longest for start, end, _ in spans)
    ]
    values = model(model.collate([Example(text, " ".join(tags)) for tags in every])).exp()
    assert values.sum().item() == pytest.approx(1)
    answer = model.predict([text])[0]
    assert answer.text == " ".join(every[int(values.argmax())])
    assert answer.log_probability == pytest.approx(values.max().log().item())
    longer = encode([(0, 3, "a")], 3, scheme)
    assert model.collate([Example("a dog barks", " ".join(longer))]).num_labelled == int(longest == 3)


def test_segments_without_learnt_scores_are_the_chain_without_them() -> None:
    text, tags = "a dog barks loudly", "B-a I-a B-b O"
    segments, chain = (model_of(scheme=TagScheme("IOB2"), tags=kind, longest=4) for kind in ("segments", "chain"))
    for parameter in (*segments.chain.parameters(), *chain.chain.parameters()):
        torch.nn.init.zeros_(parameter)
    likelihoods = [model(model.collate([Example(text, tags)])) for model in (segments, chain)]
    torch.testing.assert_close(*likelihoods)


@pytest.mark.parametrize("scheme", [TagScheme("IOBES"), TagScheme("IOB1"), None], ids=str)
def test_segments_are_of_one_scheme(scheme: TagScheme | None) -> None:
    labels = PLAIN if scheme is None else SCHEMES[scheme]
    with pytest.raises(ConfigError, match=r"classifier.tags segments: expected tags of spans in IOB2.* use .* chain"):
        model_of(labels, scheme=scheme, tags="segments")


def test_independent_tags_are_a_softmax_for_each_word() -> None:
    model = model_of(tags="independent")
    batch = model.collate([Example("a dog barks", "O I-b B-a")])
    scores = model.classifier(model.encoder(batch.sentences).states).log_softmax(-1)
    places = [BIO.index(tag) for tag in ("O", "I-b", "B-a")]
    assert model(batch).item() == pytest.approx(sum(scores[0, k, tag].item() for k, tag in enumerate(places)))
    assert not [name for name, _ in model.named_parameters() if "transition" in name]


def test_the_loss_is_a_mean_over_weighted_words_whatever_the_company() -> None:
    model = model_of()
    long, short = Example("a dog barks", "B-a I-a O", weight=2.0), Example("barks", "O")
    apart = 2 * 3 * model.loss([long]) + model.loss([short])
    assert model.loss([long, short]).item() == pytest.approx(apart.item() / 7)
    unlabelled = [Example("loudly a dog"), Example("dog", "UNKNOWN"), Example((Sentence([]),), "")]
    assert model.loss([long, short, *unlabelled[:2]]).item() == pytest.approx(apart.item() / 7)
    model.loss([long, *unlabelled]).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    with pytest.raises(ValueError, match="no example of this batch of 1 has tags"):
        model.loss(unlabelled[:1])


@pytest.mark.parametrize("encoder", ["bilstm", "transformer", "ms_san", "disan", "emb_s2t"])
def test_company_and_batches_change_no_answer(encoder: str) -> None:
    model = model_of(encoder=encoder)
    sentences = [Sentence(WORDS[:k], dependency=DependencyTree([0, 1, 1, 1][:k])) for k in (3, 1, 4, 2)]
    alone = [model.predict([one])[0] for one in sentences]
    for size in (1, 2, 4):
        for one, other in zip(model.predict(sentences, batch_size=size), alone, strict=True):
            assert one.text == other.text
            assert one.log_probability == pytest.approx(other.log_probability)
    assert model.predict([Sentence([])])[0].text == ""


def test_states_of_phrases_are_no_words() -> None:
    tree = sa.ConstituencyTree.from_brackets("(S (NP (D a) (N dog)) (V barks))")
    sentence = Sentence(tree.words, constituency=tree)
    model = model_of(encoder="tree_transformer")
    assert len(str(model.predict([sentence])[0].text).split()) == 3
    with pytest.raises(MissingStructure, match="it is of example 'seven'"):
        model.predict([Example("a dog", id="seven")])


@pytest.mark.parametrize("size", range(5))
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_possible_sequences_of_a_scheme_are_those_of_spans(scheme: TagScheme, size: int) -> None:
    spans = {encode(each, size, scheme): each for each in list_spans(size)}
    assert set(spans) == {tags for tags in itertools.product(SCHEMES[scheme], repeat=size) if possible(tags, scheme)}
    for tags, each in spans.items():
        merged = scheme.name == "types"  # bare types do not separate neighbours of the same label
        assert merged or scheme.find_spans(tags) == each
        assert merged or scheme.name != "IOB2" or scheme.form != "prefix" or tag_spans(each, size) == list(tags)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize(
    "spell",
    [
        lambda tag: tag,
        str.lower,
        lambda tag: tag.replace("-", "_"),
        lambda tag: tag.replace("-", ":"),
        lambda tag: tag.replace("-", "/"),
    ],
)
def test_a_scheme_is_recognised_however_it_is_spelt(scheme: TagScheme, spell: Callable[[str], str]) -> None:
    sequences = [[spell(tag) for tag in encode(spans, 4, scheme)] for spans in list_spans(4)]
    tags = {tag for sequence in sequences for tag in sequence}
    recognised = recognise_scheme(tags, {pair for sequence in sequences for pair in list_pairs(sequence)})
    assert recognised == scheme
    if scheme.name != "types":
        lists = [[(start, end, label.lower()) for start, end, label in spans] for spans in list_spans(4)]
        assert [recognised.find_spans(sequence) for sequence in sequences] == lists


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["O", "B-PER", "I-PER", "LOC"], "(B-PER, I-PER) and some do not (LOC): expected IOB1"),
        (["O", "B-PER", "0"], "(B-PER) and some do not (0)"),
        (["B-PER", "E-PER", "U-LOC"], "the letters B, E, U are of no one scheme"),
        (["O", "B-X", "L-X", "S-X"], "the letters B, L, S are of no one scheme"),
    ],
)
def test_tags_of_no_scheme_are_refused_by_every_door(tags: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        recognise_scheme(tags)
    with pytest.raises(ValueError, match="span_f1: .*" + re.escape(message)):
        metric("span_f1").value([" ".join(tags)], [" ".join(tags)])
    file = tmp_path / "train.txt"
    file.write_text("\n".join(f"word {tag}" for tag in tags) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(message)):
        sa.train(file, file, task="span_tagging", encoder="bilstm", out=tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Ann B-PER\nLee E-PER\nwent O\nRome S-LOC\n", "spans of 'LOC', 'PER' as IOBES tags"),
        ("Ann B-PER\nLee L-PER\nwent O\nRome U-LOC\n", "spans of 'LOC', 'PER' as BILOU tags"),
        ("Ann PER\nLee PER\nwent O\nRome LOC\n", "spans of 'LOC', 'PER' as bare types"),
        ("Ann PER-B\nLee PER-I\nwent O\nRome LOC-B\n", "spans of 'LOC', 'PER' as IOB2 suffixes"),
        ("Ann I-PER\nLee I-PER\nwent O\nRome I-LOC\n", "spans of 'LOC', 'PER' as IOB1 tags"),
        ("Ann b_PER\nLee i_PER\nwent o\nRome b_LOC\n", "spans of 'LOC', 'PER' as IOB2 tags"),
    ],
)
def test_every_scheme_trains_to_its_spans(
    text: str, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "train.txt"
    file.write_text(text + "\n" + text, encoding="utf-8")
    caplog.set_level("INFO")
    result = sa.train(
        file,
        file,
        task="span_tagging",
        encoder="bilstm",
        options={"dim": 8},
        optimization={"epochs": 30, "learning_rate": 0.05, "batch_size": 2},
        out=tmp_path / "run",
    )
    assert says in caplog.text
    assert result.metrics["span_f1"] == result.metrics["tag_accuracy"] == 1
    model = sa.load(result.folder)
    words, tags = zip(*(line.split() for line in text.splitlines()), strict=True)
    counts = metric("span_f1").counts([" ".join(tags)], [str(model.predict([Sentence(words)])[0].text)])
    assert counts.tolist() == [[4, 4]]


@pytest.mark.parametrize("scheme", [None, TagScheme("IOBES")])
def test_tags_without_one_for_a_single_word_are_not_constrained(scheme: TagScheme | None) -> None:
    model = model_of(("B-a", "E-a"), scheme=scheme)
    assert model.chain.scheme is None
    assert model.predict(["dog"])[0].text in ("B-a", "E-a")


def test_data_without_spans_cannot_choose_an_epoch_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train, dev = tmp_path / "train.txt", tmp_path / "dev.txt"
    train.write_text("Ann B-PER\nwent O\n", encoding="utf-8")
    dev.write_text("we O\nwent O\n", encoding="utf-8")
    sa.train(train, dev, task="span_tagging", encoder="bilstm", optimization={"epochs": 1}, out=tmp_path / "run")
    assert "dev: no word is in a span, so span_f1 is 0 whatever a model answers" in caplog.text


@pytest.mark.parametrize("spans", [[(0, 2, "a"), (1, 3, "a")], [(1, 1, "a")], [(2, 4, "a")]])
def test_spans_that_are_no_tags_are_refused(spans: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError, match="span"):
        tag_spans(spans, 3)


def test_metrics_count_spans_and_words_over_all_examples() -> None:
    gold = ["B-a I-a O", "B-a B-b"]
    found = ["B-a I-a B-b", "I-a B-a"]  # right: a span of three found in each, of three
    assert metric("span_f1").value(gold, found) == pytest.approx(2 * 2 / (3 + 4))
    assert metric("tag_accuracy").value(gold, found) == pytest.approx(2 / 5)
    assert metric("span_f1").value(["O O"], ["O O"]) == 0
    weights = torch.tensor([[1.0, 1.0], [3.0, 0.0], [1.0, 2.0]]).numpy()
    values = metric("span_f1").values(gold, found, weights=weights)
    repeats = [
        metric("span_f1").value(gold[:1] * int(a) + gold[1:] * int(b), found[:1] * int(a) + found[1:] * int(b))
        for a, b in weights
    ]
    assert values.tolist() == pytest.approx(repeats)
    with pytest.raises(ValueError, match="span_f1: expected an answer for each of the 3 words of example 0, got 2"):
        metric("span_f1").value(gold, ["O O", "O O"])


def test_phrases_are_heads_with_their_neighbours() -> None:
    sentence = Sentence(
        ["The", "big", "dog", "of", "Mary", "Smith", "saw", "it"],
        ["DET", "ADJ", "NOUN", "ADP", "PROPN", "PROPN", "VERB", "PRON"],
        DependencyTree([3, 3, 7, 5, 3, 5, 0, 7], ["det", "amod", "nsubj", "case", "nmod", "flat", "root", "obj"]),
    )
    assert find_noun_phrases(sentence) == [(0, 3, "NOUN"), (4, 6, "PROPN"), (7, 8, "PRON")]
    with pytest.raises(MissingStructure, match="'a b' lacks them"):
        find_noun_phrases(Sentence(["a", "b"]))


@pytest.mark.parametrize(
    ("target", "label"),
    [("tags", "DET NOUN VERB"), ("noun_phrases", "B-NOUN I-NOUN O"), ("heads", "2 3 0"), ("class", None)],
)
def test_what_a_treebank_says_of_each_word(target: str, label: str | None, tmp_path: Path) -> None:
    tree = DependencyTree([2, 3, 0], ["det", "nsubj", "root"])
    sa.write_conllu(tmp_path / "a.conllu", [Sentence(WORDS[:3], ["DET", "NOUN", "VERB"], tree), Sentence(["hush"])])
    first, bare = read_examples(tmp_path / "a.conllu", target=target)
    assert (first.label, bare.label) == (label, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kids wash their hands.\n\nThe end.\n", "text"),
        ("1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n", "conllu"),
        ("# newdoc id = a\n1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n", "conllu"),
    ],
)
def test_taggers_that_learn_from_treebanks_read_texts_too(text: str, expected: str, tmp_path: Path) -> None:
    model = model_of()
    model.task = get_task("noun_phrases")
    (tmp_path / "given").write_text(text)
    assert read_inputs(model, tmp_path / "given", DataConfig())[0] == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a O\ndog B-x\n\nhush O\n", {}, [("a dog", "O B-x"), ("hush", "O")]),
        ("-DOCSTART- -X- O\n\n\na DT O\n \n\n-DOCSTART- -X- O\n\ndog NN B-x", {}, [("a", "O"), ("dog", "B-x")]),
        ("New York\tX\tB-x\n", {}, [("New York", "B-x")]),
        ("1 a DT O\n2 dog NN O\n", {"text_column": 1, "label_column": "2"}, [("a dog", "DT NN")]),
        ("# #\nhash #\n", {}, [("# hash", "# #")]),
    ],
)
def test_columns_are_words_and_tags(text: str, options: dict[str, int], expected: list[tuple[str, str]]) -> None:
    found = list(read_examples(io.StringIO(text), "columns", **options))
    assert [(" ".join(one.sentences[0].words), one.label) for one in found] == expected
    assert [one.id for one in found] == [str(number) for number in range(len(expected))]


@pytest.mark.parametrize(
    ("text", "options", "line", "message"),
    [
        ("a O\ndog\n", {}, 2, "expected at least 2 columns, word and tag among them, got 'dog'"),
        ("a O\n\ndog N\n", {"label_column": 2}, 1, "expected at least 3 columns"),
        ("a\tB I\n", {}, 1, "expected a word and a tag without spaces"),
        ("a\t\n", {}, 1, "expected a word and a tag without spaces"),
        ("\n\n", {}, None, "expected at least one example in format 'columns', got none"),
        ("a O\n" * 100_002, {}, 100_001, "expected a blank line after each sentence"),
    ],
)
def test_bad_columns_are_refused_with_their_line(
    text: str, options: dict[str, int], line: int | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(text)
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(file, "columns", **options))
    assert caught.value.line == line
    with pytest.raises(ConfigError, match="text_column: columns of words and tags are numbers from 0, got 'word'"):
        list(read_examples(file, "columns", text_column="word"))


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (
            [Example("a dog", "O"), Example("a", "B-x")],
            "training example 0: expected a tag for each of its 2 words, got 1",
        ),
        ([Example("a dog")], "training example 0 has no tags"),
        ([Example("a dog", "O O")], "needs at least two tags"),
        (
            [Example("a", "B-x"), Example("a dog", "O I-x")],
            "training example 1: I-x after O, which IOB2 tags do not have",
        ),
    ],
)
def test_training_examples_without_proper_tags_are_refused(examples: list[Example], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TaggingModel.from_examples(get_task("tagging"), ModelConfig("emb_s2t", {"dim": 4}), examples)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A name is two words after "of", wherever that is."""
    path = tmp_path_factory.mktemp("columns") / "names.txt"
    rows = []
    for before, first, last, after in itertools.product(["", "the", "the dog"], "ABC", "DEF", ["", "barks"]):
        words = [*before.split(), "of", first, last, *after.split()]
        tags = ["O"] * (len(before.split()) + 1) + ["B-name", "I-name"] + ["O"] * len(after.split())
        rows.append("\n".join(f"{word} x {tag}" for word, tag in zip(words, tags, strict=True)))
    path.write_text("\n\n".join(rows) + "\n")
    return path


def test_pooling_is_not_shown_of_a_model_that_answers_without() -> None:
    model = model_of(encoder="bilstm_s2t")
    sentence = Sentence(["a", "dog", "barks"])
    assert {one.kind for one in attention_maps(model.encoder, sentence, vocabulary=VOCABULARY)} == {"pooling"}
    assert attention_maps(model, sentence) == []
    assert look(model, sentence).maps == ()


@pytest.mark.parametrize("tags", ["chain", "segments", "independent"])
def test_names_are_learnt_saved_and_found_again(
    tags: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(
        "span_tagging",
        "bilstm",
        DataConfig(str(corpus), str(corpus)),
        options={"dim": 16},
        classifier=ClassifierConfig(tags=tags, hidden=16),  # type: ignore[arg-type]
        optimization=OptimizationConfig(learning_rate=0.02, batch_size=8, epochs=6),
        out=str(tmp_path / "run"),
    )
    assert run(config).metrics["span_f1"] == 1
    (tmp_path / "new.txt").write_text("of A F barks\nof\n")
    (tmp_path / "columns.txt").write_text("of O\nA ?\nF ?\nbarks O\n\nof O\n")
    for name in ("new.txt", "columns.txt"):
        assert main(["predict", str(tmp_path / "run"), "--data", str(tmp_path / name)]) == 0
        rows = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
        assert rows == ["O B-name I-name O", "O"]
    (tmp_path / "new.csv").write_text("text\nof A F barks\nof\n")
    (tmp_path / "new.jsonl").write_text('{"text": "of A F barks"}\n{"text": "of"}\n')
    lines = ("\t".join((str(n), word, *"________")) for n, word in enumerate(["of", "A", "F", "barks"], 1))
    (tmp_path / "new.conllu").write_text("\n".join(lines) + "\n\n1\tof" + "\t_" * 8 + "\n\n")
    for name in ("new.csv", "new.jsonl", "new.conllu"):
        assert main(["predict", str(tmp_path / "run"), "--data", str(tmp_path / name)]) == 0
        rows = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
        assert rows == ["O B-name I-name O", "O"]
    assert main(["eval", str(tmp_path / "run"), "--data", str(corpus)]) == 0
    told = capsys.readouterr()
    assert "span_f1 1" in told.out
    assert "warning" not in told.err
    (tmp_path / "places.txt").write_text(corpus.read_text().replace("-name", "-place"))
    others = corpus.read_text().count("-name")
    assert main(["eval", str(tmp_path / "run"), "--data", str(tmp_path / "places.txt")]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0].endswith(f"unseen_labels {others}")
    assert f"warning: {tmp_path / 'places.txt'}: {others} of " in told.err
    assert " tags are not among the 3 of the training data: 'B-place', 'I-place'" in told.err
    refused = dataclasses.replace(config, task="sentiment", out=str(tmp_path / "no"))
    with pytest.raises(ConfigError, match=r"classifier.tags: task 'sentiment' answers with one label"):
        run(dataclasses.replace(refused, data=DataConfig(str(_sentiment(tmp_path)))))


def _sentiment(folder: Path) -> Path:
    file = folder / "sentiment.csv"
    file.write_text("text,label\n" + "good film,1\nbad film,0\n" * 20)
    return file


@pytest.mark.parametrize("section", [{"combine": "single"}, {"label_smoothing": 0.1}])
def test_what_only_labels_of_sentences_have_is_refused(section: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"expected no classifier.combine or classifier.label_smoothing"):
        model_of(**section)
