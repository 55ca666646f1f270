"""Looking into models that read subwords, and into latent trees: names, rows that sum to one, drawings."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from backbones import save_tiny, tiny
from structattn.backbones import HydraConfig, HydraModel, add_heads
from structattn.backbones.head_evaluation import RelationReport
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.explorer.plots import save_plots
from structattn.inspection import attention_maps
from structattn.inspection.hydra_figures import hang_from, pretraining_figure, relation_title
from structattn.inspection.sentence_figures import induced_tree_figure
from structattn.tasks import AttachmentModel, SentenceModel, Task, get_task
from structattn.training import Pretraining

KIDS = sa.Sentence(["Two", "kids", "wash", "hippopotami"], dependency=sa.DependencyTree([2, 3, 0, 3]))
SHORT = sa.Sentence(["Kids", "wash"], dependency=sa.DependencyTree([2, 0]))
WORDS = sorted({word.lower() for word in (*KIDS.words, *SHORT.words)})
ENCODERS: dict[str, dict[str, Any]] = {
    "backbone": {},
    "hydra": {},
    "injected": {"heads": ["forward/dependency", "none"]},
    "sgnet": {},
}
MAPS = {"backbone": 1, "hydra": 1, "injected": 2, "sgnet": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("seen")
    save_tiny(found / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(found / "adapter")
    return found


def model_of(name: str, folder: Path, *, combine: str = "together") -> SentenceModel:
    options = dict(ENCODERS[name])
    if name == "hydra":
        options["adapter"] = str(folder / "adapter")
    task = Task("t", arity=1 if combine == "single" else 2, combine=combine, labels=("no", "yes"))
    encoder = build(name, embedder={"folder": str(folder / "backbone")}, **options)
    return SentenceModel(encoder, task, vocabulary=sa.Vocabulary([])).train()


@pytest.mark.parametrize("name", ENCODERS)
def test_a_pair_that_is_read_as_one_text_is_shown_as_one(
    name: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(name, folder)
    with caplog.at_level(logging.INFO, logger="structattn"):
        maps = attention_maps(model, [(KIDS, SHORT), (SHORT, SHORT)])
    assert len(maps) == 2 * MAPS[name]
    assert [found.index for found in maps] == [0] * MAPS[name] + [2] * MAPS[name]
    first = maps[0]
    # "hippopotami" is several subwords; the words of the second sentence are numbered on.
    assert first.words is not None
    assert first.words[:4] == (None, 0, 1, 2)
    assert first.words[-4:] == (None, 4, 5, None)
    assert set(first.words[4:-4]) == {3}
    assert (first.allowed is None) == (name in ("backbone", "hydra"))
    if first.allowed is not None:
        assert torch.equal(first.weights > 0, first.allowed)
        assert bool((~first.allowed).any())
    assert first.rows[:4] == ("[CLS]", "two", "kids", "wash")
    assert first.rows[-4:] == ("[SEP]", "kids", "wash", "[SEP]")
    assert first.weights.shape == (4, len(first.rows), len(first.rows))
    if name != "sgnet":  # there, special tokens look at nothing
        torch.testing.assert_close(first.weights.sum(-1), torch.ones(4, len(first.rows)))
    assert ("running eager instead of sdpa" in caplog.text) == (name in ("backbone", "injected"))
    assert model.training
    # Transformers leaves hooks of its own in a backbone that was asked for weights.
    assert name == "backbone" or not any(module._forward_hooks for module in model.modules())


def test_sentences_that_are_read_apart_are_shown_apart(folder: Path) -> None:
    maps = attention_maps(model_of("hydra", folder, combine="product_absolute"), [(KIDS, SHORT)])
    assert [found.index for found in maps] == [0, 1]
    assert maps[1].rows == ("[CLS]", "kids", "wash", "[SEP]")


@pytest.mark.parametrize("name", ENCODERS)
def test_plots_of_models_on_a_backbone(name: str, folder: Path, tmp_path: Path) -> None:
    written = save_plots(tmp_path, model_of(name, folder), [(KIDS, SHORT)])
    assert {"attention.html", "01-attention.svg"} <= {path.name for path in written}
    assert "hip" in (tmp_path / "01-attention.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("attention", ["projective", "nonprojective"])
@pytest.mark.parametrize(("name", "option"), [("structured", "attention"), ("decomposable", "inside")])
def test_latent_trees_are_shown_as_marginals_and_the_best_tree(name: str, option: str, attention: str) -> None:
    torch.manual_seed(0)
    encoder = build(name, vocab_size=len(WORDS) + 2, dim=6, **{option: attention})
    model = AttachmentModel(encoder, get_task("attachment"), vocabulary=sa.Vocabulary(WORDS)).train()
    first, second = attention_maps(model, [KIDS, SHORT])
    assert model.training
    assert first.rows == first.columns == KIDS.words
    assert second.index == 1
    (answer,) = model.predict([KIDS])
    heads = [int(head) for head in str(answer.text).split()]
    expected = torch.tensor([[float(head == column + 1) for column in range(4)] for head in heads])
    torch.testing.assert_close(first.weights[1], expected)
    marginals = first.weights[0]
    assert bool((marginals >= 0).all())
    assert bool((marginals.sum(-1) <= 1 + 1e-5).all())  # the rest is the root's
    assert (4 - marginals.sum()).item() == pytest.approx(expected_roots(model), abs=1e-4)
    assert induced_tree_figure(first, KIDS).count('class="sa-arc"') == 8


@torch.no_grad()
def expected_roots(model: AttachmentModel) -> float:
    trees = model._trees(model.collate([KIDS]))
    return trees.marginals()[0, :, 0].sum().item()


def test_plots_of_a_task_of_trees(tmp_path: Path) -> None:
    sentences = [example.sentences[0] for example, _ in zip(agreement_treebank(seed=1), range(2), strict=False)]
    words = sorted({word.lower() for one in sentences for word in one.words})
    encoder = build("decomposable", vocab_size=len(words) + 2, dim=6, inside="projective")
    model = AttachmentModel(encoder, get_task("attachment"), vocabulary=sa.Vocabulary(words))
    written = save_plots(tmp_path, model, [*sentences, "kings cry"])
    names = {path.name for path in written}
    assert {"attention.html", "01-attention.svg", "01-induced.svg", "01-tree.svg", "03-induced.svg"} <= names
    assert "03-tree.svg" not in names


@pytest.mark.parametrize(
    ("name", "title"),
    [("head:det,case", "det, case → head"), ("child:nsubj", "head → nsubj"), ("arc:det", "arc:det"), ("arc", "arc")],
)
def test_relations_have_readable_titles(name: str, title: str) -> None:
    assert relation_title(name) == title


def test_an_undirected_tree_is_hung_from_another_root() -> None:
    assert [hang_from([0, 1, 2, 1], root) for root in (1, 3)] == [[0, 1, 2, 1], [2, 3, 0, 1]]


@pytest.mark.parametrize("objective", ["mse", "ce"])
def test_the_loss_of_pretraining_is_drawn_beside_constants(objective: str) -> None:
    report = RelationReport(0.1, 0.2, 0.15, 0.9, None, None, (0.5, 0.5))
    model = HydraModel(tiny("bert"), HydraConfig(num_heads=2, objective=objective))
    figure = pretraining_figure(Pretraining(model, 0.1, {"arc": report}, {}, (0.3, 0.1), {}, 1.0, True, 1.0))
    assert ("best constant of each sentence" in figure, "mean squared error" in figure) == ((objective == "mse"),) * 2
