"""Texts as answers: tokens, parallel files, the decoder in both of its faces, and whole runs."""

import copy
import dataclasses
import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import structattn as sa
from interrupting import interrupted
from structattn.cli import main
from structattn.data import Example, Vocabulary, read_examples
from structattn.data.text_vocabulary import BEGIN_ID, CharacterSplitter, SubwordSplitter, TextVocabulary, retokenize
from structattn.encoders import ConcatContext
from structattn.encoders.encoder_table import needs_backbone
from structattn.errors import ConfigError, ParseError
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import (
    GENERATORS,
    TASKS,
    DecoderConfig,
    SequenceModel,
    Task,
    TextProcessor,
    build_decoder,
    get_task,
    metric,
)
from structattn.tasks.lstm_decoder import ATTENTIONS
from structattn.training import (
    DataConfig,
    OptimizationConfig,
    RunConfig,
    RunFolder,
    compare,
    load,
    run,
)
from structattn.training.examples import read_split
from structattn.training.optimization import build_schedule
from structattn.training.plan import plan_run
from structattn.training.prediction_inputs import read_inputs
from structattn.training.preparation import prepare_model
from structattn.training.sampler import TokenBatchSampler

# Metrics.


def test_bleu_is_that_of_sacrebleu_for_every_resample() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    gold = [
        "the cat sat on the mat",
        "a dog barks at the moon tonight",
        "hello there , world !",
        "no match here at all",
    ]
    answers = ["the cat sat on a mat", "a dog barks at the moon", "hello there world !", "something else entirely now"]
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 1.0, 1.0], [0.0, 3.0, 0.0, 1.0]])
    values = metric("bleu").values(gold, answers, weights=weights)
    for row, value in zip(weights.astype(int), values, strict=True):
        drawn = np.repeat(np.arange(4), row)
        expected = sacrebleu.corpus_bleu([answers[i] for i in drawn], [[gold[i] for i in drawn]]).score
        assert value == pytest.approx(expected, abs=1e-9)
    assert metric("bleu").value(gold, gold) == pytest.approx(100.0)


# Tokens.


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_texts_come_back_from_their_ids(kind: Any) -> None:
    texts = ["a dog barks , twice", "the cat 's bark", "a cat barks"]
    vocabulary = TextVocabulary.from_texts(texts, kind, size=60)
    for text in texts:
        assert vocabulary.decode([BEGIN_ID, *vocabulary.encode(text), 3, 5, 6]) == text
    again = TextVocabulary.from_files(vocabulary.files().__getitem__)
    assert [again.encode(text) for text in texts] == [vocabulary.encode(text) for text in texts]
    assert again.files() == vocabulary.files()
    assert vocabulary.encode("\N{SNOWMAN}")[-1] == 1


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_names_of_special_ids_are_unknown_words(kind: Any) -> None:
    for texts in (["<s> a b </s>", "a b <pad>"], ["a b", "b a"]):
        vocabulary = TextVocabulary.from_texts(texts, kind, size=30)
        ids = vocabulary.encode("a </s> b <s> <unk>")
        assert {0, 2, 3}.isdisjoint(ids)
        assert [word for word in vocabulary.decode(ids).replace("<unk>", " ").split() if word in "ab"] == ["a", "b"]
    assert TextVocabulary.from_texts(["a b"]).encode("a </s> b") == [4, 1, 5]


def test_tokens_carry_trees() -> None:
    tree = ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) (VP (VB barks)))")
    sentence = Sentence(tree.words, dependency=DependencyTree([2, 3, 0], ["det", "nsubj", "root"]), constituency=tree)
    tokens = retokenize(sentence, CharacterSplitter())
    assert "".join(tokens.words) == "adogbarks"
    assert tokens.dependency is not None
    assert tokens.constituency is not None
    assert tokens.dependency.heads == (2, 5, 2, 2, 0, 5, 5, 5, 5)
    assert tokens.dependency.labels[:3] == ("det", "nsubj", "subword")  # type: ignore[index]
    expected = [("S", 0, 9), ("NP", 0, 4), ("NN", 1, 4), ("VP", 4, 9), ("VB", 4, 9)]
    assert list(tokens.constituency.spans) == expected
    assert retokenize(sentence, TextVocabulary.from_texts(["x"]).splitter) is sentence
    untagged = Sentence(["ab"], ["NOUN"], constituency=ConstituencyTree(["ab"], [("S", 0, 1)]))
    tagged = retokenize(untagged, CharacterSplitter()).constituency
    assert tagged is not None
    assert list(tagged.spans) == [("S", 0, 2), ("NOUN", 0, 2)]


def test_unknown_tokens_and_damaged_files_are_refused() -> None:
    with pytest.raises(ConfigError, match="'syllables'"):
        TextVocabulary.from_texts(["a"], "syllables")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected the tokens of a trained model"):
        TextVocabulary.from_files(lambda name: "{}")


# Parallel files.


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_two_files_and_a_table_read_alike(tmp_path: Path) -> None:
    first = write(tmp_path / "a.de.gz", "ein Hund\n\nzwei  Katzen.\n")
    second = write(tmp_path / "a.en", "a dog\n\ntwo cats .\n")
    table = write(tmp_path / "a.tsv", "ein Hund\ta dog\n\nzwei  Katzen.\ttwo cats .\n")
    pairs = list(read_examples(f"{first},{second}", format="parallel"))
    assert pairs == list(read_examples(table, format="parallel"))
    assert [(example.sentences[0].words, example.label, example.id) for example in pairs] == [
        (("ein", "Hund"), "a dog", "0"),
        (("zwei", "Katzen", "."), "two cats .", "1"),
    ]


def test_the_first_file_may_have_trees(tmp_path: Path) -> None:
    trees = tmp_path / "a.conllu"
    sa.write_conllu(trees, [Sentence(["ein", "Hund"], dependency=DependencyTree([2, 0]))])
    texts = write(tmp_path / "a.en", "a dog\n")
    (example,) = read_examples(f"{trees},{texts}", format="parallel")
    assert example.sentences[0].dependency is not None
    assert example.sentences[0].dependency.heads == (2, 0)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("a\nb\n", "x\n", r"b.en:2: expected as many sentences as .*a.de has, got 1"),
        ("a\n", "x\ny\n", r"a.de:2: expected as many sentences as .*b.en has, got 1"),
        ("a\nb\n", "x\n \n", r"b.en:2: expected a translation of 'b', got none"),
        ("a\n\n", "x\ny\n", r"a.de:2: expected the sentence that 'y' translates"),
        ("", "", r"expected at least one example in format 'parallel'"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path: Path, left: str, right: str, message: str) -> None:
    first, second = write(tmp_path / "a.de", left), write(tmp_path / "b.en", right)
    with pytest.raises(ParseError, match=message):
        list(read_examples(f"{first},{second}", format="parallel"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc\n", r"a.tsv:1: expected 'sentence TAB translation', got 3 columns"),
        ("a\tb\n\tc\n", r"a.tsv:2: expected a sentence before the tab"),
        ("a\t \n", r"a.tsv:1: expected a translation after the tab"),
    ],
)
def test_malformed_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        list(read_examples(write(tmp_path / "a.tsv", text), format="parallel"))
    with pytest.raises(ParseError, match="expected one file, or two separated by a comma"):
        list(read_examples("a,b,c", format="parallel"))
    for name in ("a" * 5_000, "a," + "b" * 5_000):
        with pytest.raises(ParseError, match=r"cannot read this file: (File name too long|No such file)"):
            list(read_examples(name, format="parallel"))


# The model.

PAIRS = [
    Example((Sentence(["ein", "Hund", "bellt"]),), "a dog barks", id="0"),
    Example((Sentence(["zwei", "Katzen"]),), "two cats", id="1"),
    Example((Sentence(["ein", "Hund", "jagt", "zwei", "Katzen"]),), "a dog chases two cats", id="2"),
]


def model_of(encoder: str = "lstm", *, beam: int = 3, smoothing: float = 0.0, **options: Any) -> SequenceModel:
    torch.manual_seed(0)
    texts = TextProcessor(
        Vocabulary.from_examples(PAIRS), TextVocabulary.from_texts([str(pair.label) for pair in PAIRS])
    )
    reader = sa.encoders.build(encoder, vocab_size=len(texts.source), dim=6)
    writer = build_decoder("lstm", reader, len(texts.target), **options)
    search = sa.tasks.Search(beam=beam)
    return SequenceModel(
        reader, writer, get_task("translation"), texts=texts, label_smoothing=smoothing, search=search
    ).eval()


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("initial", ["vector", "zero"])
def test_step_by_step_is_all_steps_at_once(attention: str, initial: str) -> None:
    model = model_of(attention=attention, initial=initial, num_layers=2, dim=5)
    batch = model.collate(PAIRS)
    scores = model(batch)
    state = model.decoder.start(model.encoder(batch.source), batch.source)
    for number in range(batch.inputs.shape[1]):
        found, state = model.decoder.step(batch.inputs[:, number], state)
        real = batch.outputs[:, number] != 0
        assert torch.allclose(found[real], scores[real, number], atol=1e-5)


@pytest.mark.parametrize(
    ("encoder", "attention"),
    [*((encoder, "segmentation") for encoder in ("lstm", "structured", "bilstm", "ms_san")), ("lstm", "window")],
)
def test_padding_and_company_change_nothing(encoder: str, attention: str) -> None:
    options = {"missing_trees": "word"} if encoder == "ms_san" else {}
    torch.manual_seed(0)
    texts = TextProcessor(
        Vocabulary.from_examples(PAIRS), TextVocabulary.from_texts([str(pair.label) for pair in PAIRS])
    )
    reader = sa.encoders.build(encoder, vocab_size=len(texts.source), dim=12, **options)
    writer = build_decoder("lstm", reader, len(texts.target), attention=attention)
    model = SequenceModel(reader, writer, get_task("translation"), texts=texts).eval()
    together = model.collate(PAIRS)
    scores = model(together)
    for row, pair in enumerate(PAIRS):
        alone = model.collate([pair])
        steps = alone.inputs.shape[1]
        assert torch.allclose(model(alone)[0], scores[row, :steps], atol=1e-5)
    each = [model.loss([pair]).item() * int((model.collate([pair]).outputs != 0).sum()) for pair in PAIRS]
    total = int((together.outputs != 0).sum())
    assert model.loss(together).item() == pytest.approx(sum(each) / total, rel=1e-5)
    assert model.predict(PAIRS, batch_size=1) == pytest.approx(model.predict(PAIRS, batch_size=3)) or [
        one.text for one in model.predict(PAIRS, batch_size=1)
    ] == [one.text for one in model.predict(PAIRS, batch_size=3)]


def test_the_loss_is_the_smoothed_cross_entropy() -> None:
    model = model_of(smoothing=0.2)
    batch = model.collate(PAIRS)
    logs = model(batch).log_softmax(-1)
    total, count = 0.0, 0
    for row in range(len(batch)):
        for number, token in enumerate(batch.outputs[row].tolist()):
            if token:
                total -= 0.8 * logs[row, number, token].item() + 0.2 * logs[row, number].mean().item()
                count += 1
    assert model.loss(batch).item() == pytest.approx(total / count, rel=1e-5)


def test_a_beam_answers_at_least_as_probably_as_greed() -> None:
    greedy, wide = model_of(beam=1).predict(PAIRS), model_of(beam=8).predict(PAIRS)
    for one, other in zip(greedy, wide, strict=True):
        assert one.log_probability is not None
        assert other.log_probability is not None
        assert other.log_probability >= one.log_probability - 1e-5


def test_scores_of_texts_are_summed_in_single_precision() -> None:
    coarse = model_of("transformer", beam=1).to(torch.bfloat16)
    (found,) = coarse.predict([" ".join(["Hund"] * 60)])
    fine = copy.deepcopy(coarse).float()
    batch = fine.collate([Example(" ".join(["Hund"] * 60), found.text)])
    with torch.no_grad():
        logs = fine(batch).index_fill(-1, torch.tensor([0, 1, BEGIN_ID]), -torch.inf).log_softmax(-1)
    expected = logs.gather(-1, batch.outputs.unsqueeze(-1)).sum().item()
    assert expected < -64, "numbers of which bfloat16 tells only every second"
    assert found.log_probability == pytest.approx(expected, rel=0.004)


def test_segmentation_weights_sum_to_lambda_and_sigmoid_to_what_they_like() -> None:
    model = model_of(attention="segmentation")
    batch = model.collate(PAIRS)
    states = model.encoder(batch.source)
    layer = model.decoder.attention  # type: ignore[attr-defined]
    queries = torch.randn(3, 4, 6)
    _, weights = layer(states.states, states.mask, queries=queries, need_weights=True)
    assert torch.allclose(weights.sum(-1), torch.full((3, 1, 4), 2.0))
    assert not weights.masked_select(~batch.source.mask[:, None, None]).any()


def test_bad_models_and_items_are_refused() -> None:
    model = model_of()
    with pytest.raises(TypeError, match=r"write predict\(\['ein'\]\)"):
        model.predict("ein")
    with pytest.raises(ValueError, match="takes 1 sentence"):
        model.predict([("ein", "zwei")])
    with pytest.raises(ValueError, match="has no text to compare with"):
        model.evaluate([Example((Sentence(["ein"]),), id="x")])
    with pytest.raises(ValueError, match="no example of this batch of 1 has a text"):
        model.loss([Example((Sentence(["ein"]),))])
    with pytest.raises(ConfigError, match="unknown option 'heads' for decoder 'lstm'; known: attention"):
        model_of(heads=3)
    with pytest.raises(ConfigError, match="attention expects one of none, simple, sigmoid, segmentation"):
        model_of(attention="hard")
    for attention in ("none", "window"):
        with pytest.raises(ConfigError, match=f"total concerns words that are selected; attention is '{attention}'"):
            model_of(attention=attention, total=1.0)
    with pytest.raises(ConfigError, match="unknown decoder 'gru'; known: "):
        build_decoder("gru", model.encoder, 5)


# Encoders.


SINGLE = sorted(name for name in sa.encoders.BUILDERS if not needs_backbone(name) and name != "decomposable")


@pytest.mark.parametrize("name", SINGLE)
def test_every_encoder_says_how_wide_its_states_are(name: str) -> None:
    tree = ConstituencyTree.from_brackets("(S (X ein) (X Hund))")
    sentence = Sentence(tree.words, dependency=DependencyTree([2, 0]), constituency=tree)
    vocabulary = Vocabulary(["ein", "hund"])
    encoder = sa.encoders.build(name, vocab_size=len(vocabulary), dim=24).eval()
    assert encoder(sa.collate([sentence], vocabulary)).states.shape[-1] == encoder.state_dim


@pytest.mark.parametrize("attention", ["none", "simple", "projective", "nonprojective", "constituency"])
def test_structured_encoders_put_what_a_word_attends_to_beside_it(attention: str) -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary.from_examples(PAIRS)
    encoder = sa.encoders.build("structured", vocab_size=len(vocabulary), dim=4, attention=attention).eval()
    batch = sa.collate([pair.sentences[0] for pair in PAIRS], vocabulary)
    states = encoder(batch).states
    words = encoder.embedder(batch)
    assert torch.equal(states[..., :4], words)
    assert not states[~batch.mask].any()
    alone = encoder(sa.collate([PAIRS[1].sentences[0]], vocabulary)).states
    assert torch.allclose(states[1, :2], alone[0], atol=1e-6)
    if attention == "none":
        assert states.shape[-1] == 4
        return
    _, weights = encoder.contextualizer.attention(words, batch.mask, need_weights=True)
    if attention in ("projective", "nonprojective"):
        assert not weights.diagonal(dim1=-2, dim2=-1).any(), "no word is its own head"
        assert (weights.sum(-1) <= 1 + 1e-5).all()


def test_structured_encoders_refuse_what_they_do_not_have() -> None:
    with pytest.raises(ConfigError, match="attention expects one of none, simple"):
        sa.encoders.build("structured", vocab_size=4, attention="tree")
    with pytest.raises(ConfigError, match="single_root concerns dependency trees; attention is 'simple'"):
        sa.encoders.build("structured", vocab_size=4, attention="simple", single_root=True)
    with pytest.raises(ConfigError, match="with_children concerns heads"):
        sa.encoders.build("structured", vocab_size=4, attention="constituency", with_children=True)
    with pytest.raises(ConfigError, match="'num_layers' of encoder 'structured': expected at least 1, got 0"):
        sa.encoders.build("structured", vocab_size=4, num_layers=0)
    for attention, outer_tanh in (("none", 0), ("projective", 3)):
        with pytest.raises(ConfigError, match=f"outer_tanh must be 0, 1 or 2.*; got {outer_tanh}"):
            sa.encoders.build("structured", vocab_size=4, attention=attention, outer_tanh=outer_tanh)


@pytest.mark.parametrize("attention", ["simple", "projective", "constituency"])
def test_outer_tangents_bound_the_scores(attention: str) -> None:
    highest = []
    for outer_tanh in (0, 1, 2):
        torch.manual_seed(1)
        encoder: Any = sa.encoders.build("structured", vocab_size=4, attention=attention, outer_tanh=outer_tanh)
        scores = encoder.contextualizer.attention.scorer.scorer.scores
        with torch.no_grad():
            scores.score.weight.mul_(1000.0)
            highest.append(scores(*torch.randn(2, 1, 6, 100)).max().item())
    assert highest[0] > 10
    assert highest[1:] == pytest.approx([1.0, math.tanh(1.0)])


# Runs.


def numerals(num_train: int) -> tuple[list[Example], list[Example], list[Example]]:
    """Numbers below a thousand, digit by digit in German and in English."""
    names = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four"), ("sechs", "six")]
    pairs = [
        Example(
            (Sentence([german for german, _ in digits]),), " ".join(english for _, english in digits), id=str(number)
        )
        for number, digits in enumerate(itertools.product(names, repeat=3))
    ]
    return pairs[:num_train], pairs[90:100], pairs[100:120]


@pytest.fixture
def numeral_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose data are generated."""
    task = Task("numerals", fallback_format="parallel", metrics=("accuracy",), answer="text", generated="numerals")
    monkeypatch.setattr(TASKS, "_rows", {**TASKS._rows, "numerals": task})
    monkeypatch.setattr(GENERATORS, "_rows", {"numerals": numerals})


def small(out: Path, **changes: Any) -> RunConfig:
    optimization = {"epochs": 2, "learning_rate": 1e-2, **changes.pop("optimization", {})}
    config = RunConfig(
        "numerals",
        "structured",
        DataConfig(generated=90),
        options={"attention": "simple", "dim": 8},
        decoder=DecoderConfig(beam=2),
        optimization=OptimizationConfig(**optimization),
        out=str(out),
        device="cpu",
    )
    return dataclasses.replace(config, **changes)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.usefixtures("numeral_task")
def test_a_run_without_any_file_is_decided_by_its_seed(tmp_path: Path) -> None:
    first, again = run(small(tmp_path / "a")), run(small(tmp_path / "b"))
    assert rows_of(first.folder) == rows_of(again.folder)
    model = load(first.folder)
    split = read_split(plan_run(small(tmp_path)))
    assert [len(split.train), len(split.dev), len(split.test)] == [90, 10, 20]
    assert model.evaluate(split.dev).metrics == pytest.approx(dict(first.metrics))
    assert "accuracy" in first.test
    found = compare(first.folder, again.folder, metric="accuracy", split="test", samples=50)
    assert found.differences[0].significance.difference == 0.0


@pytest.mark.usefixtures("numeral_task")
def test_an_interrupted_run_with_averages_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    changes = {"optimization": {"epochs": 4, "average": 2, "schedule": "inverse_sqrt", "warmup": 0.3}}
    whole = run(small(tmp_path / "whole", **changes))
    with interrupted(after=2):
        run(small(tmp_path / "cut", **changes))
    resumed = run(small(tmp_path / "cut", **changes), resume=True)
    assert rows_of(resumed.folder) == rows_of(whole.folder)


def test_every_line_has_a_translation_blank_ones_an_empty_one(tmp_path: Path) -> None:
    model = model_of()
    words = [" ".join(pair.sentences[0].words) for pair in PAIRS[:2]]
    file = write(tmp_path / "new.de", f"\n{words[0]}\n \n\n{words[1]}\n\n")
    name, examples = read_inputs(model, file, DataConfig())
    found = model.predict(list(examples))
    assert (name, [one.id for one in found]) == ("text", ["0", "1", "2", "3", "4", "5"])
    alone = model.predict(words)
    assert [one.text for one in found] == ["", alone[0].text, "", "", alone[1].text, ""]
    with_translations = write(tmp_path / "both.tsv", f"{words[0]}\tx\n")
    assert read_inputs(model, with_translations, DataConfig())[0] == "parallel"


def test_translation_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sacrebleu")
    table = write(
        tmp_path / "train.tsv",
        "".join(f"wort{i % 5} oder nicht so gut\tword{i % 5} or not so good\n" for i in range(40)),
    )
    dev = write(tmp_path / "dev.tsv", "".join(f"wort{i} oder nicht so gut\tword{i} or not so good\n" for i in range(5)))
    out = tmp_path / "run"
    arguments = ["train", "--task", "translation", "--encoder", "lstm", "--options.dim", "16", "--data.train"]
    arguments += [str(table), "--data.dev", str(dev), "--decoder.options.attention", "segmentation", "--decoder.source"]
    arguments += [
        "subwords",
        "--decoder.target",
        "subwords",
        "--decoder.vocab_size",
        "40",
        "--optimization.epochs",
        "15",
    ]
    arguments += [
        "--optimization.patience",
        "null",
        "--optimization.learning_rate",
        "0.02",
        "--optimization.batch_tokens",
        "60",
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    assert {item.name for item in RunFolder(out).best.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "target.json", "tokenizer.json", "vocabulary.json",
    }  # fmt: skip
    capsys.readouterr()
    assert main(["eval", str(out), "--data", str(dev), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 5
    assert 0 <= found["bleu"] <= 100
    source = write(tmp_path / "new.txt", "wort1 oder nicht so gut\n")
    assert main(["predict", str(out), "--data", str(source), "--format", "text"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["id"] == "0"
    assert answer["text"].endswith("or not so good")
    assert answer["log_probability"] < 0
    # Both sides were learnt together: the same token has the same id.
    model = load(out)
    assert isinstance(model, SequenceModel)
    assert model.texts.source.words == model.texts.target.vocabulary.words


@pytest.mark.parametrize(("source", "target"), [("characters", "words"), ("subwords", "characters")])
def test_a_saved_model_answers_as_before(tmp_path: Path, source: Any, target: Any) -> None:
    table = write(tmp_path / "train.tsv", "".join(f"wort{i} oder nicht\tword{i} or not\n" for i in range(8)))
    decoder = DecoderConfig(source=source, target=target, vocab_size=30)
    config = RunConfig("translation", "lstm", DataConfig(str(table)), options={"dim": 6}, decoder=decoder)
    torch.manual_seed(1)
    plan = plan_run(config)
    split = read_split(plan)
    model = prepare_model(plan, split).eval()
    assert isinstance(model, SequenceModel)
    model.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(["wort1 oder", "nicht"]) == model.predict(["wort1 oder", "nicht"])
    (tmp_path / "model" / "target.json").write_text("{}")
    with pytest.raises(ParseError, match="expected a model that can be built: expected the tokens"):
        load(tmp_path / "model")
    (tmp_path / "model" / "target.json").unlink()
    with pytest.raises(ParseError, match=r"target.json: cannot read this file"):
        load(tmp_path / "model")


@pytest.mark.usefixtures("numeral_task")
def test_configurations_that_contradict_their_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data.train: task 'translation' needs a training file"):
        run(RunConfig("translation", "lstm", out=str(tmp_path / "a")))
    with pytest.raises(ConfigError, match="classifier: task 'numerals' has none, as it is answered with text"):
        run(small(tmp_path / "b", classifier=sa.tasks.ClassifierConfig(hidden=3)))
    with pytest.raises(ConfigError, match="decoder: task 'trec' has none, as it is answered with label"):
        run(RunConfig("trec", "lstm", DataConfig("x"), decoder=DecoderConfig(beam=2)))
    with pytest.raises(ConfigError, match=r"data.train: expected a training file"):
        run(small(tmp_path / "c", data=DataConfig(dev="x")))
    with pytest.raises(ConfigError, match="inverse_sqrt needs a warm-up"):
        OptimizationConfig(schedule="inverse_sqrt")
    with pytest.raises(ConfigError, match=r"decoder.beam: expected at least 1, got 0"):
        DecoderConfig(beam=0)


# How parameters are fitted.


def rates(config: OptimizationConfig, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = build_schedule(optimizer, config, num_steps=steps)
    found = []
    for _ in range(steps):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


def test_schedules_by_hand() -> None:
    found = rates(OptimizationConfig(schedule="inverse_sqrt", warmup=0.25), 16)
    assert found[:4] == [0.25, 0.5, 0.75, 1.0]
    assert found[15] == pytest.approx(math.sqrt(4 / 16))
    halving = OptimizationConfig(schedule="halving", epochs=6, halve_from=3, halve_every=2)
    assert rates(halving, 12) == [1.0] * 4 + [0.5] * 4 + [0.25] * 4


def test_token_batches_hold_what_they_may_and_everything_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, 200).tolist()
    sampler = TokenBatchSampler(lengths, tokens=64, seed=1)
    first = list(sampler)
    assert sorted(index for batch in first for index in batch) == list(range(200))
    assert all(len(batch) * max(lengths[index] for index in batch) <= 64 for batch in first)
    sampler.set_epoch(1)
    second = list(sampler)
    assert first != second
    assert sorted(map(sorted, first)) == sorted(map(sorted, second))
    assert len(sampler) == len(first)
    shares = [TokenBatchSampler(lengths, 64, seed=1, process=index, processes=3) for index in range(3)]
    assert len({len(list(share)) for share in shares}) == 1
    assert {tuple(batch) for share in shares for batch in share} == {tuple(batch) for batch in first}


def test_subwords_need_no_more_than_they_were_given() -> None:
    splitter = SubwordSplitter.train(["low lower lowest"] * 3, 12)
    assert splitter.join(splitter.split("lowest low")) == "lowest low"


def test_layers_below_the_attention_are_what_it_reads_and_what_stands_beside_it() -> None:
    torch.manual_seed(0)
    batch = sa.collate([sa.Sentence(["a", "b"]), sa.Sentence(["a"])], sa.Vocabulary(["a", "b"]))
    encoder: Any = sa.encoders.build("structured", vocab_size=4, dim=3, num_layers=1)
    contextualizer = encoder.contextualizer
    read = contextualizer.below.read(encoder.embed(batch), batch.mask)
    above = ConcatContext(contextualizer.attention)(read, batch)
    found = encoder(batch)
    assert found.states.shape == (2, 2, 2 * 2 * 3)
    torch.testing.assert_close(found.states, above.states)
    expected = contextualizer.attention.distribution(read, batch).marginals()
    torch.testing.assert_close(encoder.latent_trees(batch).marginals(), expected)
