"""Backbones with priors in their heads: the encoder of injected priors, and SG-Net's layer against its equations."""

import json
import logging
import math
from pathlib import Path

import pytest
import torch

import structattn as sa
from backbones import minilm_tokenizer, save_tiny, tiny
from structattn.backbones import HydraConfig, add_heads, inject
from structattn.backbones.sgnet import GuidedLayer
from structattn.cli import main
from structattn.data import collate_subwords
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure

KIDS = sa.Sentence(
    ["Two", "kids", "wash", "hippopotami"],
    dependency=sa.DependencyTree([2, 3, 0, 3], ["nummod", "nsubj", "root", "obj"]),
)
BARE = sa.Sentence(["hush"])
NOTHING = sa.Vocabulary([])


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("injected") / "backbone"
    save_tiny(folder)
    return str(folder)


def test_the_injected_encoder_is_the_injected_model(backbone: str) -> None:
    encoder = build(
        "injected", embedder={"folder": backbone}, heads=["dependency", "word"], layers=[0], alpha=4.0
    ).eval()
    injected = inject(tiny("bert"), ["dependency", "word"] * 2, [0], alpha=4.0)
    subwords = collate_subwords([KIDS], minilm_tokenizer())
    batch = sa.collate([KIDS], NOTHING)
    torch.testing.assert_close(encoder(batch).vector, injected(subwords).last_hidden_state[:, 0])
    plain = build("backbone", embedder={"folder": backbone}).eval()(batch).vector
    assert (encoder(batch).vector - plain).abs().max() > 1e-6
    none = build("injected", embedder={"folder": backbone}, heads=["none"]).eval()
    torch.testing.assert_close(none(batch).vector, plain)


def test_alphas_are_learnt_and_counted_once(backbone: str) -> None:
    encoder = build("injected", embedder={"folder": backbone, "is_frozen": True}, heads=["word"], learnable_alpha=True)
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    assert [parameter.numel() for parameter in trained] == [4]
    encoder(sa.collate([KIDS], NOTHING)).vector.square().sum().backward()
    assert trained[0].grad is not None
    assert bool(trained[0].grad.abs().max() > 0)


def test_sentences_without_trees(backbone: str) -> None:
    batch = sa.collate([BARE], NOTHING)
    for name, options in (("injected", {"heads": ["dependency"]}), ("sgnet", {})):
        with pytest.raises(MissingStructure, match="dependency"):
            build(name, embedder={"folder": backbone}, **options)(batch)
    free = build("injected", embedder={"folder": backbone}, heads=["dependency"], missing_trees="none").eval()
    plain = build("backbone", embedder={"folder": backbone}).eval()
    torch.testing.assert_close(free(batch).vector, plain(batch).vector)


def test_empty_texts_and_very_long_ones(backbone: str, tmp_path: Path) -> None:
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(tmp_path / "adapter")
    long = sa.Sentence(["kids"] * 5_000, dependency=sa.DependencyTree([0, *range(1, 5_000)]))
    empty = sa.Sentence([], dependency=sa.DependencyTree([]))
    for name, options in (
        ("backbone", {}),
        ("injected", {"heads": ["dependency"], "missing_trees": "none"}),
        ("sgnet", {}),
    ):
        encoder = build(name, embedder={"folder": backbone}, **options).eval()
        assert encoder(sa.collate([empty], NOTHING)).vector.isfinite().all()
    for name, options in (("backbone", {}), ("hydra", {"adapter": str(tmp_path / "adapter")})):
        encoder = build(name, embedder={"folder": backbone}, **options).eval()
        cut = encoder(sa.collate([sa.Sentence(long.words)], NOTHING)).vector
        whole = encoder(sa.collate([sa.Sentence(long.words[:62])], NOTHING)).vector  # with [CLS] and [SEP] 64 subwords
        torch.testing.assert_close(cut, whole)


def test_mistakes(backbone: str) -> None:
    with pytest.raises(ConfigError, match="heads: expected a number that divides the backbone's 4 heads, got 3"):
        build("injected", embedder={"folder": backbone}, heads=["word"] * 3)
    with pytest.raises(
        ConfigError, match=r"^keep_states: priors in the backbone's heads change its states; leave it out"
    ):
        build("injected", embedder={"folder": backbone, "is_frozen": True, "keep_states": True}, heads=["word"])
    with pytest.raises(ConfigError, match="'dependency_distance' is a distance, which forbids nothing"):
        build("sgnet", embedder={"folder": backbone}, relation="dependency_distance")
    with pytest.raises(ConfigError, match="multiple of num_heads, got 16 and 5"):
        build("sgnet", embedder={"folder": backbone}, num_heads=5)


def test_the_guided_layer_equals_its_equations() -> None:
    torch.manual_seed(0)
    layer = GuidedLayer(6, 2, dropout=0.0).eval()
    with torch.no_grad():
        layer.shares.copy_(torch.tensor([0.3, -0.2]))
        layer.scale.fill_(1.5)
    states = torch.randn(1, 3, 6)
    allowed = torch.tensor([[[True, True, False], [False, True, False], [False, False, False]]])
    found, weights = layer(states, allowed, need_weights=True)
    fused, _ = layer(states, allowed)
    torch.testing.assert_close(fused, found)
    assert weights is not None
    query, key, value = layer.project(states[0]).split(6, dim=1)
    rows = []
    for i in range(3):
        heads = []
        for h in range(2):
            part = slice(3 * h, 3 * h + 3)
            seen = [j for j in range(3) if allowed[0, i, j]]
            raw = [math.exp((query[i, part] @ key[j, part]).item() / math.sqrt(3)) for j in seen]
            share = dict(zip(seen, (one / sum(raw) for one in raw), strict=True))
            torch.testing.assert_close(weights[0, h, i], torch.tensor([share.get(j, 0.0) for j in range(3)]))
            heads.append(sum((share[j] * value[j, part] for j in seen), torch.zeros(3)))
        rows.append(torch.cat(heads))
    update = layer.ffn(layer.norm(states[0] + layer.output(torch.stack(rows))))
    first = math.exp(0.3) / (math.exp(0.3) + math.exp(-0.2))
    torch.testing.assert_close(found[0], 1.5 * (first * states[0] + (1 - first) * update))


def test_the_mask_of_sgnet_is_that_of_the_tree(backbone: str) -> None:
    """Every subword of a word sees the first subwords of the words above it; a later subword is seen by itself only."""
    encoder = build("sgnet", embedder={"folder": backbone}).eval()
    seen: list[torch.Tensor] = []
    layer = encoder.get_submodule("embedder.reader.layer")
    with layer.register_forward_hook(lambda *call: seen.append(call[1][1])):
        encoder(sa.collate([KIDS], NOTHING))
    subwords = collate_subwords([KIDS], minilm_tokenizer())
    names = minilm_tokenizer().convert_ids_to_tokens(subwords.ids[0].tolist())
    first = {word: subwords.words[0].tolist().index(word, 1) for word in range(4)}
    above = {0: {0, 1, 2}, 1: {1, 2}, 2: {2}, 3: {2, 3}}
    for index, name in enumerate(names):
        expected = set()
        if name not in ("[CLS]", "[SEP]"):
            word = int(subwords.words[0, index])
            expected = {first[one] for one in above[word]} | ({index} if index != first[word] else set())
        assert set(seen[0][0, index].nonzero().flatten().tolist()) == expected, name


def test_training_with_trees_from_the_command_line(
    backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = [sa.Sentence(KIDS.words, dependency=KIDS.dependency, metadata={"label": label}) for label in ("a", "b") * 4]
    sa.write_conllu(tmp_path / "rows.conllu", rows)
    for name, options in (("injected", ["--options.heads", "[dependency]"]), ("sgnet", [])):
        words = [
            "train",
            "--task",
            "classification",
            "--encoder",
            name,
            "--backbone",
            backbone,
            *options,
            "--device",
            "cpu",
        ]
        words += ["--data.train", str(tmp_path / "rows.conllu"), "--data.dev", str(tmp_path / "rows.conllu")]
        with caplog.at_level(logging.ERROR):
            assert main([*words, "--optimization.epochs", "1", "--out", str(tmp_path / name), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metrics"]["accuracy"] == 0.5
