"""The share of attention on phrases: by hand, by its laws, and of a translation run from trees of a parser."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from structattn.data import Example, PhraseTrees
from structattn.data.text_vocabulary import TextVocabulary
from structattn.errors import ConfigError, MissingStructure
from structattn.inspection import phrase_attention, phrase_attention_figure
from structattn.inspection.phrase_attention import PhraseAttention, phrase_share
from structattn.layers import CrossAttention, TreeAttention
from structattn.tasks import (
    SENTIMENT,
    DecoderConfig,
    SentenceModel,
    SequenceModel,
    TextProcessor,
    build_decoder,
    get_task,
)
from structattn.training import DataConfig, OptimizationConfig, RunConfig, load, run

HEADS = {"a dog barks": [2, 3, 0], "dogs bark loud now": [2, 0, 4, 2], "hush": [0]}
TEXTS = dict(zip(HEADS, ("ein Hund bellt", "Hunde bellen nun laut", "still"), strict=True))
SENTENCES = [
    sa.Sentence(text.split(), dependency=sa.DependencyTree(heads, ["x"] * len(heads))) for text, heads in HEADS.items()
]
EXAMPLES = [Example((one,), TEXTS[" ".join(one.words)], id=str(number)) for number, one in enumerate(SENTENCES)]
Call = Callable[..., tuple[int, str, str]]


def translator(encoder: str = "tree_transformer", decoder: str = "tree_transformer", **options: Any) -> SequenceModel:
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary.from_examples(SENTENCES)
    sizes = {"dim": 8, "num_heads": 2, "dropout": 0.3}
    reader = sa.encoders.build(encoder, vocab_size=len(vocabulary), num_layers=2, **sizes, **options)
    target = TextVocabulary.from_texts(list(TEXTS.values()))
    writer = build_decoder(decoder, reader, len(target), num_layers=2, num_heads=2)
    texts = TextProcessor(vocabulary, target)
    return SequenceModel(reader, writer, get_task("translation"), texts=texts, trees=PhraseTrees("dependency"))


def look_at_all_alike(model: torch.nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, CrossAttention | TreeAttention):
            layer = module.of_queries if isinstance(module, CrossAttention) else module.project
            for parameter in layer.parameters():
                # Queries come first among the projections.
                torch.nn.init.zeros_(parameter[: parameter.shape[0] if isinstance(module, CrossAttention) else 8])


def test_shares_by_hand() -> None:
    weights = torch.full((2, 3, 4), 0.25)
    shares, uniform = phrase_share(weights, 3)
    assert shares.tolist() == [0.25, 0.25]
    assert uniform == 0.25
    allowed = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert phrase_share(allowed[None] / 2, 3, allowed=allowed)[1] == 0.25


def test_no_attention_has_no_share() -> None:
    nothing = torch.zeros(2, 2, 3)
    nothing[1] = 0.5
    shares, uniform = phrase_share(nothing, 2, allowed=torch.zeros(2, 3))
    assert (shares.tolist(), uniform) == ([0.0, pytest.approx(1 / 3)], 0.0)


def test_uniform_attention_has_the_uniform_share_in_every_head() -> None:
    model = translator()
    look_at_all_alike(model)
    rows = phrase_attention(model, EXAMPLES)
    assert [row.name for row in rows] == [
        "self-attention 1", "self-attention 2", "cross-attention 1", "cross-attention 2",
    ]  # fmt: skip
    for row in rows:
        assert row.shares == pytest.approx((row.uniform, row.uniform), abs=1e-6)
    # Phrases: 2 over 3 words (the lower over 2), 2 over 4 (the lower over 2), and the root of a single word.
    assert (rows[0].queries, rows[2].queries) == (5, (3 + 1) + (4 + 1) + (1 + 1))
    assert rows[0].uniform == pytest.approx((2 / 5 + 1 / 3 + 2 / 6 + 1 / 3 + 1 / 2) / 5)
    assert rows[2].uniform == pytest.approx((4 * 2 / 5 + 5 * 2 / 6 + 2 * 1 / 2) / 11)


def test_without_the_mask_words_look_at_phrases_too() -> None:
    model = translator(mask="none")
    look_at_all_alike(model)
    first, *_ = phrase_attention(model, EXAMPLES)
    assert first.queries == 5 + 6 + 2
    assert first.uniform == pytest.approx((5 * 2 / 5 + 6 * 2 / 6 + 2 * 1 / 2) / 13)


def test_batches_do_not_matter_and_the_model_stays_as_it_was() -> None:
    model = translator().train()
    alone, together = phrase_attention(model, EXAMPLES, batch_size=1), phrase_attention(model, EXAMPLES)
    for one, other in zip(alone, together, strict=True):
        assert one.shares == pytest.approx(other.shares, abs=1e-6)
        assert (one.uniform, one.queries) == (pytest.approx(other.uniform), other.queries)
        assert one.share != pytest.approx(one.uniform, abs=1e-4)
    assert all(module.training for module in model.modules())


def test_shares_are_those_of_the_weights() -> None:
    model = translator().eval()
    batch = model.collate(EXAMPLES[:1])
    attention = model.decoder.layers[0].cross.attention
    given: list[Any] = []
    hook = attention.register_forward_hook(lambda module, inputs, output: given.append(inputs))
    with torch.no_grad():
        model(batch)
        hook.remove()
        _, weights = attention(*given[0], need_weights=True)
    # Three words, then phrases; one query for each word that is written and one for the end.
    expected = weights[0, :, :, 3:].sum((-2, -1)) / 4
    rows = phrase_attention(model, EXAMPLES[:1])
    assert rows[2].shares == pytest.approx(tuple(expected.tolist()), abs=1e-6)


def test_classifiers_and_pairs_are_looked_at_too() -> None:
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary.from_examples(SENTENCES)
    encoder = sa.encoders.build("tree_transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
    single = SentenceModel(encoder, SENTIMENT, vocabulary=vocabulary, trees=PhraseTrees("dependency"))
    both = SentenceModel(
        encoder, get_task("pair_classification"), ["x", "y"], vocabulary=vocabulary, trees=PhraseTrees("dependency")
    )
    first, second, third = SENTENCES
    one_by_one = phrase_attention(single, [Example((one,)) for one in (first, second, third, first)])
    pairs = phrase_attention(both, [Example((first, second)), Example((third, first))])
    for row, other in zip(one_by_one, pairs, strict=True):
        assert (row.name, row.queries) == (other.name, other.queries)
        assert row.shares == pytest.approx(other.shares, abs=1e-6)


def test_what_has_no_phrases_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected at least one example, got none"):
        phrase_attention(translator(), [])
    with pytest.raises(ConfigError, match="example 7 has no text for the decoder to read"):
        phrase_attention(translator(), [Example((SENTENCES[0],), id="7")])
    with pytest.raises(ConfigError, match="expected a model that attends over words and phrases"):
        phrase_attention(translator("transformer", "transformer"), EXAMPLES)
    with pytest.raises(MissingStructure):
        phrase_attention(translator(), [Example((sa.Sentence(["a"]),), "x")])
    with pytest.raises(ValueError, match="at least one layer to draw"):
        phrase_attention_figure([])


def test_bars_show_both_shares() -> None:
    svg = phrase_attention_figure([PhraseAttention("cross", 1, (0.6, 0.6, 0.75), 0.4, 9)], title="val")
    assert svg.count('class="sa-bar"') == 2
    assert "cross-attention 1, on phrases: 65% (60% to 75%)" in svg
    assert "cross-attention 1" in svg
    assert "65" in svg


# From the trees of a parser to translations and the table.


def write(folder: Path, name: str, times: int) -> str:
    sa.write_conllu(folder / f"{name}.conllu.gz", SENTENCES * times)
    (folder / f"{name}.txt").write_text("\n".join(list(TEXTS.values()) * times) + "\n", encoding="utf-8")
    return f"{folder / name}.conllu.gz,{folder / name}.txt"


def configuration(folder: Path, trees: Any, **changes: Any) -> RunConfig:
    return RunConfig(
        "translation",
        "tree_transformer",
        DataConfig(write(folder, "train", 24), dev=write(folder, "dev", 1), trees=trees),
        options={"dim": 32, "num_layers": 1, "dropout": 0.0, "num_labels": 4},
        decoder=DecoderConfig(
            "tree_transformer",
            options={"num_layers": 1, "dropout": 0.0},
            source="subwords",
            target="subwords",
            vocab_size=60,
            beam=2,
        ),
        optimization=OptimizationConfig(epochs=6, batch_tokens=60, learning_rate=0.01, patience=None),
        **changes,
    )


def test_no_examples_are_refused(call: Call, tmp_path: Path) -> None:
    for limit in (0, -1):
        code, _, err = call("phrases", tmp_path, "--limit", limit)
        assert (code, f"--limit: expected at least 1, got {limit}" in err) == (2, True), err


def test_a_run_from_dependencies_translates_and_is_looked_at(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu")
    folder = tmp_path / "run"
    assert run(configuration(tmp_path, "dependency", out=str(folder))).metrics["bleu"] > 90
    code, printed, _ = call("predict", folder, "--data", tmp_path / "dev.conllu.gz")
    assert code == 0
    assert [json.loads(line)["text"] for line in printed.splitlines()] == list(TEXTS.values())
    again = load(folder)
    assert isinstance(again, SequenceModel)
    assert again.trees == PhraseTrees("dependency")
    rows = phrase_attention(again, EXAMPLES)
    code, printed, _ = call("phrases", folder, "--format", "csv", "--picture", tmp_path / "bars.svg")
    assert code == 0
    found = list(csv.DictReader(printed.splitlines()))
    assert [(row["attention"], row["layer"], row["head"]) for row in found] == [
        (kind, "1", head) for kind in ("self", "cross") for head in "1234"
    ]
    assert [float(row["share"]) for row in found[4:]] == pytest.approx(rows[1].shares, abs=1e-5)
    assert (tmp_path / "bars.svg").read_text(encoding="utf-8").count('class="sa-bar"') == 4
    code, printed, _ = call("phrases", folder, "--data", f"{tmp_path}/dev.conllu.gz,{tmp_path}/dev.txt", "--limit", 1)
    assert [line.split()[0] for line in printed.splitlines()] == ["attention", "self-attention", "cross-attention"]
    assert printed.splitlines()[2].split()[-1] == str(len(again.texts.target.encode(TEXTS["a dog barks"])) + 1)
    code, printed, _ = call("phrases", folder, "--format", "markdown")
    assert printed.splitlines()[1] == "| --- | --- | --- | --- | --- | --- | --- |"


def test_a_saved_model_remembers_its_trees(tmp_path: Path) -> None:
    configured = configuration(tmp_path, "right", out=str(tmp_path / "run"), seed=3)
    quick = {"epochs": 1, "batch_tokens": 200, "learning_rate": 0.01}
    run(RunConfig.from_dict({**configured.to_dict(), "optimization": quick}))
    content = json.loads((tmp_path / "run" / "best" / "config.json").read_text())
    assert content["trees"] == {"source": "right", "unary": "keep", "seed": 0}
    model = load(tmp_path / "run")
    assert isinstance(model, SequenceModel)
    labels = [label for label, _, _ in model.prepare_sentence(sa.Sentence(["dogs", "bark"])).constituency.spans]
    assert labels[0] == "X"
