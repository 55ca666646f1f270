"""Priors in stock models: eager and sdpa agree, the bias is that of the prior, and unsupported models are refused."""

import copy
import inspect
import logging

import pytest
import torch

import structattn as sa
from backbones import KINDS, checkpoint_activations, minilm_tokenizer, tiny
from structattn.backbones import HydraConfig, PretrainedBackbone, add_heads, inject, load_injection
from structattn.backbones.attention_modules import attention_modules
from structattn.data import collate_subwords
from structattn.errors import ConfigError, MissingStructure, ParseError
from structattn.priors import NotSelf, PerHead, WordDistance

WORDS = ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hippopotami"]
BALLGAME = sa.Sentence(WORDS, dependency=sa.DependencyTree([2, 6, 5, 5, 2, 0, 8, 6]))
SHORT = sa.Sentence(["Kids", "wash"], dependency=sa.DependencyTree([2, 0]))
NAMES = ["forward/word", "dependency", "backward", "none"]


def subwords_of(*sentences):
    return collate_subwords(sentences, minilm_tokenizer())


def states_of(model, subwords, **inputs):
    return model(subwords, **inputs).last_hidden_state.masked_fill(~subwords.mask[..., None], 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_eager_and_sdpa_agree_and_differ_from_the_plain_model(kind):
    subwords = subwords_of(BALLGAME, SHORT)
    injected = {}
    for implementation in ("eager", "sdpa"):
        model = tiny(kind, implementation=implementation)
        plain = model(input_ids=subwords.ids, attention_mask=subwords.mask.long()).last_hidden_state
        injected[implementation] = states_of(inject(model, NAMES), subwords)
        assert ((injected[implementation] - plain) * subwords.mask[..., None]).abs().max() > 1e-4
    torch.testing.assert_close(injected["eager"], injected["sdpa"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_softmax_of_scores_and_bias(kind):
    """In the first layer: the same scores with and without the prior, so the weights' ratio is the bias."""
    subwords = subwords_of(BALLGAME)
    distance = [0.5 * WordDistance()] * 3 + [None]
    injected = inject(tiny(kind, implementation="eager"), distance, layers=[0])
    plain = inject(tiny(kind, implementation="eager"), ["none"] * 4, layers=[0])
    (weights,), (before,) = injected.subword_weights(subwords).values(), plain.subword_weights(subwords).values()
    words = subwords.words[0]
    bias = -0.5 * (words[:, None] - words).abs().float()
    bias[~subwords.is_word[0]] = 0.0
    bias[:, ~subwords.is_word[0]] = 0.0
    expected = (before[0, :3] * bias.exp()).div((before[0, :3] * bias.exp()).sum(-1, keepdim=True))
    torch.testing.assert_close(weights[0, :3], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights[0, 3], before[0, 3], atol=1e-6, rtol=1e-5)


def test_forbidden_pairs_have_no_weight_and_special_tokens_are_free():
    subwords = subwords_of(BALLGAME, SHORT)
    (weights,) = inject(tiny("bert"), ["forward"] * 4, layers=[-1]).subword_weights(subwords).values()
    words, is_word, mask = subwords.words, subwords.is_word, subwords.mask
    later = words[:, None, :] > words[:, :, None]
    forbidden = is_word[:, :, None] & is_word[:, None, :] & later
    allowed = mask[:, :, None] & mask[:, None, :] & ~forbidden
    assert (weights.masked_select(forbidden[:, None]) == 0).all()
    assert (weights.masked_select(allowed[:, None]) > 0).all()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_reaches_the_attention_is_a_mask_with_four_axes(kind, implementation):
    """Masks with three axes mean different things to different versions of transformers."""
    subwords = subwords_of(BALLGAME, SHORT)
    injected = inject(tiny(kind, implementation=implementation), NAMES)
    seen = []
    _, module = attention_modules(injected.model)[0]
    names = list(inspect.signature(module.forward).parameters)

    def look(module, args, kwargs):
        seen.append({**dict(zip(names, args, strict=False)), **kwargs}["attention_mask"])

    with module.register_forward_pre_hook(look, with_kwargs=True):
        injected(subwords)
    (mask,) = seen
    assert mask.shape == (2, 4, subwords.ids.shape[1], subwords.ids.shape[1])
    assert mask.is_floating_point()
    assert mask.isfinite().all()


def test_only_the_chosen_layers_have_priors():
    model, subwords = tiny("bert"), subwords_of(BALLGAME)
    plain = model(input_ids=subwords.ids, output_hidden_states=True).hidden_states
    injected = inject(model, ["forward"] * 4, layers=[1])(subwords, output_hidden_states=True).hidden_states
    torch.testing.assert_close(injected[1], plain[1])
    assert (injected[2] - plain[2]).abs().max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing_changes_nothing(kind, use_reentrant):
    """Also where two texts are read before the gradient of either is taken: layers run again with their own bias."""
    gradients = []
    for is_checkpointed in (False, True):
        injected = inject(tiny(kind), NAMES).train()
        if is_checkpointed:
            checkpoint_activations(injected.model, use_reentrant)
        torch.manual_seed(0)  # of dropout
        first, second = (injected(subwords_of(text)).last_hidden_state for text in (BALLGAME, SHORT))
        (first.square().mean() + 2 * second.square().mean()).backward()
        gradients.append([None if one.grad is None else one.grad.clone() for one in injected.parameters()])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(again, plain)


def test_padding_changes_nothing():
    injected = inject(tiny("bert"), NAMES)
    together = states_of(injected, subwords_of(BALLGAME, SHORT))
    alone = states_of(injected, subwords_of(SHORT))
    torch.testing.assert_close(together[1, : alone.shape[1]], alone[0], atol=1e-6, rtol=1e-5)


def test_pairs_have_the_trees_of_both_sentences():
    injected = inject(tiny("bert"), ["dependency"] * 4)
    subwords = collate_subwords([(BALLGAME, SHORT)], minilm_tokenizer())
    bias = injected.attention_bias(subwords).bias
    first = subwords.words[0].tolist().index(5)  # wash, the root of the first sentence
    second = [i for i, word in enumerate(subwords.words[0].tolist()) if word == 9][-1]  # wash, that of the second
    assert bias[0, 0, first, second] == -2


def test_removed_priors_leave_the_model_as_it_was():
    model, subwords = tiny("electra"), subwords_of(SHORT)
    before = model(input_ids=subwords.ids).last_hidden_state
    assert inject(model, NAMES).remove() is model
    torch.testing.assert_close(model(input_ids=subwords.ids).last_hidden_state, before, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_priors_are_never_ignored(kind):
    """By whichever door an injected model is called without its sentences, it says what to call."""
    model, subwords = tiny(kind), subwords_of(SHORT)
    injected = inject(model, NAMES, layers=[1], tokenizer=minilm_tokenizer())
    ids = subwords.ids
    doors = {
        "the model itself": lambda: model(input_ids=ids),
        "its backbone": lambda: PretrainedBackbone(model, minilm_tokenizer())(subwords),
        "the injected model": lambda: injected(input_ids=ids),
        "ids in place of texts": lambda: injected(ids),
        "ids beside texts": lambda: injected([SHORT], input_ids=ids),
        "heads": lambda: add_heads(model, HydraConfig(num_heads=4))(input_ids=ids),
        "a copy": lambda: copy.deepcopy(injected).model(input_ids=ids),
    }
    for name, call in doors.items():
        with pytest.raises(ConfigError, match=r"the priors \(backward, .*call injected\(\[sentence, \.\.\.\]\)"):
            pytest.fail(f"{name} ignores the priors: {call()}")
    assert injected([SHORT]).last_hidden_state.isfinite().all()
    with pytest.raises(ConfigError, match=r"has priors in its heads already: call remove\(\)"):
        inject(model, NAMES)
    injected.remove()
    with pytest.raises(ConfigError, match="the priors of this model were removed"):
        injected([SHORT])
    assert model(input_ids=ids).last_hidden_state.isfinite().all()


def test_a_trainer_of_transformers_trains_the_priors_or_is_refused(tmp_path):
    import transformers as hf
    from safetensors.torch import load_file

    torch.manual_seed(0)
    model = hf.BertForSequenceClassification(tiny("bert").config)
    injected = inject(model, NAMES, learnable_alpha=True, tokenizer=minilm_tokenizer())
    rows = [{"texts": text, "label": label} for label, text in enumerate((SHORT, BALLGAME))]
    options = {"max_steps": 1, "report_to": [], "use_cpu": True, "disable_tqdm": True, "learning_rate": 0.1}

    def collate_texts(rows):
        return {"texts": [row["texts"] for row in rows], "labels": torch.tensor([row["label"] for row in rows])}

    def collate_ids(rows):
        subwords = subwords_of(*(row["texts"] for row in rows))
        return {"input_ids": subwords.ids, "labels": torch.tensor([row["label"] for row in rows])}

    def train(collate, model):
        arguments = hf.TrainingArguments(tmp_path, **options, remove_unused_columns=False)
        return hf.Trainer(model, arguments, data_collator=collate, train_dataset=rows).train()

    before = [weight.detach().clone() for weight in injected.prior.parameters()]
    train(collate_texts, injected)
    assert all((new != old).any() for new, old in zip(injected.prior.parameters(), before, strict=True))
    for trained in (injected, model):
        with pytest.raises(ConfigError, match="a Trainer takes model=injected and a collator that returns"):
            train(collate_ids, trained)
    # The checkpoint has the weights of the model and those of the priors, and loads into the same pair.
    batch = collate_texts(rows)
    again = inject(
        hf.BertForSequenceClassification(model.config), NAMES, learnable_alpha=True, tokenizer=injected.tokenizer
    )
    again.load_state_dict(load_file(tmp_path / "checkpoint-1" / "model.safetensors"))
    outputs = [trained.eval()(**batch) for trained in (injected, again)]
    assert torch.equal(outputs[0].logits, outputs[1].logits)
    subwords = subwords_of(*batch["texts"])
    plain = injected.remove()(input_ids=subwords.ids, attention_mask=subwords.mask.long(), labels=batch["labels"])
    assert abs((plain.loss - outputs[0].loss).item()) > 1e-4


def test_texts_are_read_as_the_sentences_that_they_are():
    injected = inject(tiny("bert"), ["word"] * 4, tokenizer=minilm_tokenizer())
    forms = {
        "Two kids wash": sa.Sentence.from_text("Two kids wash"),
        ("Two kids", "wash."): (sa.Sentence.from_text("Two kids"), sa.Sentence(["wash", "."])),
    }
    for text, sentences in forms.items():
        assert torch.equal(injected([text]).last_hidden_state, injected([sentences]).last_hidden_state)
    with pytest.raises(TypeError, match=r"expected a list of texts, got one: 'Two kids'; put it into brackets"):
        injected("Two kids")
    with pytest.raises(TypeError, match="text 1: expected a Sentence, a string or a pair of these, got 3"):
        injected(["Two kids", 3])
    with pytest.raises(MissingStructure, match=r"sentence 0 \('Two kids'\) has none; parse the sentence"):
        inject(tiny("bert"), ["dependency"] * 4, tokenizer=minilm_tokenizer())(["Two kids"])


def test_classifiers_take_labels_and_alphas_are_learnt():
    import transformers as hf

    torch.manual_seed(0)
    config = tiny("bert").config
    model = hf.BertForSequenceClassification(config)
    injected = inject(model, ["word"] * 4, alpha=0.5, learnable_alpha=True, tokenizer=minilm_tokenizer())
    loss = injected([BALLGAME, SHORT], labels=torch.tensor([0, 1])).loss
    loss.backward()
    (alpha,) = injected.prior.parameters()
    assert alpha.grad is not None
    assert alpha.grad.abs().min() > 0


@pytest.mark.parametrize("names", [NAMES, ["dependency_table", "forward/table", "path_table", "dependency_table"]])
def test_save_and_load(tmp_path, names):
    subwords = subwords_of(BALLGAME)
    injected = inject(tiny("bert"), names, layers=[1], alpha=1.5, learnable_alpha=True)
    with torch.no_grad():
        before = states_of(injected, subwords)
        for parameter in injected.prior.parameters():
            torch.nn.init.uniform_(parameter, 0.5, 2.0)
    assert not torch.equal(states_of(injected, subwords), before)
    injected.save_pretrained(tmp_path / "injected")
    again = load_injection(tiny("bert"), tmp_path / "injected")
    assert again.layers == (1,)
    torch.testing.assert_close(states_of(again, subwords), states_of(injected, subwords), rtol=0, atol=0)
    with pytest.raises(ConfigError, match="with model_type 'bert', this one has 'electra'"):
        load_injection(tiny("electra"), tmp_path / "injected")
    with pytest.raises(ConfigError, match="with num_heads 4, this one has 2"):
        load_injection(tiny("bert", num_attention_heads=2), tmp_path / "injected")
    (tmp_path / "injected" / "adapter_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ParseError, match=r"adapter_config\.json: expected a JSON object"):
        load_injection(tiny("bert"), tmp_path / "injected")
    with pytest.raises(ConfigError, match="only priors given by name"):
        inject(tiny("bert"), WordDistance()).save_pretrained(tmp_path / "objects")


@pytest.mark.parametrize("kind", ["deberta-v2", "t5"])
def test_models_that_cannot_take_a_bias_are_refused(kind):
    with pytest.raises(ConfigError, match=f"model of type '{kind}'.*known: bert, roberta"):
        inject(tiny(kind, implementation="eager"), ["none"] * 4)


def test_the_self_test_finds_a_bias_that_is_lost(monkeypatch):
    """An attention that ignores its mask, as some do with a keyword they do not know."""
    model = tiny("bert")
    name, module = attention_modules(model)[0]
    forward = type(module).forward

    def deaf(self, hidden_states, attention_mask=None, **inputs):
        return forward(self, hidden_states, attention_mask=None, **inputs)

    monkeypatch.setattr(type(module), "forward", deaf)
    with pytest.raises(ConfigError, match="did not reach the scores of layer 0 of BertModel"):
        inject(model, NAMES)
    assert not module._forward_pre_hooks
    assert name.endswith("attention.self")


def test_traps_of_transformers(caplog):
    """What injection must not rely on; if one of these changes, its way can be reconsidered."""
    from transformers import AttentionInterface
    from transformers.models.bert import modeling_bert

    eager = inspect.signature(modeling_bert.eager_attention_forward).parameters
    assert "position_bias" not in eager  # it would vanish in **kwargs
    model, subwords = tiny("bert"), subwords_of(BALLGAME, SHORT)
    inputs = {"input_ids": subwords.ids, "attention_mask": subwords.mask.long()}
    silent = model(**inputs, output_attentions=True).attentions
    assert silent is None or all(weights is None for weights in silent)  # sdpa has none to return
    injected = inject(model, NAMES)
    with caplog.at_level(logging.INFO, logger="structattn.backbones"):
        weights = injected.subword_weights(subwords)
    assert "running eager instead of sdpa" in caplog.text
    assert injected.implementation == "sdpa"
    torch.testing.assert_close(
        sum(w.sum(-1)[subwords.mask[:, None].expand(2, 4, -1)].mean() for w in weights.values()) / 2, torch.tensor(1.0)
    )
    # A registered attention function without a mask function is handed no mask at all.
    seen = []

    def watching(module, query, key, value, attention_mask, **options):
        seen.append(attention_mask)
        return modeling_bert.eager_attention_forward(module, query, key, value, attention_mask, **options)

    AttentionInterface.register("watching", watching)
    watched = tiny("bert")
    watched.set_attn_implementation("watching")
    watched(**inputs)
    assert seen == [None, None]
    with pytest.raises(ConfigError, match="expected one of eager, sdpa, got 'watching'"):
        inject(watched, NAMES)


def test_attention_maps_of_an_injected_model_show_subwords(caplog):
    injected = inject(tiny("bert"), NAMES, layers=[1], tokenizer=minilm_tokenizer())
    with caplog.at_level(logging.INFO, logger="structattn.backbones"):
        (first,) = sa.inspection.attention_maps(injected, BALLGAME)
        (second,) = sa.inspection.attention_maps(injected, [(SHORT, SHORT)])
    assert "running eager instead of sdpa" in caplog.text
    assert first.rows[:4] == ("[CLS]", "two", "kids", "at")
    assert second.rows == ("[CLS]", "kids", "wash", "[SEP]", "kids", "wash", "[SEP]")
    assert first.head_names[0] == "forward · word 1"
    torch.testing.assert_close(first.weights.sum(-1), torch.ones(4, len(first.rows)))
    assert first.weights[0, 1, 2] == 0  # "two" does not see "kids" looking forward, which is to the words before
    assert (first.sentence, second.sentence) == (BALLGAME, None)
    assert first.of_words().rows == BALLGAME.words
    recall = sa.inspection.head_recall(first.of_words(), BALLGAME.dependency.heads)
    _, *rows = sa.inspection.summarise([first, second])
    assert [row[5] for row in rows] == [f"{100 * share:.0f}%" for share in recall.tolist()]


def test_bad_input():
    model = tiny("bert")
    with pytest.raises(ConfigError, match="one for each of the model's 4 heads, got 3"):
        inject(model, ["none"] * 3)
    with pytest.raises(ConfigError, match="one for each of the model's 4 heads, got 2"):
        inject(model, PerHead([None, WordDistance()]))
    with pytest.raises(ConfigError, match=r"layers: expected some of 0 to 1, got \[2\]"):
        inject(model, ["none"] * 4, layers=[2])
    with pytest.raises(ConfigError, match=r"layers: expected some of 0 to 1, got \[\]"):
        inject(model, ["none"] * 4, layers=[])
    with pytest.raises(ConfigError, match="names only or objects only"):
        inject(model, ["none", WordDistance(), None, None])
    with pytest.raises(ConfigError, match="without a tokenizer"):
        inject(model, ["none"] * 4)([SHORT])
    with pytest.raises(MissingStructure, match="needs dependency of every sentence"):
        inject(tiny("bert"), ["dependency"] * 4)(subwords_of(sa.Sentence(["hush"])))


def test_a_subword_with_nothing_to_look_at_is_an_error():
    subwords = subwords_of(sa.Sentence(["hush"]))
    bare = sa.data.SubwordBatch(
        subwords.ids[:, 1:2],
        subwords.mask[:, 1:2],
        subwords.words[:, 1:2],
        subwords.is_word[:, 1:2],
        subwords.segments[:, 1:2],
        subwords.word_mask,
        subwords.is_cut,
        subwords.sentences,
    )
    injected = inject(tiny("bert"), NotSelf())
    injected(subwords)
    with pytest.raises(ValueError, match="leaves a subword of text 0 without a key"):
        injected(bare)
