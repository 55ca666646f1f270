"""Our own parser: what it learns, that batches do not matter, that folders bring it back, and what it refuses."""

import itertools
import json
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor

import structattn as sa
from backbones import save_tiny
from interrupting import interrupted
from structattn.data import agreement_treebank
from structattn.errors import ConfigError, ParseError
from structattn.parsing import TreeParser, build_parser, score_attachment
from structattn.parsing.batched_parsing import concatenate, parse_in_batches
from structattn.parsing.gold_trees import read_gold
from structattn.parsing.parsers import Document
from structattn.parsing.tree_parser import fingerprint, read_parser
from structattn.parsing.treecrf import TreeCRF
from structattn.syntax import Sentence
from structattn.training.optimization import build_optimizer
from structattn.training.parser import train_parser
from structattn.training.parser_config import ParserConfig, parser_optimization

SMALL = {"word_dim": 16, "character_dim": 8, "filters": 16, "hidden": 24, "num_layers": 1}
OPTIONS = {"encoder": SMALL, "scorer": {"arc_dim": 24, "label_dim": 12}}
KINDS = [("all", "trees"), ("projective", "trees"), ("all", "words"), ("all", "labelled"), ("projective", "labelled")]


def treebank(count: int) -> list[Sentence]:
    return [example.sentences[0] for example in itertools.islice(agreement_treebank(1), count)]


@pytest.fixture(scope="module")
def gold() -> list[Sentence]:
    return treebank(10)


@pytest.fixture(scope="module")
def parser(gold: list[Sentence]) -> TreeCRF:
    """Untrained, but with scores that differ from arc to arc."""
    torch.manual_seed(1)
    parser = build_parser(gold, **OPTIONS)
    for parameter in (parser.scorer.arc_weight, parser.scorer.arc_bias, parser.scorer.label_weight):
        torch.nn.init.normal_(parameter, std=0.3)
    return parser


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    sentences = treebank(60)
    sa.write_conllu(folder / "train.conllu", sentences[:40])
    sa.write_conllu(folder / "dev.conllu", sentences[40:])
    return folder


def config(files: Path, out: Path, *, epochs: int = 3, **changes: Any) -> ParserConfig:
    usual = parser_optimization(changes.get("backbone"))
    optimization = replace(usual, **{"batch_size": 10, "epochs": epochs, **changes.pop("optimization", {})})
    treebanks = (str(files / f"{name}.conllu") for name in ("train", "dev"))
    return ParserConfig(*treebanks, str(out), **{**OPTIONS, **changes}, optimization=optimization)


# What it learns.


@pytest.mark.parametrize(("trees", "loss"), KINDS)
def test_ten_sentences_are_learnt_by_heart(gold: list[Sentence], trees: str, loss: str) -> None:
    torch.manual_seed(2)
    options = {
        "encoder": {**SMALL, "dropout": 0.0, "word_dropout": 0.0},
        "scorer": {**OPTIONS["scorer"], "dropout": 0.0},
    }
    parser = build_parser(gold, parser={"trees": trees, "loss": loss}, min_count=1, **options)
    optimizer = torch.optim.Adam(parser.parameters(), lr=0.02)
    batch = parser.collate(gold)
    for _ in range(90):
        optimizer.zero_grad()
        parser.loss(batch).backward()
        optimizer.step()
    found = score_attachment(gold, parser.parse(gold))
    assert (found.uas, found.las, found.tags) == (1.0, 1.0, 1.0)


def test_the_loss_is_the_surprisal_of_the_tree_its_labels_and_its_tags(gold: list[Sentence], parser: TreeCRF) -> None:
    """One sentence of two words has two trees with one root: everything can be added up by hand."""
    (tags, labels) = (parser.tag_names[:2], parser.label_names[:2])
    sentence = Sentence(["dogs", "bark"], tags, sa.DependencyTree([2, 0], labels))
    parser.eval()
    batch = parser.collate([sentence])
    with torch.no_grad():
        scores = parser(batch.inputs)
        arcs = scores.arcs[0].double()
        trees = torch.stack([arcs[0, 2] + arcs[1, 0], arcs[0, 0] + arcs[1, 1]])
        expected = torch.logsumexp(trees, 0) - trees[0]
        of_arcs = parser.scorer.labels(scores, torch.tensor([[2, 0]]))[0].double()
        expected -= of_arcs.log_softmax(-1)[[0, 1], [0, 1]].sum()
        expected -= scores.tags[0].double().log_softmax(-1)[[0, 1], [0, 1]].sum()
    torch.testing.assert_close(parser.loss(batch).double(), expected / 2, rtol=1e-5, atol=1e-6)


def test_trees_and_labels_are_chosen_together(gold: list[Sentence]) -> None:
    """Both trees of two words with all labels, of which ``root`` is for the root's arc: added up, and the best."""
    torch.manual_seed(4)
    parser = build_parser(gold, parser={"loss": "labelled"}, **OPTIONS).eval()
    for parameter in (parser.scorer.arc_weight, parser.scorer.arc_bias, parser.scorer.label_weight):
        torch.nn.init.normal_(parameter, std=2.0)
    others = [name for name in parser.label_names if name != "root"]
    sentence = Sentence(["dogs", "bark"], parser.tag_names[:2], sa.DependencyTree([2, 0], [others[0], "root"]))
    batch = parser.collate([sentence])
    with torch.no_grad():
        scores = parser(batch.inputs)
        arcs, totals = scores.arcs[0].double(), {}
        for heads in ([2, 0], [0, 1]):
            of_arcs = parser.scorer.labels(scores, torch.tensor([heads]))[0].double()
            for labels in itertools.product(parser.label_names, repeat=2):
                if all((label == "root") == (head == 0) for label, head in zip(labels, heads, strict=True)):
                    ids = [parser.label_names.index(label) for label in labels]
                    totals[tuple(heads), labels] = sum(arcs[w, heads[w]] + of_arcs[w, ids[w]] for w in (0, 1))
        expected = torch.stack([*totals.values()]).logsumexp(0) - totals[(2, 0), (others[0], "root")]
        expected -= scores.tags[0].double().log_softmax(-1)[[0, 1], [0, 1]].sum()
    torch.testing.assert_close(parser.loss(batch).double(), expected / 2, rtol=1e-5, atol=1e-6)
    (parsed,) = parser.predict([sentence])
    assert parsed.dependency is not None
    assert (parsed.dependency.heads, parsed.dependency.labels) == max(totals, key=totals.__getitem__)
    # A label that is unknown, or not the root's, leaves the labels of its arc summed out.
    total = torch.stack([value for (heads, _), value in totals.items() if heads == (2, 0)]).logsumexp(0)
    expected = torch.stack([*totals.values()]).logsumexp(0) - total
    expected -= scores.tags[0].double().log_softmax(-1)[[0, 1], [0, 1]].sum()
    strange = Sentence(sentence.words, sentence.tags, sa.DependencyTree([2, 0], ["unheard", others[0]]))
    torch.testing.assert_close(parser.loss(parser.collate([strange])).double(), expected / 2, rtol=1e-5, atol=1e-6)


def test_every_parameter_gets_a_gradient(gold: list[Sentence], parser: TreeCRF) -> None:
    parser.train().zero_grad()
    parser.loss(parser.collate(gold)).backward()
    assert [name for name, one in parser.named_parameters() if one.grad is None or not one.grad.any()] == []
    parser.zero_grad()


def test_biaffine_scores_are_those_of_the_paper(parser: TreeCRF) -> None:
    """Dozat and Manning 2017, equations 6 and 9, word by word."""
    scorer = parser.scorer.eval()
    states = torch.randn(1, 3, parser.encoder.output_dim, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        scores = scorer(states)
        rows = torch.cat([scorer.root[None], states[0]])
        arc_dependents, arc_heads, label_dependents, label_heads = (
            scorer.activation(rows @ weight.T + bias)
            for weight, bias in zip(
                scorer.project.weight.split(scorer.sizes), scorer.project.bias.split(scorer.sizes), strict=True
            )
        )
        labels = scorer.labels(scores, torch.tensor([[2, 0, 1]]))
        for word, head in ((1, 2), (2, 0), (3, 1)):
            arc = arc_dependents[word] @ scorer.arc_weight @ arc_heads[head] + scorer.arc_bias @ arc_heads[head]
            torch.testing.assert_close(scores.arcs[0, word - 1, head], arc)
            one = torch.ones(1)
            left, right = torch.cat([label_dependents[word], one]), torch.cat([label_heads[head], one])
            torch.testing.assert_close(labels[0, word - 1], scorer.label_weight @ right @ left)


# What it finds.


def test_order_and_padding_change_nothing(gold: list[Sentence], parser: TreeCRF) -> None:
    together = parser.predict(gold)
    order = list(range(len(gold)))
    random.Random(4).shuffle(order)
    shuffled = parser.predict([gold[index] for index in order])
    alone = [parser.predict([sentence])[0] for sentence in gold]
    assert together == alone == [shuffled[order.index(index)] for index in range(len(gold))]
    with torch.no_grad():
        batch = parser.encoder.collate([gold[0], Sentence(["a"] * 60)])
        padded, plain = parser.eval().encoder(batch), parser.encoder(parser.encoder.collate([gold[0]]))
    torch.testing.assert_close(padded[0, : len(gold[0])], plain[0], rtol=1e-5, atol=1e-6)


def test_without_gradients_there_are_few_shapes_and_the_same_states(
    parser: TreeCRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = parser.eval().encoder
    shapes: dict[bool, list[torch.Size]] = {True: [], False: []}
    read = encoder.contextualizer.read

    def seen(states: Tensor, mask: Tensor) -> Tensor:
        shapes[torch.is_grad_enabled()].append(mask.shape)
        found: Tensor = read(states, mask)
        return found

    monkeypatch.setattr(encoder.contextualizer, "read", seen)
    for size in range(1, 65):
        batch = encoder.collate([Sentence(["wash"] * size), Sentence(["kids"])])
        with torch.no_grad():
            states = encoder(batch)
        torch.testing.assert_close(states, encoder(batch), rtol=1e-5, atol=1e-6)
    # Numbers of five binary digits and zeros behind them: all up to 32, then 16 for each factor of two.
    assert len(set(shapes[True])) == 64
    assert [columns for _, columns in sorted(set(shapes[False]))] == [*range(1, 33), *range(34, 65, 2)]


@pytest.mark.parametrize("trees", ["all", "projective"])
def test_what_is_found_is_a_tree_of_its_kind_with_one_root(gold: list[Sentence], parser: TreeCRF, trees: str) -> None:
    draw = random.Random(5)
    words = sorted({word for sentence in gold for word in sentence.words})
    sentences = [Sentence(draw.choices(words, k=size)) for size in range(1, 15)]
    other = TreeCRF(
        parser.encoder, parser.scorer, labels=[*parser.label_names[:-1], "root"], tags=parser.tag_names, trees=trees
    )
    found = [sentence.dependency for sentence in other.predict(sentences)]
    assert all(len(tree.roots) == 1 for tree in found)
    assert all(
        (label == "root") == (head == 0) for tree in found for head, label in zip(tree.heads, tree.labels, strict=True)
    )
    assert all(tree.is_projective for tree in found) is (trees == "projective")


def test_predicting_leaves_the_mode_and_the_threads_alone(gold: list[Sentence], parser: TreeCRF) -> None:
    before = torch.get_num_threads()
    parser.train()
    TreeParser(parser, version="1").model.train()
    parser.predict(gold)
    assert parser.training
    assert torch.get_num_threads() == before


def test_sentences_without_words_get_empty_trees(gold: list[Sentence], parser: TreeCRF) -> None:
    empty, full, other = parser.parse([Sentence([]), gold[0], Sentence([])])
    assert len(empty.dependency) == len(other.dependency) == 0
    assert full == parser.parse([gold[0]])[0]


def test_very_long_sentences_are_parsed_in_stretches(parser: TreeCRF) -> None:
    parser.encoder.max_length = 50
    (found,) = parser.parse([Sentence(["the", "dogs"] * 60)])
    parser.encoder.max_length = type(parser.encoder).max_length
    tree = found.dependency
    assert len(tree) == 120
    assert len(tree.roots) == 1
    joints = [word for word, head in enumerate(tree.heads) if head == tree.roots[0] + 1 and word >= 50]
    assert [tree.labels[word] for word in joints][:2] == ["parataxis"] * 2
    assert {word // 50 for word in joints if tree.labels[word] == "parataxis"} == {1, 2}


def test_batches_are_bounded_and_answers_come_in_order() -> None:
    sizes: list[tuple[int, int]] = []

    def flat(batch: list[Sentence]) -> list[Sentence]:
        sizes.append((len(batch), max(map(len, batch))))
        trees = [sa.DependencyTree([0] + [1] * (len(one) - 1)) for one in batch]
        return [Sentence(one.words, None, tree) for one, tree in zip(batch, trees, strict=True)]

    draw = random.Random(6)
    sentences = [Sentence([str(number)] * draw.randint(1, 400)) for number in range(200)]
    found = parse_in_batches(flat, sentences, max_length=300)
    assert [one.words for one in found] == [one.words for one in sentences]
    assert all(
        count == 1 or (count * max_length <= 2500 and count * max_length**2 <= 400_000) for count, max_length in sizes
    )
    assert len(sizes) < len(sentences) / 2


def test_concatenate_keeps_every_root() -> None:
    one = Sentence(["a", "b"], ["X", "Y"], sa.DependencyTree([2, 0], ["dep", "root"]))
    found = concatenate([one, one, one])
    assert found.dependency.heads == (2, 0, 4, 0, 6, 0)
    assert len(concatenate([])) == 0


# Figures.


def test_attachment_counts_punctuation_and_tells_subtypes_apart() -> None:
    tags, heads = ["NOUN", "VERB", "PUNCT"], [2, 0, 2]
    right = Sentence(["dogs", "bark", "."], tags, sa.DependencyTree(heads, ["nsubj:pass", "root", "punct"]))
    guess = Sentence(
        ["dogs", "bark", "."], ["NOUN", "NOUN", "PUNCT"], sa.DependencyTree([2, 0, 1], ["nsubj", "root", "punct"])
    )
    found = score_attachment([right], [guess])
    assert (found.uas, found.las, found.las_universal, found.tags) == (2 / 3, 1 / 3, 2 / 3, 2 / 3)
    with pytest.raises(ValueError, match="expected the words"):
        score_attachment([right], [Sentence(["other"])])
    with pytest.raises(ValueError, match="has none"):
        score_attachment([right], [Sentence(right.words)])
    with pytest.raises(ValueError, match="got 0 for 1"):
        score_attachment([right], [])


# Folders.


def test_a_folder_brings_back_the_same_parser(gold: list[Sentence], parser: TreeCRF, tmp_path: Path) -> None:
    parser.save_pretrained(tmp_path / "parser")
    shutil.move(tmp_path / "parser", tmp_path / "elsewhere")
    assert read_parser(tmp_path / "elsewhere").predict(gold) == parser.predict(gold)
    assert {file.suffix for file in (tmp_path / "elsewhere").iterdir()} == {".json", ".md", ".safetensors"}


def test_hashed_words_need_no_list(gold: list[Sentence], tmp_path: Path) -> None:
    torch.manual_seed(1)
    parser = build_parser(gold, encoder={**SMALL, "buckets": 7}, scorer=OPTIONS["scorer"])
    twice = [word for word, count in Counter(word.lower() for one in gold for word in one.words).items() if count > 1]
    marks = {crc32(word.encode()) % 112 for word in twice}
    words = ["The", "the", *twice, "zebra", "naïve"]
    ids = [
        2 + crc if crc16 in marks else 1
        for crc, crc16 in ((crc32(w.lower().encode()) % 7, crc32(w.lower().encode()) % 112) for w in words)
    ]
    batch = parser.encoder.collate([Sentence(words), Sentence(["the"])])
    assert batch.words.tokens.tolist() == [ids, [ids[0], *[0] * (len(words) - 1)]]
    assert ids[0] == ids[1] > 1
    assert ids[-1] == 1
    assert len(parser.encoder.embedding.weight) == 9
    assert int(parser.encoder.known.sum()) == len(marks)
    parser.save_pretrained(tmp_path / "parser", storage="int8")
    read = read_parser(tmp_path / "parser")
    assert torch.equal(read.encoder.collate([Sentence(words)]).words.tokens, torch.tensor([ids]))
    assert {file.name for file in (tmp_path / "parser").iterdir()} == {
        "README.md",
        "config.json",
        "characters.json",
        "model.safetensors",
    }
    assert len(read.predict([Sentence(words)])[0].dependency.roots) == 1
    with pytest.raises(ConfigError, match="buckets: expected at least 1, got 0"):
        build_parser(gold, encoder={"buckets": 0})


def test_another_parser_has_another_fingerprint(gold: list[Sentence], parser: TreeCRF, tmp_path: Path) -> None:
    for name in ("one", "same"):
        parser.save_pretrained(tmp_path / name)
    build_parser(gold, **OPTIONS).save_pretrained(tmp_path / "other")
    one, same, other = (fingerprint(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same != other


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"format_version": 99}, "has format version 99, this structattn .* reads version 2"),
        ("config.json", {"model_type": "bert"}, "expected a model of type 'structattn', got 'bert'"),
        ("config.json", {"scorer": {"depth": 3}}, "expected a .* that can be built"),
        ("config.json", {"encoder": "magic"}, "encoder: unknown value 'magic'; known: words, backbone"),
        ("config.json", {"kind": "sentence"}, "expected a model of kind parser, got 'sentence'"),
        ("words.json", {"words": 3}, "words.json"),
        ("characters.json", None, "cannot read this file"),
        ("model.safetensors", None, "cannot read this file"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(
    parser: TreeCRF, tmp_path: Path, file: str, change: dict[str, object] | None, message: str
) -> None:
    parser.save_pretrained(tmp_path / "parser")
    path = tmp_path / "parser" / file
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises((ConfigError, ParseError), match=message) as caught:
        read_parser(tmp_path / "parser")
    assert file in str(caught.value)


# Training.


def test_training_is_decided_by_its_seed_and_resumes_exactly(files: Path, tmp_path: Path) -> None:
    whole = train_parser(config(files, tmp_path / "whole"))
    again = train_parser(config(files, tmp_path / "again"))
    assert fingerprint(tmp_path / "whole") == fingerprint(tmp_path / "again")
    assert whole.metrics == again.metrics

    with interrupted(after=1):
        train_parser(config(files, tmp_path / "broken"))
    with pytest.raises(ConfigError, match="an unfinished run, which can be resumed"):
        train_parser(config(files, tmp_path / "broken"))
    with pytest.raises(ConfigError, match="cannot resume with other values of seed"):
        train_parser(config(files, tmp_path / "broken", seed=7), resume=True)
    resumed = train_parser(config(files, tmp_path / "broken"), resume=True)
    assert resumed.metrics == whole.metrics
    assert fingerprint(tmp_path / "broken") == fingerprint(tmp_path / "whole")
    other = train_parser(config(files, tmp_path / "other", seed=2, epochs=1))
    assert fingerprint(other.folder) != fingerprint(whole.folder)


def test_a_finished_run_is_only_read(files: Path, tmp_path: Path) -> None:
    first = train_parser(config(files, tmp_path / "run", epochs=1))
    before = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    assert train_parser(config(files, tmp_path / "run", epochs=1), resume=True) == first
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns == before
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_the_stored_parser_is_measured_on_test_sentences(files: Path, tmp_path: Path, storage: str) -> None:
    sentences = treebank(90)[60:]
    sa.write_conllu(tmp_path / "test.conllu", sentences)
    told = {"storage": storage, "optimization": {"learning_rate": 0.01}}
    result = train_parser(config(files, tmp_path / "run", test=str(tmp_path / "test.conllu"), **told))
    found = score_attachment(sentences, read_parser(result.folder).parse(sentences))
    assert result.test == {name: getattr(found, name) for name in ("uas", "las", "las_universal", "tags")}
    assert 0.0 < result.test["las"] < 1.0
    assert result.sentences == {"train": 40, "dev": 20, "test": 30}
    # It chooses nothing: dev scores and parser are those of a run without it.
    without = train_parser(config(files, tmp_path / "without", **told))
    assert (without.metrics, without.test) == (result.metrics, {})
    assert fingerprint(without.folder) == fingerprint(result.folder)


HUSH = "1\thush\t_\tINTJ\t_\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n\n", ":1: .*cycle 1 -> 2 -> 1"),
        ("1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n2\tb\t_\tX\t_\t_\t0\troot\t_\t_\n\n", r"sentence 2 \(a b\): .*got 2 roots"),
        ("1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n\n", r"sentence 2 \(a\): expected heads, labels and tags"),
        ("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n", r"sentence 2 \(a\): expected heads, labels and tags"),
    ],
)
def test_a_treebank_to_learn_from_is_checked(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(text if "cycle" in message else HUSH + text)
    with pytest.raises(ParseError, match=message) as caught:
        read_gold(str(path))
    assert caught.value.file == str(path)


def test_a_treebank_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.conllu").write_text("")
    with pytest.raises(ParseError, match="at least one sentence with words"):
        read_gold(str(tmp_path / "empty.conllu"))


def test_options_are_checked(gold: list[Sentence], files: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trees: expected one of all, projective, got 'some'"):
        build_parser(gold, parser={"trees": "some"})
    with pytest.raises(ConfigError, match="loss: expected one of trees, words, labelled, got 'none'"):
        build_parser(gold, parser={"loss": "none"})
    with pytest.raises(ConfigError, match="unexpected keyword argument 'heads'"):
        build_parser(gold, encoder={"heads": 3})
    with pytest.raises(ConfigError, match="this one has none"):
        build_parser([Sentence(["a"])])
    with pytest.raises(ConfigError, match="seed"):
        config(files, tmp_path, seed=-1)
    with pytest.raises(ValueError, match="has no dependency tree with labels to learn from"):
        build_parser(gold, **OPTIONS).collate([Sentence(["a"])])


# A pretrained backbone in the place of words and characters.


def test_a_backbone_is_fine_tuned_saved_and_loaded(files: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "backbone")
    options = {"encoder": {"pooling": "mean"}, "scorer": OPTIONS["scorer"], "backbone": str(tmp_path / "backbone")}
    result = train_parser(config(files, tmp_path / "run", epochs=1, optimization={"learning_rate": 0.01}, **options))
    shutil.rmtree(tmp_path / "backbone")
    parser = read_parser(result.folder)
    gold = read_gold(str(files / "dev.conllu"))
    assert score_attachment(gold, parser.parse(gold)).uas == result.metrics["uas"]
    together, alone = parser.predict(gold), [parser.predict([sentence])[0] for sentence in gold]
    assert together == alone
    # More subwords than the backbone reads: a tree all the same.
    parser.encoder.max_length = 500
    (long,) = parser.predict([Sentence(["the", "dogs"] * 100)])
    assert len(long.dependency) == 200
    assert len(long.dependency.roots) == 1


def test_the_backbone_has_a_rate_of_its_own(gold: list[Sentence], files: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "backbone")
    given = config(
        files,
        tmp_path / "run",
        backbone=str(tmp_path / "backbone"),
        encoder={},
        optimization={"backbone_lr_scale": 0.01},
    )
    parser = build_parser(gold, backbone=given.backbone, scorer=given.scorer)
    optimizer = build_optimizer(parser, given.optimization)
    rates = {id(one): group["lr"] for group in optimizer.param_groups for one in group["params"]}
    assert rates[id(parser.scorer.arc_weight)] == given.optimization.learning_rate
    usual = [replace(given, backbone=backbone, optimization=None).optimization for backbone in (None, given.backbone)]
    assert [(one.learning_rate, one.batch_size, one.epochs) for one in usual] == [(2e-3, 48, 25), (1e-3, 16, 5)]
    assert all(rates[id(one)] == pytest.approx(1e-5) for one in parser.encoder.parameters())
    assert set(rates) == {id(one) for one in parser.parameters()}


@pytest.mark.parametrize(("file", "message"), [("config", "config.json: expected"), ("tokenizer", "has no tokenizer")])
def test_a_backbone_that_lacks_a_file_is_named(gold: list[Sentence], tmp_path: Path, file: str, message: str) -> None:
    save_tiny(tmp_path / "backbone")
    build_parser(gold, backbone=tmp_path / "backbone").save_pretrained(tmp_path / "parser")
    (tmp_path / "parser" / "backbone" / f"{file}.json").unlink()
    with pytest.raises(ValueError, match=f"parser/backbone.*{message}"):
        read_parser(tmp_path / "parser")
    with pytest.raises(ConfigError, match="pooling: expected first or mean, got 'last'"):
        build_parser(gold, backbone=tmp_path / "backbone", encoder={"pooling": "last"})


class Table(dict[str, list[str]]):
    """A table, which iterates over the names of its columns."""

    columns = ("text",)


@pytest.mark.parametrize("texts", [{"text": ["a"]}, Table(text=["a"]), b"a", Path("a.txt"), {"a", "b"}, 3, None])
def test_what_is_no_list_of_texts_is_refused(texts: Any, parser: TreeCRF) -> None:
    with pytest.raises(TypeError, match=f"expected a text, or a list of texts, got {type(texts).__name__}"):
        sa.parse(texts, TreeParser(parser, version="1"))
    if not isinstance(texts, Path):
        with pytest.raises(TypeError, match=f"expected the path of a file, or a stream, got {type(texts).__name__}"):
            list(sa.read_examples(texts))


def test_one_text_of_any_kind_is_one_text(parser: TreeCRF) -> None:
    tree_parser = TreeParser(parser, version="1")
    for text in ("kids wash", Document("kids wash", "a"), Sentence(["kids", "wash"])):
        assert sa.parse(text, tree_parser) == sa.parse([text], tree_parser)
