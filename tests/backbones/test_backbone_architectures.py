"""Backbones of many architectures: what is read of each agrees with what the model itself does."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

import structattn as sa
from backbones import opened
from structattn.backbones import BackboneEmbedding, HydraConfig, PretrainedBackbone, add_heads, load_backbone
from structattn.backbones.backbone import has_text_at_end, reads_leftwards, takes_token_types
from structattn.backbones.backbone_embedding import text_state
from structattn.encoders import build
from structattn.errors import ConfigError

WORDS = ["[PAD]", "[UNK]", "kids", "wash", "their", "dirty", "hands", "dogs", "bark", "hush"]
TREES = [
    sa.Sentence(["kids", "wash", "their", "hands"], dependency=sa.DependencyTree([2, 0, 4, 2])),
    sa.Sentence(["kids", "bark"], dependency=sa.DependencyTree([2, 0])),
    sa.Sentence(["hush"], dependency=sa.DependencyTree([0])),
]
PAIRS = [(TREES[0], TREES[1]), (TREES[1], TREES[2])]

_SIZE = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
_INNER = {**_SIZE, "intermediate_size": 32}
_BERT = {**_INNER, "max_position_embeddings": 34}
_BEHIND = {**_BERT, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 1}
ENCODERS: Mapping[str, Callable[[], Any]] = {
    "bert": lambda: hf.BertConfig(**_BERT),
    "roberta": lambda: hf.RobertaConfig(**_BEHIND, type_vocab_size=2),
    "electra": lambda: hf.ElectraConfig(**_BERT, embedding_size=8),
    "distilbert": lambda: hf.DistilBertConfig(
        vocab_size=len(WORDS), dim=16, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=34
    ),
    "llama that reads both ways": lambda: hf.LlamaConfig(**_BERT, is_causal=False),
    "modernbert": lambda: hf.ModernBertConfig(
        **_BERT, **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    ),
    "deberta-v2": lambda: hf.DebertaV2Config(**_BERT, type_vocab_size=2),
    "albert": lambda: hf.AlbertConfig(**_BERT, embedding_size=8),
    "mpnet": lambda: hf.MPNetConfig(**_BEHIND),
    "xlm": lambda: hf.XLMConfig(vocab_size=len(WORDS), emb_dim=16, n_layers=2, n_heads=4, pad_index=0),
}
_KEYS = {**_BERT, "num_key_value_heads": 2}
DECODERS: Mapping[str, Callable[[], Any]] = {
    "gpt2": lambda: hf.GPT2Config(vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=4, n_positions=34),
    "gpt-neo": lambda: hf.GPTNeoConfig(
        vocab_size=len(WORDS), hidden_size=16, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
    ),
    "openai-gpt": lambda: hf.OpenAIGPTConfig(vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=4, n_positions=34),
    "bloom": lambda: hf.BloomConfig(vocab_size=len(WORDS), hidden_size=16, n_layer=2, n_head=4),
    "llama": lambda: hf.LlamaConfig(**_BERT),
    "bert as a decoder": lambda: hf.BertConfig(**_BERT, is_decoder=True),
    "roformer as a decoder": lambda: hf.RoFormerConfig(**_BERT, is_decoder=True),
    "megatron as a decoder": lambda: hf.MegatronBertConfig(**_BERT, is_decoder=True),
    "causal xlm": lambda: hf.XLMConfig(
        vocab_size=len(WORDS), emb_dim=16, n_layers=2, n_heads=4, pad_index=0, causal=True
    ),
    "mistral": lambda: hf.MistralConfig(**_KEYS),
    "qwen2": lambda: hf.Qwen2Config(**_KEYS),
    "gemma": lambda: hf.GemmaConfig(**_KEYS, head_dim=4),
    "gpt-neox": lambda: hf.GPTNeoXConfig(**_BERT),
    "opt": lambda: hf.OPTConfig(**_SIZE, ffn_dim=16, word_embed_proj_dim=16, max_position_embeddings=34),
    "phi": lambda: hf.PhiConfig(**_BERT),
    "falcon": lambda: hf.FalconConfig(**_SIZE),
    "ctrl": lambda: hf.CTRLConfig(vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=4, dff=16, n_positions=34),
}
BEHIND_PADDING: Mapping[str, Callable[[], Any]] = {
    "roberta": lambda: hf.RobertaConfig(**_BEHIND),
    "roberta-prelayernorm": lambda: hf.RobertaPreLayerNormConfig(**_BEHIND),
    "data2vec": lambda: hf.Data2VecTextConfig(**_BEHIND),
    "ibert": lambda: hf.IBertConfig(**_BEHIND),
    "luke": lambda: hf.LukeConfig(**_BEHIND, entity_vocab_size=3, entity_emb_size=4),
    "mpnet": lambda: hf.MPNetConfig(**_BEHIND),
}


@cache
def tokenizer() -> Any:
    """Words, with nothing before, between or behind them."""
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return hf.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]")


def model_of(config: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return hf.AutoModel.from_config(config).eval()


def xlnet() -> Any:
    return model_of(hf.XLNetConfig(vocab_size=len(WORDS), d_model=16, n_layer=2, n_head=4, d_inner=32))


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_states_are_those_of_a_plain_call(name):
    """Token types of zero change nothing: where they would, as in GPT-2, they are left out."""
    model = model_of({**ENCODERS, **DECODERS}[name]())
    backbone = PretrainedBackbone(model, tokenizer())
    subwords = backbone.tokenize(TREES)
    plain = model(input_ids=subwords.ids, attention_mask=subwords.mask.long()).last_hidden_state
    real = subwords.mask[..., None]
    torch.testing.assert_close(backbone(subwords), plain * real)


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_token_types_are_passed_to_models_with_a_table_of_them(name):
    model = model_of({**ENCODERS, **DECODERS}[name]())
    has_table = hasattr(getattr(model, "embeddings", None), "token_type_embeddings")
    assert takes_token_types(model) == has_table
    backbone = PretrainedBackbone(model, tokenizer())
    assert ("token_type_ids" in backbone.inputs(backbone.tokenize(PAIRS))) == has_table
    assert takes_token_types(xlnet())


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_a_decoder_is_known_by_its_first_token_which_reads_no_other(name):
    model = model_of({**ENCODERS, **DECODERS}[name]())
    one, other = (model(input_ids=torch.tensor([[2, 3, last]])).last_hidden_state[0, 0] for last in (4, 5))
    assert torch.equal(one, other) == has_text_at_end(model) == reads_leftwards(model) == (name in DECODERS)
    assert not reads_leftwards(xlnet())
    assert has_text_at_end(xlnet())  # as its [CLS] is the last token


@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_heads_read_later_tokens_where_their_backbone_does(name, layer):
    """Nothing that comes after a token of a decoder moves its state, by not one bit."""
    model = model_of({**ENCODERS, **DECODERS}[name]())
    if name == "albert" and layer != -1:
        pytest.skip("shares one layer")
    heads = opened(add_heads(model, HydraConfig(num_heads=4, layer=layer)).eval())
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]])  # padding on either side
    ids = torch.tensor([[2, 3, 4, 5, 0], [0, 2, 3, 4, 5]])
    for row, last in ((0, 3), (1, 4)):
        changed = ids.clone()
        changed[row, last] = 7
        first, second = (
            heads(tokens, mask).last_hidden_state[row, :last][mask[row, :last] == 1] for tokens in (ids, changed)
        )
        assert torch.equal(first, second) == (name in DECODERS)
    plain = model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert (heads(ids, mask).last_hidden_state - plain)[mask == 1].abs().max() > 1e-5


@pytest.mark.parametrize("name", DECODERS)
def test_a_guided_layer_reads_no_later_token_of_a_decoder(name):
    """Though the trees are known in advance, as in SG-Net."""
    backbone = PretrainedBackbone(model_of(DECODERS[name]()), tokenizer())
    reader = build("sgnet", embedder=BackboneEmbedding(backbone), relation="span").eval().embedder.reader
    tree = sa.DependencyTree([2, 0, 4, 2])
    texts = [sa.Sentence(["kids", "wash", "their", last], dependency=tree) for last in ("hands", "dogs")]
    states = [reader(backbone, reader.prepare(backbone.tokenize([text]))) for text in texts]
    assert torch.equal(states[0][:, :3], states[1][:, :3])
    assert (states[0][:, 3] - states[1][:, 3]).abs().max() > 1e-3


@pytest.mark.parametrize("reader", ["ForCausalLM", "ForSequenceClassification", "ForTokenClassification"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_a_head_that_is_left_out_is_named(name, reader):
    config = {**ENCODERS, **DECODERS}[name]()
    whole = getattr(
        hf, f"AutoModel{reader.replace('CausalLM', 'MaskedLM' if name == 'bert' else 'CausalLM')}"
    ).from_config(config)
    parts = [
        part for part, module in whole.named_children() if module is not whole.base_model and [*module.parameters()]
    ]
    with pytest.warns(UserWarning, match=rf"of this {type(whole).__name__}; {parts[0]} is left out") as warned:
        heads = add_heads(whole, HydraConfig(num_heads=4))
    assert len(warned) == 1
    assert warned[0].filename == __file__
    ids = torch.tensor([[2, 3]])
    bare = add_heads(whole.base_model, HydraConfig(num_heads=4)).eval()  # as the warning says, without one
    torch.testing.assert_close(heads.eval()(ids).last_hidden_state, bare(ids).last_hidden_state)
    with pytest.raises(ConfigError, match=rf"as AutoModel returns it, got {type(whole).__name__}: give .base_model"):
        PretrainedBackbone(whole, tokenizer())


def test_heads_refuse_tokens_that_they_cannot_read():
    model = model_of(DECODERS["llama"]())
    heads, ids = add_heads(model, HydraConfig(num_heads=4)).eval(), torch.tensor([[2, 3]])
    past = heads(ids, use_cache=True).past_key_values
    with pytest.raises(ConfigError, match="past_key_values: HYDRA heads read every token of a text"):
        heads(ids[:, :1], past_key_values=past)


@pytest.mark.parametrize("nodes", ["text", "words and text"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "bloom"])
def test_the_state_of_a_text_has_read_all_of_it(name, nodes):
    backbone = PretrainedBackbone(model_of({**ENCODERS, **DECODERS}[name]()), tokenizer())
    embedding = BackboneEmbedding(backbone, nodes=nodes).eval()
    batch = sa.collate([sa.Sentence(["kids", "wash"]), sa.Sentence(["kids", "bark"])], sa.Vocabulary([]))
    first, second = embedding(batch)[:, -1]
    assert not torch.equal(first, second)
    states = embedding(sa.collate(TREES, sa.Vocabulary([])))[:, -1]
    for row, sentence in enumerate(TREES):
        alone = backbone(backbone.tokenize([sentence]))[0]
        torch.testing.assert_close(states[row], alone[-1 if name in DECODERS else 0], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["backbone", "sgnet", "hydra"])
def test_sentence_vectors_of_a_decoder_differ_where_only_the_last_word_does(name, tmp_path):
    model = model_of(DECODERS["gpt2"]())
    add_heads(model, HydraConfig(num_heads=4)).save_pretrained(tmp_path)
    options = {"hydra": {"adapter": str(tmp_path)}, "sgnet": {"relation": "ancestor"}}.get(name, {})
    encoder = build(name, embedder=BackboneEmbedding(PretrainedBackbone(model, tokenizer())), **options).eval()
    tree = sa.DependencyTree([0, 1])  # whose root has no ancestor to attend to
    texts = [sa.Sentence(["kids", last], dependency=tree) for last in ("wash", "bark")]
    first, second = encoder(sa.collate(texts, sa.Vocabulary([]))).vector
    assert (first - second).abs().max() > 1e-4


def test_the_last_real_token_wherever_padding_is():
    states = torch.arange(8.0).view(2, 4, 1)
    mask = torch.tensor([[True, True, True, False], [False, False, True, True]])
    assert text_state(states, mask, at_end=True).flatten().tolist() == [2.0, 7.0]
    assert text_state(states, mask, at_end=False).flatten().tolist() == [0.0, 4.0]


@pytest.mark.parametrize("name", BEHIND_PADDING)
def test_long_texts_are_cut_to_the_positions_there_are(name):
    backbone = PretrainedBackbone(model_of(BEHIND_PADDING[name]()), tokenizer()).eval()
    assert backbone.max_length == 32
    long = backbone.tokenize([sa.Sentence(["kids"] * 60)], truncation=True)
    assert backbone(long).shape == (1, 32, 16)


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16])
def test_a_backbone_stored_in_sixteen_bits_is_read_in_float32(stored, tmp_path):
    half = model_of(ENCODERS["bert"]()).to(stored)
    half.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    model, _ = load_backbone(tmp_path)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, half.get_parameter(name).float())
    encoder = build("ms_san", embedder={"name": "backbone", "folder": str(tmp_path)}, heads=["word"]).eval()
    assert encoder(sa.collate(TREES, sa.Vocabulary([]))).vector.dtype == torch.float32
    _without_parameters(tmp_path)
    assert {parameter.dtype for parameter in load_backbone(tmp_path)[0].parameters()} == {torch.float32}


def _without_parameters(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        file.unlink()


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("layer", [0, 1])
def test_heads_inside_of_xlnet_are_refused(layer, size):
    """Also for as many texts as subwords, where no shape would tell."""
    with pytest.raises(
        ConfigError, match=r"between the layers of XLNet states are not \(batch, subword, dim\).* use -1"
    ):
        add_heads(xlnet(), HydraConfig(num_heads=4, layer=layer))(input_ids=torch.ones(size, 4, dtype=torch.long))
    on_top = add_heads(xlnet(), HydraConfig(num_heads=4)).eval()
    assert on_top(input_ids=torch.ones(size, 4, dtype=torch.long)).last_hidden_state.shape == (size, 4, 16)


def test_heads_inside_are_refused_where_states_have_another_shape():
    model = model_of(ENCODERS["bert"]())
    heads = add_heads(model, HydraConfig(num_heads=4, layer=1))
    model.encoder.layer[0].register_forward_hook(lambda _, __, states: states.transpose(0, 1))
    with pytest.raises(ConfigError, match="between the layers of BertModel states are not"):
        heads(input_ids=torch.ones(2, 4, dtype=torch.long))


@pytest.mark.parametrize("is_set_in", ["configuration", "call"])
def test_a_model_that_returns_tuples_is_read_by_name(is_set_in):
    model = model_of(ENCODERS["bert"]())
    backbone = PretrainedBackbone(model, tokenizer()).eval()
    subwords = backbone.tokenize(TREES)
    expected = backbone(subwords)
    inputs = {"input_ids": subwords.ids, "attention_mask": subwords.mask.long()}
    for layer in (-1, 1):
        heads = add_heads(model, HydraConfig(num_heads=4, layer=layer)).eval()
        named = heads(**inputs, output_hydra_scores=True)
        states, _ = heads.backbone_states(**inputs)
        model.config.return_dict = is_set_in == "call"
        asked = {"return_dict": False} if is_set_in == "call" else {}
        found = heads(**inputs, **asked, output_hydra_scores=True)
        assert isinstance(found, tuple)
        for one, other in zip(found, named.to_tuple(), strict=True):
            torch.testing.assert_close(one, other)
        maps = BackboneEmbedding(backbone, nodes="text").attention_maps([(tree,) for tree in TREES])
        assert len(maps) == len(TREES)
        torch.testing.assert_close(heads.backbone_states(**inputs, **asked)[0], states)
        torch.testing.assert_close(backbone(subwords), expected)
        model.config.return_dict = True
