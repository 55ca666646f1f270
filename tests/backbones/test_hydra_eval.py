"""``structattn hydra eval``: what heads know of a treebank, before and after fine-tuning, and how far they moved."""

import copy
import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

import structattn as sa
from backbones import minilm_tokenizer, save_tiny, tiny
from small_models import sentence_model
from structattn.backbones import HydraConfig, PretrainedBackbone, RelationHeads, evaluate_heads, head_drift
from structattn.backbones.head_evaluation import heads_loss
from structattn.backbones.hydra_encoder import find_heads
from structattn.backbones.relation_batches import RelationBatches
from structattn.cli import main
from structattn.data.generated import agreement_treebank
from structattn.options.hardware import Hardware
from structattn.syntax import DependencyTree
from structattn.training import distributed
from structattn.training.heads import pretrain
from structattn.training.heads_config import heads_optimization
from structattn.training.optimization import build_optimizer
from structattn.training.optimization_config import OptimizationConfig

pytestmark = pytest.mark.integration

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=5), 60)]


def test_drift_is_the_mean_of_the_sentences_own():
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.randn(3, 2, 4, 4, generator=generator) for _ in range(2))
    mask = torch.arange(4) < torch.tensor([[4], [2], [3]])
    before[2, 1] = 0  # no size to compare with: left out for this head
    found = head_drift([(before[:2], after[:2], mask[:2]), (before[2:], after[2:], mask[2:])])
    for head, share in enumerate(found):
        own = []
        for row, length in enumerate((4, 2, 3)):
            one, other = (scores[row, head, :length, :length].tolist() for scores in (before, after))
            size = math.sqrt(sum(value**2 for line in one for value in line))
            pairs = (pair for lines in zip(one, other, strict=True) for pair in zip(*lines, strict=True))
            if size:
                own.append(math.sqrt(sum((new - old) ** 2 for old, new in pairs)) / size)
        assert share == pytest.approx(sum(own) / len(own), rel=1e-5)
    with pytest.raises(ValueError, match="at least one sentence"):
        head_drift([])


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_heads_without_scores_before_have_no_drift(after: float):
    before = torch.stack([torch.zeros(2, 2), torch.ones(2, 2)])[None]
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert head_drift([(before, torch.full_like(before, after), mask)]) == (0.0, 1.0 - after)


@pytest.mark.parametrize(("objective", "reduction"), [*itertools.product(("mse", "ce", "kl"), ("sentences", "pairs"))])
def test_the_loss_does_not_depend_on_the_batches(objective, reduction):
    hush = sa.Sentence(["hush"], dependency=DependencyTree([0]))  # no row of it has a relation
    sentences = [SENTENCES[0], hush, hush, *SENTENCES[1:4], hush]
    assert len({len(sentence) for sentence in sentences}) > 2
    backbone = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True)
    config = HydraConfig(num_heads=2, relation=("arc", "head"), objective=objective, reduction=reduction)
    torch.manual_seed(0)
    heads = RelationHeads(backbone.dim, 2)
    torch.nn.init.normal_(heads.query.weight)
    torch.nn.init.normal_(heads.key.weight)
    (whole,) = RelationBatches(sentences, backbone, config).batches()
    expected = heads_loss(heads, config, *whole).item()
    for size in (1, 2, 3, 7):
        batches = RelationBatches(sentences, backbone, config, batch_size=size).batches()
        assert evaluate_heads(heads, config, batches)[0] == pytest.approx(expected, rel=1e-5)
    assert evaluate_heads(heads, config, RelationBatches([hush], backbone, config).batches())[0] == pytest.approx(
        heads_loss(heads, config, *next(RelationBatches([hush], backbone, config).batches())).item()
    )


@pytest.mark.parametrize("keep", [False, True])
def test_heads_learn_from_and_are_measured_on_states_of_one_precision(keep, monkeypatch):
    precisions = []
    output = PretrainedBackbone.output
    monkeypatch.setattr(
        PretrainedBackbone,
        "output",
        lambda *given: precisions.append(torch.is_autocast_enabled("cpu")) or output(*given),
    )
    backbone = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True)
    given = {"held_out": SENTENCES[32:48], "test": SENTENCES[48:], "keep_states": keep}
    optimization = replace(heads_optimization(), epochs=2, batch_size=8, warmup=1, learning_rate=1e-2)
    with distributed.open_accelerator(Hardware("cpu", "bf16")) as accelerator:
        found = pretrain(
            backbone,
            HydraConfig(num_heads=4),
            SENTENCES[:32],
            **given,
            optimization=optimization,
            accelerator=accelerator,
        )
    # 4 batches to learn from, 2 to choose by and 2 to test on; each epoch anew unless states are kept.
    assert precisions == [True] * (8 if keep else 2 + 2 * (4 + 2) + 2 + 2)
    assert found.loss == min(found.epochs) < found.epochs[0]


@pytest.fixture(scope="module", params=["-1", "1"], ids=["on top", "between layers"])
def made(request, tmp_path_factory):
    """A treebank, a backbone, an adapter, and a task's model that was made of them and not trained."""
    folder = tmp_path_factory.mktemp("made")
    save_tiny(folder / "backbone")
    sa.write_conllu(folder / "trees.conllu", SENTENCES)
    words = ["hydra", "pretrain", str(folder / "trees.conllu"), "--dev", str(folder / "trees.conllu")]
    words += [
        "--backbone",
        str(folder / "backbone"),
        "--out",
        str(folder / "adapter"),
        "--heads.relation",
        "head arc head arc",
    ]
    assert (
        main([*words, "--optimization.epochs", "1", "--optimization.batch_size", "8", "--heads.layer", request.param])
        == 0
    )
    task = sa.tasks.Task("t", labels=("no", "yes"))
    parts = {"options": {"adapter": str(folder / "adapter")}, "embedder": {"folder": str(folder / "backbone")}}
    model = sentence_model("hydra", task, vocabulary=sa.Vocabulary([]), **parts)
    model.save_pretrained(folder / "same")
    _, layer = find_heads(model.encoder)
    with torch.no_grad():
        layer.heads.query.weight[: layer.heads.head_dim] *= -1  # of the first head alone
        layer.heads.query.bias[: layer.heads.head_dim] *= -1
    model.save_pretrained(folder / "moved")
    return folder


def test_what_heads_know_before_and_after(made, capsys):
    words = ["hydra", "eval", str(made / "trees.conllu")]
    pair = ["--backbone", str(made / "backbone"), "--adapter", str(made / "adapter")]
    assert main([*words, *pair, "--run", str(made / "same"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    report = json.loads((made / "adapter" / "result.json").read_text())
    assert found["sentences"] == 60
    for who in ("adapter", "run"):
        assert found[who]["loss"] == pytest.approx(report["loss"], rel=1e-4)
        for name, values in report["relations"].items():
            for key in ("mean_squared_error", "constant_error", "area", "attachment"):
                assert found[who]["relations"][name][key] == pytest.approx(values[key], rel=1e-4)
    assert found["drift"] == pytest.approx([0.0] * 4, abs=1e-5)
    assert main([*words, *pair, "--run", str(made / "moved"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["drift"] == pytest.approx([2.0, 0.0, 0.0, 0.0], abs=1e-5)
    assert found["run"]["loss"] > found["adapter"]["loss"]
    assert main([*words, "--run", str(made / "moved")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{made / 'moved'}: 60 of 60 sentences"
    assert [line.split()[0] for line in lines[1:-1]] == ["relation", "head", "arc"]
    assert main([*words, *pair, "--run", str(made / "moved")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2.00  0.00  0.00  0.00"


def test_a_layer_on_a_backbone_learns_at_a_rate_of_its_own(made):
    model = sa.load(made / "same")
    settings = OptimizationConfig(optimizer="adamw", learning_rate=1e-3, backbone_lr_scale=0.05, weight_decay=0.01)
    groups = build_optimizer(model, settings).param_groups
    rates = {id(one): group["lr"] for group in groups for one in group["params"]}
    decays = {id(one): group["weight_decay"] for group in groups for one in group["params"]}
    backbone, layer = find_heads(model.encoder)
    assert all(rates[id(one)] == pytest.approx(5e-5) for one in backbone.parameters())
    assert {rates[id(one)] for one in layer.parameters()} == {1e-3}
    assert set(rates) == {id(one) for one in model.parameters()}
    assert all((decays[id(one)] > 0) == (one.ndim > 1) for one in model.parameters())


def test_mistakes(made, capsys):
    words = ["hydra", "eval", str(made / "trees.conllu")]
    assert main([*words, "--backbone", str(made / "backbone")]) == 2
    assert "expected --backbone BACKBONE --adapter ADAPTER, or --run RUN" in capsys.readouterr().err
    task = sa.tasks.Task("t", labels=("no", "yes"))
    model = sentence_model("backbone", task, vocabulary=sa.Vocabulary([]), embedder={"folder": str(made / "backbone")})
    model.save_pretrained(made / "plain")
    assert main([*words, "--run", str(made / "plain")]) == 2
    assert "expected a model with HYDRA heads" in capsys.readouterr().err
    sa.write_conllu(made / "long.conllu", [sa.Sentence(["w"] * 70, dependency=DependencyTree([0, *range(1, 70)]))])
    assert main(["hydra", "eval", str(made / "long.conllu"), "--run", str(made / "same")]) == 2
    assert (
        "no sentence to measure them by: 0 lack the tree or matrix of head, arc, 1 are too long"
        in capsys.readouterr().err
    )
    tiny("bert").save_pretrained(made / "other")
    tokenizer = copy.deepcopy(minilm_tokenizer())
    tokenizer.add_tokens(["structattn"])
    tokenizer.save_pretrained(made / "other")
    pair = ["--backbone", str(made / "other"), "--adapter", str(made / "adapter")]
    assert main([*words, *pair, "--run", str(made / "same")]) == 2
    assert "have different vocabularies" in capsys.readouterr().err
