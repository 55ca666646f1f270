"""HYDRA on a backbone: layer styles and published counts, adapter folders, pretraining that keeps the backbone."""

import copy
import itertools
import json
import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import structattn as sa
from backbones import KINDS, minilm_tokenizer, opened, tiny
from structattn.backbones import (
    BackboneEmbedding,
    HydraConfig,
    HydraLayer,
    HydraModel,
    PretrainedBackbone,
    RelationHeads,
    add_heads,
    evaluate_heads,
    relation_loss,
    relation_targets,
)
from structattn.backbones.adapter import backbone_fingerprint
from structattn.backbones.head_evaluation import area_under_curve, heads_loss, tree_heads
from structattn.backbones.hydra_encoder import hydra
from structattn.backbones.relation_batches import exchange_trees
from structattn.cli import main
from structattn.data.generated import agreement_treebank
from structattn.errors import ConfigError, ParseError
from structattn.training.heads import pretrain, pretrain_heads
from structattn.training.heads_config import PretrainingConfig, heads_optimization

STYLES = {"residual": 1_771_776, "gated": 2_362_369, "attention": 2_363_904, "transformer": 7_087_872}
SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=5), 60)]
IDS = torch.tensor([[101, 2048, 4268, 9378, 102], [101, 4268, 102, 0, 0]])
MASK = (IDS != 0).long()


def config_of(**options) -> HydraConfig:
    return HydraConfig(**{"num_heads": 4, "dropout": 0.0, **options})


def backbone_of(kind: str = "bert", **options) -> PretrainedBackbone:
    return PretrainedBackbone(tiny(kind), minilm_tokenizer(), **options)


@pytest.mark.parametrize(("style", "count"), STYLES.items())
def test_counts_of_bert_base(style, count):
    layer = HydraLayer(768, HydraConfig(layer_style=style))
    assert sum(parameter.numel() for parameter in layer.parameters()) == count


@pytest.mark.parametrize("style", STYLES)
def test_an_adapter_of_bert_base_has_seven_megabytes(style, tmp_path):
    """3 (d^2 + d) numbers of 4 bytes: 7,087,104, and a header."""
    backbone = tiny("bert", hidden_size=768, num_attention_heads=12, vocab_size=200, num_hidden_layers=1)
    HydraModel(backbone, HydraConfig(layer_style=style)).save_pretrained(tmp_path / "adapter")
    size = (tmp_path / "adapter" / "adapter_model.safetensors").stat().st_size
    assert 7_087_104 < size < 7_087_104 + 2_000
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "README.md",
    }


@pytest.mark.parametrize("style", STYLES)
def test_layer_equals_the_equations(style):
    torch.manual_seed(0)
    layer = HydraLayer(8, config_of(num_heads=2, layer_style=style, gate_init=0.7)).eval()
    if layer.output is not None:
        torch.nn.init.normal_(layer.output.weight)
    states, mask = torch.randn(1, 4, 8), torch.tensor([[True, True, True, False]])
    found, weights = layer(states, mask, need_weights=True)
    rows = []
    for i in range(3):
        heads = []
        for h in range(2):
            part = slice(4 * h, 4 * h + 4)
            query = layer.heads.query(states[0, i])[part]
            scores = [(query @ layer.heads.key(states[0, j])[part]).item() / math.sqrt(4) for j in range(3)]
            exponentials = [math.exp(score) for score in scores]
            share = [value / sum(exponentials) for value in exponentials]
            torch.testing.assert_close(weights[0, h, i, :3], torch.tensor(share))
            heads.append(sum(share[j] * layer.value(states[0, j])[part] for j in range(3)))
        rows.append(torch.cat(heads))
    context, x = torch.stack(rows), states[0, :3]
    expected = {
        "residual": lambda: x + context,
        "gated": lambda: x + 0.7 * layer.output(context),
        "attention": lambda: layer.norm(x + layer.output(context)),
        "transformer": lambda: layer.ffn(layer.norm(x + layer.output(context))),
    }[style]()
    torch.testing.assert_close(found[0, :3], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_gate_gives_the_backbone_and_so_does_disabling(kind):
    backbone = tiny(kind)
    plain = backbone(input_ids=IDS, attention_mask=MASK)
    model = add_heads(backbone, config_of()).eval()
    found = model(input_ids=IDS, attention_mask=MASK)
    assert type(found) is type(plain)
    torch.testing.assert_close(found.last_hidden_state, plain.last_hidden_state, rtol=0, atol=0)
    with torch.no_grad():
        model.hydra.gate.fill_(0.0)
    closed = opened(model)(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(closed, plain.last_hidden_state, rtol=0, atol=0)
    with torch.no_grad():
        model.hydra.gate.fill_(1.0)
    audible = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    assert (audible - plain.last_hidden_state).abs().max() > 1e-4
    with model.disable_adapter() as same:
        again = same(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(again, plain.last_hidden_state, rtol=0, atol=0)
    assert model.is_enabled


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_can_share_a_backbone(kind):
    inputs, backbone = {"input_ids": IDS, "attention_mask": MASK}, tiny(kind)
    real = MASK[..., None].float()
    configs = [config_of(), config_of(layer=1), config_of(layer_style="residual", num_heads=2)]
    shared, alone = [], []
    for models, below in ((shared, [backbone] * 3), (alone, [tiny(kind) for _ in configs])):
        for own, config in zip(below, configs, strict=True):
            torch.manual_seed(len(models))
            models.append(add_heads(own, config).eval())
            if config.layer_style == "gated":
                opened(models[-1])
    expected = [model(**inputs).last_hidden_state * real for model in alone]
    for index in (0, 1, 2, 1, 0):
        torch.testing.assert_close(shared[index](**inputs).last_hidden_state * real, expected[index], rtol=0, atol=0)
    torch.testing.assert_close(backbone(**inputs).last_hidden_state, tiny(kind)(**inputs).last_hidden_state)


def test_scores_and_loss_on_request():
    model = add_heads(tiny("bert"), config_of()).eval()
    relation = torch.zeros(2, 5, 5)
    relation[:, 1, 2] = 1.0
    found = model(input_ids=IDS, attention_mask=MASK, relation=relation, output_hydra_scores=True)
    scores = model.hydra_scores(IDS, MASK)
    torch.testing.assert_close(found.hydra_scores, scores)
    torch.testing.assert_close(found.hydra_loss, relation_loss(scores, relation, MASK.bool()))
    assert "hydra_loss" not in model(input_ids=IDS, attention_mask=MASK)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 1, -2])
def test_between_two_layers_the_upper_ones_read_what_the_heads_make(kind, place):
    backbone = tiny(kind)
    plain = backbone(input_ids=IDS, attention_mask=MASK, output_hidden_states=True)
    model = add_heads(backbone, config_of(layer=place)).eval()
    real = MASK[..., None].float()
    closed = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(closed * real, plain.last_hidden_state * real, rtol=0, atol=0)
    inner = plain.hidden_states[place % 3]
    states, mask = model.backbone_states(IDS, MASK)
    torch.testing.assert_close(states * real, inner * real)
    torch.testing.assert_close(model.hydra_scores(IDS, MASK), model.hydra.heads.scores(states))
    with torch.no_grad():
        opened(model).hydra.gate.fill_(3.0)
    audible = model(input_ids=IDS, attention_mask=MASK, output_hidden_states=True)
    assert ((audible.last_hidden_state - plain.last_hidden_state) * real).abs().max() > 1e-4
    expected = model.hydra(inner, mask)[0]  # what the layer above reads, by a look at the layer itself
    seen = []
    module = next(m for m in backbone.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == 2)[place % 3]
    with module.register_forward_hook(lambda *call: seen.append(call[1][0])):
        model(input_ids=IDS, attention_mask=MASK)
    torch.testing.assert_close(seen[0] * real, expected * real)
    with model.disable_adapter():
        again = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(again * real, plain.last_hidden_state * real, rtol=0, atol=0)
    assert not module._forward_pre_hooks


@pytest.mark.parametrize("style", ["gated", "attention", "transformer"])
def test_fine_tuning_reaches_the_heads_by_its_second_step(style):
    model = add_heads(tiny("bert"), config_of(layer_style=style, dropout=0.0)).eval()
    before = {name: parameter.clone() for name, parameter in model.hydra.named_parameters()}
    optimizer = torch.optim.AdamW(model.hydra.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        (model(input_ids=IDS, attention_mask=MASK).last_hidden_state[:, 0] - 1.0).square().mean().backward()
        optimizer.step()
    same = {name for name, parameter in model.hydra.named_parameters() if torch.equal(parameter, before[name])}
    assert not same


def test_a_gate_that_starts_closed_has_a_map_that_does_not():
    layer = HydraLayer(16, config_of(gate_init=0.0))
    assert layer.output.weight.std().item() == pytest.approx(0.02, rel=0.3)
    assert not HydraLayer(16, config_of()).output.weight.any()
    assert HydraLayer(16, config_of()).gate == 1.0


def test_heads_between_layers_learn_through_the_layers_above():
    model = opened(add_heads(tiny("bert"), config_of(layer=1))).freeze("backbone")
    model(input_ids=IDS, attention_mask=MASK).last_hidden_state[:, 0].square().sum().backward()
    assert model.hydra.heads.query.weight.grad.abs().max() > 0
    assert all(parameter.grad is None for parameter in model.base.parameters())


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_weights_stand_where_the_layer_does(implementation):
    """Between those of the backbone, which sdpa alone would not give."""
    backbone = tiny("bert", implementation=implementation)
    own = tiny("bert", implementation="eager")(input_ids=IDS, attention_mask=MASK, output_attentions=True).attentions
    for place, number in ((-1, 2), (1, 1), (0, 0)):
        model = add_heads(backbone, config_of(layer=place)).eval()
        attentions = model(input_ids=IDS, attention_mask=MASK, output_attentions=True).attentions
        states, mask = model.backbone_states(IDS, MASK)
        weights = model.hydra(states, mask, need_weights=True)[1]
        torch.testing.assert_close(weights.sum(-1)[0], torch.ones(4, 5))
        # A closed map: the backbone's weights are those of the backbone alone.
        for found, expected in zip(attentions, (*own[:number], weights, *own[number:]), strict=True):
            torch.testing.assert_close(found * MASK[:, None, :, None], expected * MASK[:, None, :, None])
        assert backbone.config._attn_implementation == implementation
    backbone.set_attn_implementation("eager")  # without which transformers refuses the next line
    backbone.config.output_attentions = True
    assert len(model(input_ids=IDS, attention_mask=MASK).attentions) == 3


def test_a_backbone_without_a_list_of_layers_takes_heads_on_top_only():
    backbone = tiny("bert")
    model = add_heads(backbone, config_of(layer=1))
    backbone.encoder.layer = torch.nn.ModuleList([*backbone.encoder.layer, torch.nn.Identity()])
    with pytest.raises(ConfigError, match="BertModel has no list of 2 layers to put heads between; use -1"):
        model(input_ids=IDS, attention_mask=MASK)


def test_the_pooler_reads_the_new_states():
    model = opened(add_heads(tiny("bert"), config_of())).eval()
    found = model(input_ids=IDS, attention_mask=MASK)
    torch.testing.assert_close(found.pooler_output, model.base.pooler(found.last_hidden_state))


def test_freezing_and_counting(capsys):
    model = add_heads(tiny("bert"), config_of()).freeze("backbone")
    model.print_trainable_parameters()
    layer = sum(parameter.numel() for parameter in model.hydra.parameters())
    every = sum(parameter.numel() for parameter in model.parameters())
    assert capsys.readouterr().out.startswith(f"trainable params: {layer:,} || all params: {every:,}")
    model.freeze("heads")
    assert model.trainable_parameters()[0] == layer - 2 * (16 * 16 + 16)
    with pytest.raises(ConfigError, match="unknown part 'tail'; known: backbone, heads, layer"):
        model.freeze("tail")


def test_what_is_frozen_stays_and_the_rest_moves():
    for frozen in ("backbone", "heads"):
        torch.manual_seed(0)
        model = opened(add_heads(tiny("bert"), config_of())).freeze(frozen)
        before = {name: parameter.clone() for name, parameter in model.named_parameters()}
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
        model(input_ids=IDS, attention_mask=MASK).last_hidden_state[:, 0].square().sum().backward()
        optimizer.step()
        moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
        assert any(name.startswith("base.") for name in moved) == (frozen == "heads")
        assert any(name.startswith("hydra.heads.query") for name in moved) == (frozen == "backbone")
        assert "hydra.value.weight" in moved


# Adapters on disk.


def test_save_and_load(tmp_path):
    torch.manual_seed(0)
    model = add_heads(tiny("bert"), config_of(layer_style="transformer")).eval()
    model.save_pretrained(tmp_path / "fresh")
    content = json.loads((tmp_path / "fresh" / "adapter_config.json").read_text())
    assert (content["peft_type"], content["saved_parts"]) == ("HYDRA", ["key", "query", "value"])
    with torch.no_grad():
        model.hydra.output.weight.mul_(2.0)
        model.hydra.norm.bias.add_(1.0)
    model.save_pretrained(tmp_path / "tuned")
    content = json.loads((tmp_path / "tuned" / "adapter_config.json").read_text())
    assert content["saved_parts"] == ["key", "norm", "output", "query", "value"]
    names = sa.data.tensors.read_tensors(tmp_path / "tuned" / "adapter_model.safetensors")
    assert "base_model.model.hydra.layer.query.weight" in names
    again = add_heads(tiny("bert"), tmp_path / "tuned")
    for name in ("query.weight", "value.bias", "output.weight", "norm.bias"):
        torch.testing.assert_close(again.hydra.parts[name], model.hydra.parts[name], rtol=0, atol=0)
    torch.testing.assert_close(again.hydra_scores(IDS, MASK), model.hydra_scores(IDS, MASK), rtol=0, atol=0)
    assert again.hydra_config == model.hydra_config


@pytest.mark.parametrize("style", ["residual", "gated"])
def test_untrained_heads_come_back_as_they_were(style, tmp_path):
    model = add_heads(tiny("bert"), config_of(layer_style=style)).eval()
    model.save_pretrained(tmp_path)
    states = [one(input_ids=IDS, attention_mask=MASK) for one in (model, add_heads(tiny("bert"), tmp_path).eval())]
    assert torch.equal(*(one.last_hidden_state for one in states))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("place", [-1, 1])
def test_heads_are_of_the_type_of_the_backbone(style, place, tmp_path):
    base = tiny("bert").to(torch.bfloat16)
    model = add_heads(base, config_of(layer_style=style, layer=place)).eval()
    found = model(input_ids=IDS, attention_mask=MASK, output_hydra_scores=True)
    assert found.last_hidden_state.dtype == torch.bfloat16
    assert found.hydra_scores.dtype == torch.float32
    exact = copy.deepcopy(model).float()(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(found.last_hidden_state.float(), exact, atol=0.1, rtol=0.1)
    with torch.no_grad():  # so that all parts are saved
        for parameter in model.hydra.parameters():
            parameter.add_(1.0)
    model.save_pretrained(tmp_path)
    again = add_heads(base, tmp_path).eval()
    assert all(torch.equal(again.hydra.parts[name], part) for name, part in model.hydra.parts.items())
    for heads in ("trained", "random"):
        embedder = BackboneEmbedding(PretrainedBackbone(base, minilm_tokenizer()))
        encoder = hydra(embedder, adapter=str(tmp_path), heads=heads)
        assert encoder(sa.collate(SENTENCES[:2], sa.Vocabulary([]))).vector.dtype == torch.bfloat16


def test_heads_do_not_fit_another_backbone(tmp_path):
    model = add_heads(tiny("bert"), config_of())
    model.save_pretrained(tmp_path / "adapter")
    with pytest.raises(ConfigError, match="heads for a backbone of width 16, this BertModel has width 24"):
        add_heads(tiny("bert", hidden_size=24), tmp_path / "adapter")
    other = tiny("bert")
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    with pytest.warns(UserWarning, match="trained on a backbone with other parameters"):
        add_heads(other, tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(file.read_text())

    def changed(**values):
        file.write_text(json.dumps({**content, **values}), encoding="utf-8")
        return add_heads(tiny("bert"), tmp_path / "adapter")

    with pytest.raises(ConfigError, match=r"expected 'key.bias' of shape \(8,\) for this backbone, got \(16,\)"):
        changed(hydra={**content["hydra"], "head_dim": 2})
    with pytest.raises(ParseError, match=r"expected a tensor '[\w.]+hydra.layer.output.bias', it is missing"):
        changed(saved_parts=[*content["saved_parts"], "output"])
    with pytest.raises(ConfigError, match="unknown relation 'sibling'"):
        changed(hydra={**content["hydra"], "relation": "sibling"})
    with pytest.raises(ConfigError, match="expected an adapter of type 'HYDRA', got 'LORA'"):
        changed(peft_type="LORA")
    with pytest.raises(ConfigError, match="has format version 99"):
        changed(format_version=99)
    file.write_text(json.dumps({key: content[key] for key in content if key != "hydra"}), encoding="utf-8")
    with pytest.raises(ParseError, match="expected the key 'hydra'"):
        add_heads(tiny("bert"), tmp_path / "adapter")


def test_a_style_with_fewer_parts_refuses_those_of_another(tmp_path):
    model = add_heads(tiny("bert"), config_of())
    with torch.no_grad():
        model.hydra.gate.fill_(0.5)
    model.save_pretrained(tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(file.read_text())
    content["hydra"]["layer_style"] = "residual"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError, match="has a part 'gate' that a layer of style 'residual' lacks"):
        add_heads(tiny("bert"), tmp_path / "adapter")


def test_backbones_that_do_not_do():
    with pytest.raises(ConfigError, match="which has a decoder too"):
        add_heads(tiny("t5", implementation="eager"), config_of())
    with pytest.raises(ConfigError, match="expected an encoder of transformers, got Linear"):
        add_heads(torch.nn.Linear(2, 2), config_of())
    with pytest.raises(ConfigError, match=r"layer: expected -3 to 2 for this backbone, got 3"):
        add_heads(tiny("bert"), config_of(layer=3))
    with pytest.raises(ConfigError, match=r"HYDRA on a backbone of width 16: .*multiple of num_heads, got 16 and 5"):
        add_heads(tiny("bert"), config_of(num_heads=5))
    with pytest.raises(ConfigError, match="'residual' adds"):
        add_heads(tiny("bert"), config_of(head_dim=3, layer_style="residual"))


def test_the_backbone_of_a_classifier_is_taken():
    import transformers as hf

    model = hf.BertForSequenceClassification(tiny("bert").config)
    with pytest.warns(UserWarning, match=r"heads are added to the BertModel of this .*; classifier is left out"):
        assert add_heads(model, config_of()).base is model.bert


# Pretraining.


def test_pretraining_leaves_the_backbone_as_it_is_and_trains_queries_and_keys_only():
    backbone = backbone_of()
    backbone.train()
    before = backbone_fingerprint(backbone.model)
    optimization = replace(heads_optimization(), epochs=3, batch_size=8, warmup=2, learning_rate=1e-2)
    found = pretrain(backbone, config_of(), SENTENCES[:48], held_out=SENTENCES[48:], optimization=optimization)
    assert backbone_fingerprint(backbone.model) == before
    assert found.is_backbone_unchanged
    assert found.coverage == 1.0
    assert backbone.model.training
    assert all(parameter.grad is None for parameter in backbone.model.parameters())
    torch.manual_seed(1)
    fresh = HydraModel(tiny("bert"), config_of()).hydra.parts
    changed = {name for name, tensor in found.model.hydra.parts.items() if not torch.equal(tensor, fresh[name])}
    assert changed == {"query.weight", "query.bias", "key.weight", "key.bias"}
    assert found.model.untrained_parts() == set(fresh) - changed
    assert found.loss == min(found.epochs) < found.epochs[0]
    assert found.sentences == {"trained": 48, "held_out": 12, "without_structure": 0, "too_long": 0}
    report = found.relations["arc"]
    assert found.loss == pytest.approx(report.mean_squared_error, rel=1e-5)
    assert report.area > 0.5
    assert len(report.accuracy) == 4
    again = pretrain(backbone, config_of(), SENTENCES[:48], held_out=SENTENCES[48:], optimization=optimization)
    assert again.epochs == found.epochs


@pytest.mark.parametrize("place", [0, 1])
def test_heads_are_trained_on_the_states_that_they_will_read(place):
    backbone = backbone_of()
    optimization = replace(heads_optimization(), epochs=1, batch_size=8)
    found = pretrain(
        backbone, config_of(layer=place), SENTENCES[:16], held_out=SENTENCES[16:24], optimization=optimization
    )
    subwords = backbone.tokenize(SENTENCES[16:24])
    states, mask = found.model.backbone_states(subwords.ids, subwords.mask.long(), token_type_ids=subwords.segments)
    relation = relation_targets(subwords, config_of()).relation[:, 0]
    loss = found.model.hydra.heads.loss(states, relation, mask)
    assert loss.item() == pytest.approx(found.loss, rel=1e-5)


def test_kept_states_change_nothing():
    losses = [
        pretrain(
            backbone_of(),
            config_of(relation=("head", "child", "arc", "ancestor")),
            SENTENCES[:16],
            held_out=SENTENCES[16:24],
            optimization=replace(heads_optimization(), epochs=2, batch_size=8),
            keep_states=keep,
        ).epochs
        for keep in (False, True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_early_stopping():
    optimization = replace(heads_optimization(), epochs=9, patience=1, batch_size=8, learning_rate=1e-12, warmup=0)
    with_nothing_learnt = pretrain(
        backbone_of(), config_of(), SENTENCES[:8], held_out=SENTENCES[8:16], optimization=optimization
    )
    assert len(with_nothing_learnt.epochs) < 10


def test_heads_that_only_get_worse_are_not_taken(caplog):
    optimization = replace(heads_optimization(), epochs=9, patience=2, batch_size=8, learning_rate=1.0, warmup=0)
    found = pretrain(backbone_of(), config_of(), SENTENCES[:8], held_out=SENTENCES[8:16], optimization=optimization)
    assert len(found.epochs) == 3
    assert found.loss == found.epochs[0] < min(found.epochs[1:])
    assert "no epoch was better than the untrained heads" in caplog.text


def test_sentences_that_cannot_be_learnt_from_are_counted():
    long = sa.Sentence(["w"] * 70, dependency=sa.DependencyTree([0, *range(1, 70)]))  # the backbone reads 64 subwords
    mixed = [*SENTENCES[:8], sa.Sentence(["hush"]), long]
    found = pretrain(
        backbone_of(),
        config_of(),
        mixed,
        held_out=SENTENCES[8:10],
        optimization=replace(heads_optimization(), epochs=1),
    )
    assert found.sentences == {"trained": 8, "held_out": 2, "without_structure": 1, "too_long": 1}
    count = sum(map(len, [*SENTENCES[:10], long]))
    assert found.coverage == pytest.approx((count - 70 + 62) / count)  # of the long one 62 words and two special tokens
    with pytest.raises(ConfigError, match="no sentence to learn from: 1 lack"):
        pretrain(backbone_of(), config_of(), [sa.Sentence(["hush"])], held_out=SENTENCES[:2])


def test_relations_that_no_two_words_have_are_refused_or_named(folder, caplog):
    one = sa.Sentence(["hush"], dependency=sa.DependencyTree([0]))
    for relation in (("arc", "arc", "child", "head:nsubjj"), "head:root"):  # a root has no head
        with pytest.raises(ConfigError, match=f"relation '{relation if relation[0] == 'h' else relation[-1]}': no two"):
            pretrain(backbone_of(), config_of(relation=relation), SENTENCES[:8], held_out=SENTENCES[8:16])
    sa.write_conllu(folder / "one.conllu", [one])
    given = {"treebank": "trees.conllu", "dev": "one.conllu", "backbone": "backbone", "out": "run"}
    paths = {name: str(folder / path) for name, path in given.items()}
    config = PretrainingConfig(**paths, heads=config_of(special="ignore"), optimization=heads_optimization())
    found = pretrain_heads(config)
    assert "relation 'arc': no two words have it in the 1 sentences to choose by" in caplog.text

    def refused(name):
        raise AssertionError(f"JSON has no {name}")

    written = json.loads((folder / "run" / "result.json").read_text(), parse_constant=refused)
    assert written["relations"]["arc"]["area"] is None
    again = pretrain_heads(config, resume=True).relations["arc"]
    assert math.isnan(again.area)
    assert math.isnan(found.relations["arc"].area)
    assert again.metrics() == found.relations["arc"].metrics()


def test_other_trees_are_of_the_same_length():
    given = [*SENTENCES, sa.Sentence(["w"] * 40, dependency=sa.DependencyTree([0, *range(1, 40)]))]
    shuffled = exchange_trees(given, seed=3)
    assert [sentence.words for sentence in shuffled] == [sentence.words for sentence in given]
    lengths = [len(sentence) for sentence in given]
    for length in set(lengths):
        own = [sentence.dependency for sentence in given if len(sentence) == length]
        others = [sentence.dependency for sentence in shuffled if len(sentence) == length]
        assert sorted(tree.heads for tree in own) == sorted(tree.heads for tree in others)
        if len(own) > 1:
            assert all(one is not other for one, other in zip(own, others, strict=True))
    assert shuffled[-1].dependency is given[-1].dependency


def test_other_trees_are_of_every_kind_and_the_words_stay():
    brackets = "(S (NP (D the) (N dog)) (V barks))", "(X (N cats) (Y (V see) (N it)))"
    trees = [sa.ConstituencyTree.from_brackets(text) for text in brackets]
    given = [
        sa.Sentence(tree.words, tree.tags, heads, tree, {"near": [[index] * 3] * 3}, metadata={"id": str(index)})
        for index, (tree, heads) in enumerate(
            zip(trees, (sa.DependencyTree([2, 3, 0]), sa.DependencyTree([2, 0, 2])), strict=True)
        )
    ]
    for one, own, other in zip(exchange_trees(given, seed=1), given, given[::-1], strict=True):
        assert (one.words, one.tags, one.metadata) == (own.words, own.tags, own.metadata)
        assert (one.dependency, one.relations) == (other.dependency, other.relations)
        assert (one.constituency.words, one.constituency.spans) == (own.words, other.constituency.spans)
    phrases = [replace(one, dependency=None) for one in given]
    found = pretrain(
        backbone_of(),
        config_of(relation="constituency_distance"),
        phrases * 2,
        held_out=phrases[:1],
        optimization=replace(heads_optimization(), epochs=1),
        control="shuffled",
    )
    assert found.sentences["trained"] == 4


def test_pretraining_leaves_every_random_state_of_its_caller(monkeypatch):
    def seeding(*given):
        np.random.seed(5)  # as torch.manual_seed does those of all devices
        return HydraModel(*given)

    monkeypatch.setattr("structattn.training.heads.HydraModel", seeding)
    before = np.random.get_state()[1].copy()
    options = {"held_out": SENTENCES[:1], "optimization": replace(heads_optimization(), epochs=1)}
    pretrain(backbone_of(), config_of(), SENTENCES[:4], **options)
    assert (np.random.get_state()[1] == before).all()


def test_long_texts_use_the_linear_form_with_the_same_result(monkeypatch):
    torch.manual_seed(0)
    heads, config = RelationHeads(16, 4, 4), config_of(relation=("head", "child", "head", "arc"))
    backbone = backbone_of()
    subwords = backbone.tokenize(SENTENCES[:4])
    assert subwords.ids.shape[1] > 2 * heads.head_dim
    states = backbone(subwords)
    calls = []
    linear = RelationHeads.linear_loss
    monkeypatch.setattr(RelationHeads, "linear_loss", lambda *a, **k: calls.append(1) or linear(*a, **k))
    found = heads_loss(heads, config, subwords, states)
    targets = relation_targets(subwords, config)
    dense = heads.loss(states, targets.relation[:, list(config.assignment)], targets.mask)
    assert calls
    torch.testing.assert_close(found, dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", ["bce", "ce", "kl"])
def test_other_objectives_learn(objective):
    optimization = replace(heads_optimization(), epochs=2, batch_size=8, warmup=1, learning_rate=1e-2)
    found = pretrain(
        backbone_of(),
        config_of(objective=objective),
        SENTENCES[:24],
        held_out=SENTENCES[24:32],
        optimization=optimization,
    )
    assert found.loss < found.epochs[0]


# The report.


def test_area_against_all_pairs():
    generator = np.random.default_rng(0)
    scores, related = generator.integers(0, 6, 40) / 5, generator.random(40) < 0.3
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[related] for n in scores[~related]]
    assert area_under_curve(scores, related) == pytest.approx(np.mean(pairs))
    assert math.isnan(area_under_curve(scores, np.zeros(40, dtype=bool)))


@pytest.mark.parametrize("kind", ["arc", "head", "child"])
def test_perfect_scores_give_the_tree_back(kind):
    batch = sa.collate(SENTENCES[:20], sa.Vocabulary([]))
    scores = sa.data.word_relation(kind, batch)
    found = tree_heads(scores, batch.lengths, kind=kind)
    for row, sentence in enumerate(SENTENCES[:20]):
        gold, own = sentence.dependency.heads, found[row, : len(sentence)].tolist()
        if kind == "arc":
            edges = [{frozenset(arc) for arc in enumerate(heads, start=1) if arc[1]} for heads in (gold, own)]
            assert edges[0] == edges[1]
        else:
            assert tuple(own) == gold


def test_the_report_of_constant_scores_is_the_constants_own():
    heads, config = RelationHeads(16, 4), config_of()
    torch.nn.init.zeros_(heads.query.weight)
    backbone = backbone_of()
    subwords = backbone.tokenize(SENTENCES[:8])
    loss, reports = evaluate_heads(heads, config, [(subwords, backbone(subwords))])
    targets = relation_targets(subwords, config).relation[:, 0]
    means = torch.stack([t[: int(n), : int(n)].mean() for t, n in zip(targets, subwords.mask.sum(1), strict=True)])
    report = reports["arc"]
    assert loss == pytest.approx(means.mean().item(), rel=1e-5)
    assert report.constant_error == pytest.approx((means.mean() - means.mean() ** 2).item(), rel=1e-5)
    assert report.sentence_constant_error == pytest.approx((means - means**2).mean().item(), rel=1e-5)
    assert report.area == 0.5


@pytest.mark.parametrize(("kind", "share"), [("arc", 4 / 5), ("head", 2 / 7), ("child", 2 / 7), ("ancestor", None)])
def test_what_neighbours_would_find(kind, share):
    """Of the arcs 1-2, 2-3, 3-4 and 1-3, 1-2 all but one join neighbours; two of seven words have the next as head."""
    trees = [sa.DependencyTree([2, 3, 0, 3]), sa.DependencyTree([3, 1, 0])]
    sentences = [sa.Sentence(["w"] * len(tree), dependency=tree) for tree in trees]
    backbone = backbone_of()
    subwords = backbone.tokenize(sentences)
    reports = evaluate_heads(RelationHeads(16, 4), config_of(relation=kind), [(subwords, backbone(subwords))])[1]
    assert reports[kind].neighbours == (share if share is None else pytest.approx(share))


def test_bad_settings():
    for options in ({"epochs": 0}, {"learning_rate": 0.0}, {"clip": 0.0}, {"warmup": -1}, {"warmup": 1.5}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            replace(heads_optimization(), **options)
    for options in ({"limit": 0}, {"max_length": 0}, {"device": "cpu", "mixed_precision": "fp16"}):
        with pytest.raises(ConfigError):
            PretrainingConfig("x", "x", "x", **options)
    with pytest.raises(ConfigError, match="'random'"):
        PretrainingConfig("x", "x", "x", control="random")


# The command line.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tiny("bert", hidden_size=16)
    model.save_pretrained(tmp_path / "backbone")
    minilm_tokenizer().save_pretrained(tmp_path / "backbone")
    sa.write_conllu(tmp_path / "trees.conllu", SENTENCES)
    return tmp_path


def test_pretraining_from_the_command_line(folder, capsys, caplog):
    words = ["hydra", "pretrain", str(folder / "trees.conllu"), "--backbone", str(folder / "backbone")]
    words += ["--out", str(folder / "adapter"), "--heads.relation", "arc"]
    words += ["--optimization.epochs", "1", "--optimization.batch_size", "8", "--device", "cpu"]
    with caplog.at_level(logging.ERROR):
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["sentences"]["trained"] == 54
        assert found["relations"]["arc"]["mean_squared_error"] == pytest.approx(found["loss"], rel=1e-5)
        assert found["backbone_unchanged"]
        assert found["bytes"] == (folder / "adapter" / "best" / "adapter_model.safetensors").stat().st_size
        result = json.loads((folder / "adapter" / "result.json").read_text())
        assert {name: result[name] for name in found if name in result} == {
            name: found[name] for name in found if name in result
        }
        assert main(words) == 2
        assert "contains a finished run" in capsys.readouterr().err
        words.append("--overwrite")
        assert main([*words, "--control", "shuffled", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["loss"] != found["loss"]
        assert main([*words, "--heads.relation", "head child head arc", "--plots", "2"]) == 0
    plots = {path.name for path in (folder / "adapter" / "plots").iterdir()}
    assert {"loss.svg", "01-1-relation.svg", "01-3-tree.svg", "02-2-attention.svg", "02-heads.svg"} <= plots
    assert len(plots) == 1 + 2 * (3 * 3 + 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "100.00% of the words have subwords; the backbone is the same as before, bit for bit"
    assert [line.split()[0] for line in lines[3:]] == ["relation", "head", "child", "arc"]
    model = add_heads(tiny("bert", hidden_size=16), folder / "adapter")
    assert model.hydra_config.relation == ("head", "child", "head", "arc")


def test_a_test_treebank_is_measured_as_hydra_eval_measures_it(folder, capsys):
    sa.write_conllu(folder / "dev.conllu", SENTENCES[:20])
    sa.write_conllu(folder / "test.conllu", SENTENCES[20:40])
    words = ["hydra", "pretrain", str(folder / "trees.conllu"), "--dev", str(folder / "dev.conllu")]
    words += ["--test", str(folder / "test.conllu"), "--backbone", str(folder / "backbone"), "--device", "cpu"]
    words += ["--heads.relation", "head ancestor head ancestor", "--optimization.epochs", "1"]
    words += ["--out", str(folder / "run")]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    pair = ["--backbone", str(folder / "backbone"), "--adapter", str(folder / "run")]
    for part, shown in (("dev", "relations"), ("test", "test_relations")):
        assert main(["hydra", "eval", str(folder / f"{part}.conllu"), *pair, "--json"]) == 0
        measured = json.loads(capsys.readouterr().out)["adapter"]["relations"]
        for relation, report in measured.items():
            for name in ("area", "mean_squared_error", "accuracy"):
                assert report[name] == pytest.approx(printed[shown][relation][name], rel=1e-4)
    assert main([*words, "--resume"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = ["relation", "head", "ancestor"]
    assert [line.split()[0] for line in lines[3:] if line] == [*table, "test:", *table]


def test_mistakes_on_the_command_line(folder, capsys):
    words = ["hydra", "pretrain", str(folder / "trees.conllu"), "--out", str(folder / "adapter")]
    assert main([*words, "--backbone", str(folder / "nowhere")]) == 2
    assert "has no config.json" in capsys.readouterr().err
    backbone = ["--backbone", str(folder / "backbone")]
    assert main([*words, *backbone, "--heads.relation", "sibling"]) == 2
    assert "unknown relation 'sibling'" in capsys.readouterr().err
    (folder / "cycle.conllu").write_text(
        "1\ta\t_\t_\t_\t_\t2\tdep\t_\t_\n2\tb\t_\t_\t_\t_\t1\tdep\t_\t_\n\n", encoding="utf-8"
    )
    assert main(["hydra", "pretrain", str(folder / "cycle.conllu"), *words[3:], *backbone]) == 2
    assert "cycle.conllu:" in (error := capsys.readouterr().err)
    assert "cycle" in error
    assert main([*words, *backbone, "--test", str(folder / "no.conllu")]) == 2
    assert "no.conllu" in capsys.readouterr().err
    sa.write_conllu(folder / "plain.conllu", [sa.Sentence(["hush"])])
    assert main([*words, *backbone, "--test", str(folder / "plain.conllu")]) == 2
    assert "no sentence to test on" in capsys.readouterr().err
