"""Language models as a task: their loss by hand, two objectives, tokens from the data, runs and their folders."""

import functools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import structattn as sa
from backbones import decoder_tokenizer, tiny_decoder
from structattn.backbones import word_surprisals
from structattn.backbones.planting import plant
from structattn.backbones.word_scoring import word_perplexity
from structattn.cli import main
from structattn.data.generated import agreement_treebank
from structattn.data.tensors import read_tensors
from structattn.errors import ConfigError, MissingStructure
from structattn.files.json_yaml import read_json_lines
from structattn.layers.tree_regularity import tree_regularity, tree_splits
from structattn.priors import DependencyDistance
from structattn.tasks import ModelConfig, get_task, metric
from structattn.tasks.language_model import LanguageModel

TASK = get_task("language_model")
NEW = {"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 4, "n_positions": 128, "resid_pdrop": 0.2}
LLAMA = functools.partial(tiny_decoder, "llama", max_position_embeddings=192)
DATA = [
    sa.Example(sa.Sentence(one.words, one.tags, one.dependency, sa.ConstituencyTree.from_dependency(one.words, tree)))
    for one in (example.sentences[0] for _, example in zip(range(24), agreement_treebank(seed=5), strict=False))
    if (tree := one.dependency) is not None
]


def model_of(embedder=None, examples=DATA, trees=None, **options):
    torch.manual_seed(0)
    options = options if embedder else {"config": NEW, **options}
    parts = {} if trees is None else {"trees": sa.data.PhraseTrees(trees)}
    return LanguageModel.from_examples(TASK, ModelConfig("causal", options, embedder or {}, **parts), examples).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    LLAMA().save_pretrained(place / "llama")
    decoder_tokenizer().save_pretrained(place / "llama")
    sa.write_conllu(place / "trees.conllu", [example.sentences[0] for example in DATA])
    (place / "lines.txt").write_text("\n".join(" ".join(one.sentences[0].words) for one in DATA) + "\n")
    return place


def test_the_loss_is_the_mean_surprisal_of_every_token_and_of_the_end(folder):
    """Beside the loss of transformers over texts one by one; texts of one batch are padded."""
    model = model_of({"folder": str(folder / "llama")})
    body, total, count = LLAMA(), 0.0, 0
    examples = [sa.Example("the dog near trees barks", weight=2.0), sa.Example("two kids wash their dog"), DATA[0]]
    for example in examples:
        tokens = decoder_tokenizer()(" ".join(example.sentences[0].words))["input_ids"]
        ids = torch.tensor([[1, *tokens, 2]])
        number = len(tokens) + 1
        total += example.weight * number * body(input_ids=ids, labels=ids).loss.item()
        count += example.weight * number
    assert model.loss(examples).item() == pytest.approx(total / count, abs=1e-5)


def test_perplexity_of_words_by_hand():
    """Five words of probabilities .1, .2, .05, .5 and .25 * .4, in one text or several."""
    bits = [-math.log2(share) for share in (0.1, 0.2, 0.05, 0.5, 0.1)]
    whole = " ".join(f"{value:.6f}" for value in bits)
    parts = [" ".join(whole.split()[:2]), " ".join(whole.split()[2:])]
    for answers in ([whole], parts, [*parts, ""]):
        assert metric("word_perplexity").value(["w"] * len(answers), answers) == pytest.approx(7.247797, abs=1e-3)
    long = metric("word_perplexity").counts(["w"], [" ".join(["25.5"] * 9000)])
    assert long.max() < 65_536, "records keep numbers below it"
    assert metric("word_perplexity").from_counts.value(np.zeros(1), long) == pytest.approx(2**25.5)


def test_predictions_are_surprisals_whatever_shares_a_batch(folder):
    model = model_of({"folder": str(folder / "llama")})
    texts = ["barks", "two kids wash their hippopotami , near the dog", "the dog near trees barks", ""]
    scores = list(word_surprisals(LLAMA(), texts, tokenizer=decoder_tokenizer()))
    for size in (1, 4):
        for words, answer in zip(scores, model.predict(texts, batch_size=size), strict=True):
            assert [float(bits) for bits in answer.text.split()] == pytest.approx(words.bits, abs=2e-5)
            assert answer.log_probability == pytest.approx(-words.total * math.log(2), abs=1e-4)
    measured = model.evaluate([sa.Example(text) for text in texts]).metrics["word_perplexity"]
    assert measured == pytest.approx(word_perplexity(scores), rel=1e-4)


def test_planted_heads_are_those_of_plant_and_leave_nothing_behind():
    model = model_of(planting={"weight": 0.5, "layer": 1, "num_heads": 2, "beta": 2.0}, num_subwords=80)
    batch = model.collate(DATA[:5])
    surprisals, objectives = model(batch)
    prior = {(1, head): DependencyDistance() for head in (0, 1)}
    planted = plant(model.encoder.model, prior, tokenizer=model.encoder.tokenizer, beta=2.0)
    _, divergence = planted([example.sentences[0] for example in DATA[:5]])
    planted.remove()
    assert divergence.item() > 0.01
    assert objectives.item() == pytest.approx(0.5 * divergence.item(), abs=1e-6)
    plain = model_of(num_subwords=80)
    torch.testing.assert_close(plain(plain.collate(DATA[:5]))[0], surprisals, atol=1e-5, rtol=0)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("trees", ["own", "right", "random"])
def test_regularity_is_that_of_each_text_alone(trees):
    model = model_of(regularity={"weight": 2.0, "layer": 0, "channels": 0.5}, num_subwords=80, trees=trees)
    _, objectives = model(model.collate(DATA[:6]))
    losses = []
    for example in DATA[:6]:
        sentence = model.prepare_sentence(example.sentences[0])
        batch = model.collate([example])
        states = model.encoder.model(batch.subwords.ids, output_hidden_states=True).hidden_states[1][:, 1:-1]
        words = batch.owners[:, 1:-1] - 1
        splits = tree_splits([sentence.constituency], words)
        losses.append(tree_regularity(states, splits, words >= 0, channels=0.5).item())
    assert min(losses) > 0.1
    assert objectives.item() == pytest.approx(2.0 * sum(losses) / len(losses), abs=1e-5)


def test_trees_are_those_that_were_asked_for():
    bare = [sa.Example(sa.Sentence(example.sentences[0].words)) for example in DATA[:3]]
    regular = {"regularity": {"weight": 1.0}, "num_subwords": 80}
    with pytest.raises(MissingStructure, match="TreeReg learns from phrase trees"):
        model_of(**regular).collate(bare)
    models = [model_of(**regular, trees=trees) for trees in ("right", "random")]
    right, random = (model(model.collate(bare))[1].item() for model in models)
    assert right != random
    planted = model_of(planting={"weight": 1.0})
    with pytest.raises(MissingStructure, match="needs dependency of every sentence"):
        planted(planted.collate(bare))
    assert len(planted.predict(bare)) == 3, "no tree is read in use"


def test_words_of_the_data_are_tokens_and_not_the_text_they_came_from():
    sentence = sa.Sentence(["It", "'s", "Ada", "."], metadata={"text": "It's Ada."})
    model = model_of(examples=[sa.Example(sentence)])
    tokenizer = model.encoder.tokenizer
    tokens = tokenizer.convert_ids_to_tokens(model.collate([sentence]).subwords.ids[0])
    assert tokens == ["<s>", "▁it", "▁'s", "▁ada", "▁.", "</s>"]
    other = model.collate([sa.Sentence(["Ada", "'s", "here"])])
    assert tokenizer.convert_ids_to_tokens(other.subwords.ids[0])[1:4] == ["▁ada", "▁'s", "<unk>"]


def train(folder: Path, out: str, *options: str, data: str = "trees.conllu") -> Path:
    words = ["train", "--task", "language_model", "--encoder", "causal", "--data.train", str(folder / data)]
    new = [f"--options.config.{name}={value}" for name, value in NEW.items()]
    model = [] if "--backbone" in options else new
    run = [
        "--optimization.epochs",
        "2",
        "--optimization.batch_size",
        "8",
        "--out",
        str(folder / out),
        "--device",
        "cpu",
    ]
    assert main([*words, *model, *run, *options]) == 0
    return folder / out


OFF = {
    "plain": (),
    "planting": ("--options.planting.weight=0", "--options.planting.layer=0"),
    "regularity": ("--options.regularity.weight=0", "--options.regularity.channels=1"),
}


def test_objectives_without_weight_are_the_bits_of_the_plain_run(folder, capsys):
    runs = [train(folder, name, *options) for name, options in OFF.items()]
    tensors = [read_tensors(run / "best" / "model.safetensors") for run in runs]
    for other in tensors[1:]:
        assert all(torch.equal(other[name], tensor) for name, tensor in tensors[0].items())
    taught = train(folder, "taught", "--options.planting.weight=1", "--options.regularity.weight=1")
    different = read_tensors(taught / "best" / "model.safetensors")
    assert not all(torch.equal(different[name], tensor) for name, tensor in tensors[0].items())
    capsys.readouterr()
    assert main(["compare", str(folder / "plain"), str(folder / "taught")]) == 0
    assert "word_perplexity" in capsys.readouterr().out


def test_a_run_with_priors_is_loaded_scored_and_continues_texts(folder, capsys):
    priors = ("--options.heads=[forward/word, none]", "--options.alpha=alibi", "--options.num_subwords=80")
    run = train(folder, "priors", *priors, data="lines.txt")
    capsys.readouterr()
    assert main(["score", str(run), str(folder / "lines.txt")]) == 0
    out = capsys.readouterr().out
    assert main(["eval", str(run), "--data", str(folder / "lines.txt")]) == 0
    capsys.readouterr()
    model = sa.load(run)
    texts = [" ".join(example.sentences[0].words) for example in DATA]
    value = model.evaluate([sa.Example(text) for text in texts]).metrics["word_perplexity"]
    assert float(out.partition("word perplexity ")[2].split(",")[0]) == pytest.approx(value, rel=1e-4)
    assert model.encoder.language_model.prior.head_names == ("forward/word", "none") * 2
    ids = model.encoder.language_model.generate(["the dog"], max_new_tokens=4, do_sample=False)
    assert model.encoder.tokenizer.decode(ids[0]).startswith("the dog")
    first, last = (row["metrics"]["word_perplexity"] for row in read_json_lines(run / "metrics.jsonl"))
    assert last < first, "the epoch with the lower perplexity is the better one"


def test_a_folder_is_trained_further(folder):
    run = train(folder, "further", "--backbone", str(folder / "llama"), "--optimization.learning_rate=1e-30")
    before, after = LLAMA().state_dict(), sa.load(run).encoder.model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    sentences = [one.sentences[0] for one in DATA]
    options = {"embedder": {"folder": str(folder / "llama")}, "optimization": {"epochs": 1}}
    result = sa.train(sentences, encoder="causal", task="language_model", out=str(folder / "python"), **options)
    assert result.metrics["word_perplexity"] > 1


FAULTS = {
    "no model": ({}, {"config": None}, "needs the folder of one .--backbone FOLDER"),
    "both": ({"folder": "FOLDER"}, {"config": NEW}, "leave out either of them"),
    "kind": ({}, {"config": {"model_type": "gpt3"}}, "got 'gpt3'"),
    "no kind": ({}, {"config": {"n_layer": 2}}, "got None"),
    "name": ({}, {"config": {**NEW, "n_layers": 2}}, r"did you mean 'n_layer'\?.*got 'n_layers'"),
    "size": ({}, {"config": {**NEW, "vocab_size": 9}}, "got 'vocab_size'"),
    "heads": ({}, {"config": {**NEW, "n_head": 3}}, "config of a gpt2: "),
    "encoder": (
        {},
        {"config": {"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2}},
        "got BertLMHeadModel, which reads both ways",
    ),
    "tokenizer": ({}, {"tokenizer": "FOLDER", "num_subwords": 9}, "num_subwords: expected none beside a tokenizer"),
    "subwords": ({}, {"num_subwords": 0}, "num_subwords: expected at least 1, got 0"),
    "number of priors": ({}, {"heads": ["word"] * 3}, "divides the model's 4 heads, got 3"),
    "priors": ({}, {"heads": ["dependency"]}, "read later words"),
    "alpha": ({}, {"alpha": 2.0}, "layers and alpha are those of priors"),
    "planted layer": ({}, {"planting": {"weight": 1.0, "layer": 2}}, "no layer 2 with a head 0"),
    "planted heads": ({}, {"planting": {"weight": 1.0, "num_heads": 5}}, "a head 4: there are 2 layers of 4 heads"),
    "planted prior": ({}, {"planting": {"weight": 1.0, "prior": "tree"}}, "unknown relation"),
    "weight": ({}, {"planting": {"weight": -1.0}}, "planting.weight: expected at least 0"),
    "layer": ({}, {"regularity": {"weight": 1.0, "layer": 2}}, "regularity.layer: expected -2 to 1 for this model"),
    "channels": ({}, {"regularity": {"channels": 0.0}}, "regularity.channels: expected a share above 0"),
    "option": ({}, {"planted": {}}, "unknown option 'planted'.*did you mean"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_whoever_configures(name, folder):
    embedder, options, message = FAULTS[name]
    place = {"FOLDER": str(folder / "llama")}
    embedder, options = (
        {key: place.get(str(value), value) for key, value in each.items()} for each in (embedder, options)
    )
    options = options if name == "both" else {"config": NEW, **options}
    with pytest.raises(ConfigError, match=message):
        LanguageModel.from_examples(TASK, ModelConfig("causal", options, embedder), DATA)


def test_a_text_beyond_the_positions_is_named():
    model = model_of()
    long = sa.Example(sa.Sentence(["kids"] * 127), id="7")
    with pytest.raises(ConfigError, match=r"'kids kids .* has 129 subwords .* at most 128.*it is of example 7"):
        model.collate([DATA[0], long])
    with pytest.raises(ConfigError, match=r"has 129 subwords.*it is of example 8"):
        model.predict([DATA[0], sa.Example(sa.Sentence(["kids"] * 128), id="8")])


def test_words_as_answers_leave_other_tasks_alone(folder, capsys):
    lines = ["train", "--data.train", str(folder / "lines.txt")]
    new = [f"--options.config.{name}={value}" for name, value in NEW.items()]
    for words, message in (
        (["--task", "language_model", "--encoder", "ms_san"], "unknown language model 'ms_san'"),
        (["--task", "language_model", "--encoder", "causal", "--embedder.dim=8", *new], "takes a folder alone"),
        (["--task", "language_model", "--encoder", "causal", "--decoder.beam=2", *new], "decoder"),
        (["--task", "language_model", "--encoder", "causal", "--data.vectors=x", *new], "learns its own vectors"),
        (["--task", "trec", "--encoder", "causal"], "unknown encoder 'causal'"),
    ):
        assert main([*lines, *words]) == 2
        assert message in capsys.readouterr().err
