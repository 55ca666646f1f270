"""Backbones as embedders: subwords and words, encoders on a backbone, and trained models that come back without it."""

import itertools
import json
import logging
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import structattn as sa
from backbones import KINDS, minilm_tokenizer, save_tiny, tiny
from small_models import sentence_model
from structattn.backbones import (
    BackboneEmbedding,
    HydraConfig,
    PretrainedBackbone,
    add_heads,
    load_backbone,
    pool_words,
)
from structattn.backbones.backbone import max_input_length
from structattn.cli import main
from structattn.data import SubwordBatch, collate_subwords
from structattn.data.generated import agreement_treebank
from structattn.data.subword_batch import choose_text
from structattn.encoders import BUILDERS, build
from structattn.encoders.encoder_table import needs_backbone
from structattn.errors import ConfigError, ParseError
from structattn.syntax import write_conllu

TEXTS = [
    (
        "Don't wash the hippopotami's hands, Dr. Naïve!",
        ["Do", "n't", "wash", "the", "hippopotami", "'s", "hands", ",", "Dr.", "Naïve", "!"],
    ),
    ("It  costs  $3.50\tin Zürich … (really)", ["It", "costs", "$", "3.50", "in", "Zürich", "…", "(", "really", ")"]),
    ("I'm gonna go", ["I", "'m", "gon", "na", "go"]),
    ("日本語 and \U0001f600 work", ["日本語", "and", "\U0001f600", "work"]),
]
SENTENCES = [sa.Sentence(words, metadata={"text": text}) for text, words in TEXTS]
CORPUS = [text for text, _ in TEXTS] * 4 + ["the kids wash their hands", "a dog barks at the ballgame"] * 8
TREES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=2), 8)]


def trained_tokenizer(kind: str) -> Any:
    """A byte-level BPE tokenizer that counts the space before a word to it, or a unigram one with its own mark."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "</s>", "<unk>", "<pad>"]
    if kind == "bpe":
        inner = Tokenizer(models.BPE(unk_token="<unk>"))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False)
        inner.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        inner = Tokenizer(models.Unigram())
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>", show_progress=False)
    inner.train_from_iterator(CORPUS, trainer)
    if kind == "unigram":
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", unk_token="<unk>")


TOKENIZERS = {
    "minilm": minilm_tokenizer,
    "bpe": lambda: trained_tokenizer("bpe"),
    "unigram": lambda: trained_tokenizer("unigram"),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return TOKENIZERS[request.param]()


def test_every_subword_lies_in_its_word(tokenizer):
    """Against the tokenizer's own offsets, character by character."""
    subwords = collate_subwords(SENTENCES, tokenizer)
    for row, (text, words) in enumerate(TEXTS):
        places, position = [], 0
        for word in words:
            position = text.index(word, position)
            places.append(range(position, position + len(word)))
            position += len(word)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        for column, (start, end) in enumerate(offsets):
            letters = [k for k in range(start, end) if not text[k].isspace()]
            owners = [w for k in letters for w, place in enumerate(places) if k in place]
            if not owners:
                assert not subwords.is_word[row, column]
            else:
                most = max(owners.count(word) for word in set(owners))
                whole = [w for w in dict.fromkeys(owners) if set(places[w]) <= set(letters)]
                expected = whole[0] if len(whole) > 1 else next(w for w in owners if owners.count(w) == most)
                assert subwords.words[row, column] == expected


def test_first_subwords_and_coverage(tokenizer):
    subwords = collate_subwords(SENTENCES, tokenizer)
    assert (subwords.is_first.sum(1) == subwords.has_subwords.sum(1)).all()
    word_ids = [
        [int(word) if there else None for word, there in zip(words, real, strict=True)]
        for words, real in zip(subwords.words, subwords.is_word, strict=True)
    ]
    total = sum(len({*ids} - {None}) for ids in word_ids)
    assert subwords.coverage == pytest.approx(total / sum(len(words) for _, words in TEXTS))
    assert subwords.coverage > 0.9
    for row, ids in enumerate(word_ids):
        seen: set[int | None] = {None}
        for column, word in enumerate(ids):
            assert bool(subwords.is_first[row, column]) == (word not in seen)
            seen.add(word)


def test_pairs_count_their_words_through(tokenizer):
    first, second = SENTENCES[0], SENTENCES[2]
    subwords = collate_subwords([(first, second)], tokenizer)
    alone = collate_subwords([second], tokenizer)
    assert subwords.num_words.tolist() == [len(first) + len(second)]
    of_second = subwords.words[0][subwords.is_word[0] & (subwords.words[0] >= len(first))] - len(first)
    assert of_second.tolist() == alone.words[0][alone.is_word[0]].tolist()


def test_texts_that_are_cut():
    subwords = collate_subwords(SENTENCES[:2], minilm_tokenizer(), max_length=6, truncation=True)
    assert subwords.ids.shape[1] == 6
    assert subwords.is_cut.tolist() == [True, True]
    assert 0 < subwords.coverage < 1
    with pytest.raises(ConfigError, match=r"the text .* has 19 subwords, expected at most 6"):
        collate_subwords(SENTENCES[:2], minilm_tokenizer(), max_length=6)


def test_empty_texts_and_very_long_ones():
    tokenizer = minilm_tokenizer()
    subwords = collate_subwords([sa.Sentence([]), sa.Sentence(["kids"])], tokenizer)
    assert subwords.is_word.any(1).tolist() == [False, True]
    assert collate_subwords([sa.Sentence([])], tokenizer).coverage == 1.0
    long = sa.Sentence(["kids"] * 100_000)
    assert collate_subwords([long], tokenizer, max_length=512, truncation=True).ids.shape == (1, 512)


def test_text_that_the_tokenizer_normalises_keeps_its_words():
    decomposed = unicodedata.normalize("NFD", "Zürich naïve")
    subwords = collate_subwords([sa.Sentence(decomposed.split(" "))], minilm_tokenizer())
    assert subwords.has_subwords.all()


def test_a_slow_tokenizer_is_refused():
    from transformers import CanineTokenizer

    slow = CanineTokenizer()
    with pytest.raises(ConfigError, match=r"expected a fast tokenizer, .* got CanineTokenizer"):
        collate_subwords(SENTENCES, slow)
    with pytest.raises(ConfigError, match="expected a fast tokenizer"):
        PretrainedBackbone(tiny("bert"), slow)


def test_bad_texts():
    with pytest.raises(ValueError, match=r"got sizes \[1, 2\]"):
        collate_subwords([SENTENCES[0], (SENTENCES[0], SENTENCES[1])], minilm_tokenizer())
    with pytest.raises(ValueError, match=r"got sizes \[\]"):
        collate_subwords([], minilm_tokenizer())


# Backbones.


def random_subwords() -> tuple[SubwordBatch, torch.Tensor]:
    subwords = collate_subwords(SENTENCES, minilm_tokenizer())
    return subwords, torch.randn(*subwords.ids.shape, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_states_of_words_against_a_loop(pooling):
    subwords, states = random_subwords()
    found = pool_words(states, subwords, pooling=pooling)
    for row, word in itertools.product(range(len(subwords)), range(found.shape[1])):
        own = states[row][subwords.is_word[row] & (subwords.words[row] == word)]
        expected = torch.zeros(3) if not len(own) else own[0] if pooling == "first" else own.mean(0)
        torch.testing.assert_close(found[row, word], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    embedding = BackboneEmbedding(PretrainedBackbone(tiny(kind), minilm_tokenizer()), pooling="mean").eval()
    together = embedding(sa.collate(SENTENCES, sa.Vocabulary([])))
    for row, sentence in enumerate(SENTENCES):
        alone = embedding(sa.collate([sentence], sa.Vocabulary([])))
        torch.testing.assert_close(together[row, : len(sentence)], alone[0], atol=2e-6, rtol=1e-5)
        assert not together[row, len(sentence) :].any()


def test_a_frozen_backbone_has_no_gradients_and_stays_in_evaluation_mode():
    backbone = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True).train()
    assert backbone.training
    assert not backbone.model.training
    assert not backbone(backbone.tokenize(SENTENCES)).requires_grad
    free = PretrainedBackbone(tiny("bert"), minilm_tokenizer()).train()
    assert free.model.training
    assert free(free.tokenize(SENTENCES)).requires_grad


def test_kept_states_are_those_that_are_read_again():
    backbone = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True, keep_states=True)
    plain = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True)
    calls = []
    with backbone.model.register_forward_hook(lambda *call: calls.append(1)):
        for texts in (SENTENCES[:3], SENTENCES[1:3], SENTENCES[2:], [(SENTENCES[0], SENTENCES[2])]):
            subwords = backbone.tokenize(texts)
            torch.testing.assert_close(backbone(subwords), plain(subwords), atol=2e-6, rtol=1e-5)
    assert len(calls) == 3  # the second batch had been read before
    with pytest.raises(ConfigError, match="keep_states requires is_frozen=True"):
        PretrainedBackbone(tiny("bert"), minilm_tokenizer(), keep_states=True)


def test_inner_layers():
    backbone = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), layer=1).eval()
    subwords = backbone.tokenize(SENTENCES[:1])
    expected = backbone.model(**backbone.inputs(subwords), output_hidden_states=True).hidden_states[1]
    torch.testing.assert_close(backbone(subwords), expected)
    with pytest.raises(ConfigError, match="layer: expected -3 to 2 for this backbone, got 7"):
        PretrainedBackbone(tiny("bert"), minilm_tokenizer(), layer=7)


def test_longest_texts():
    assert max_input_length(tiny("bert"), minilm_tokenizer()) == 64
    assert max_input_length(tiny("roberta"), minilm_tokenizer()) == 62
    backbone = PretrainedBackbone(tiny("roberta"), minilm_tokenizer())
    backbone(backbone.tokenize([sa.Sentence(["kids"] * 60)]))
    with pytest.raises(
        ValueError,
        match=r"'kids kids .*' \.\.\. has 63 subwords, expected at most 62, .*; .* --data\.max_length",
    ):
        backbone.tokenize([sa.Sentence(["kids"] * 61)])


def test_folders_that_hold_no_backbone(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        load_backbone(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "sundial-clock"}', encoding="utf-8")
    with pytest.raises(ParseError, match=r"config\.json: expected the configuration of a model"):
        load_backbone(tmp_path)
    with pytest.raises(ConfigError, match="which has a decoder too"):
        PretrainedBackbone(tiny("t5", implementation="eager"), minilm_tokenizer())
    tiny("bert").save_pretrained(tmp_path / "slow")
    slow = {"tokenizer_class": "BertJapaneseTokenizer"}  # whose vocabulary is missing: transformers raises a TypeError
    (tmp_path / "slow" / "tokenizer_config.json").write_text(json.dumps(slow), encoding="utf-8")
    with pytest.raises(ConfigError, match="has no tokenizer"):
        load_backbone(tmp_path / "slow")


# Encoders on a backbone.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("backbones")
    save_tiny(place / "backbone")
    torch.manual_seed(3)
    add_heads(tiny("bert"), HydraConfig(num_heads=4, gate_init=0.5)).save_pretrained(place / "adapter")
    return place


ON_A_BACKBONE = ["ms_san", *sorted(filter(needs_backbone, BUILDERS))]


def options_of(name: str, folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"dropout": 0.0}
    if name == "hydra":
        options["adapter"] = str(folder / "adapter")
    if name in ("ms_san", "injected"):
        options["heads"] = ["forward/word", "dependency", "backward", "none"]
    return options


def on_backbone(name: str, folder: Path, **embedder: Any) -> dict[str, Any]:
    """The embedder and the options of an encoder."""
    return {"embedder": {**source(folder), **embedder}, **options_of(name, folder)}


def source(folder: Path) -> dict[str, Any]:
    return {"name": "backbone", "folder": str(folder / "backbone")}


@pytest.mark.parametrize("name", ON_A_BACKBONE)
def test_encoders_do_not_see_padding(name, folder):
    torch.manual_seed(0)
    encoder = build(name, **on_backbone(name, folder)).eval()
    together = encoder(sa.collate(TREES, sa.Vocabulary([]))).vector
    for row, sentence in enumerate(TREES):
        alone = encoder(sa.collate([sentence], sa.Vocabulary([]))).vector
        torch.testing.assert_close(together[row], alone[0], atol=2e-6, rtol=1e-5)
    assert together.shape[1] == encoder.output_dim


def test_ms_san_on_a_backbone_keeps_cls_and_counts():
    """The encoder has ``10 D^2 + 5 D``, pooling ``2 D^2 + 2 D`` parameters; ``r = [r_att ; h_CLS]``."""
    dim, tiny_backbone = 24, tiny("bert", hidden_size=24)
    source = PretrainedBackbone(tiny_backbone, minilm_tokenizer())
    encoder = sa.encoders.ms_san(BackboneEmbedding(source), dropout=0.0).eval()
    own = sum(p.numel() for p in encoder.parameters()) - sum(p.numel() for p in tiny_backbone.parameters())
    assert own == 12 * dim**2 + 7 * dim
    batch = sa.collate(TREES, sa.Vocabulary([]))
    vector = encoder(batch).vector
    assert vector.shape == (len(TREES), 2 * dim)
    first = source(source.tokenize(TREES))[:, 0]
    torch.testing.assert_close(vector[:, dim:], first)
    beside_max = sa.encoders.ms_san(BackboneEmbedding(source), pooler="att_max", dropout=0.0).eval()
    assert sum(p.numel() for p in beside_max.parameters()) == sum(p.numel() for p in encoder.parameters())
    encoding = beside_max(batch)
    largest = encoding.states.masked_fill(~encoding.mask[..., None], -torch.inf).amax(1)
    torch.testing.assert_close(encoding.vector[:, dim:], largest)


def test_dropout_of_ms_san_spares_cls():
    source = PretrainedBackbone(tiny("bert", hidden_size=24), minilm_tokenizer())
    encoder = sa.encoders.ms_san(BackboneEmbedding(source), dropout=0.5)
    batch = sa.collate(TREES, sa.Vocabulary([]))
    encoder.train().embedder.backbone.eval()
    first, second = encoder(batch).vector, encoder(batch).vector
    assert torch.equal(first[:, 24:], second[:, 24:])
    assert not torch.equal(first[:, :24], second[:, :24])


def test_hydra_as_an_encoder_is_the_hydra_model(folder):
    encoder = build("hydra", **on_backbone("hydra", folder)).eval()
    model = add_heads(tiny("bert"), folder / "adapter").eval()
    subwords = collate_subwords(TREES, minilm_tokenizer())
    # The gate and the output map were not saved, as they had not been trained.
    assert model.untrained_parts() >= {"gate", "output.weight", "output.bias"}
    model.hydra.load_state_dict(encoder.embedder.reader.layer.state_dict())
    states = model(subwords.ids, subwords.mask.long(), token_type_ids=subwords.segments).last_hidden_state
    torch.testing.assert_close(encoder(sa.collate(TREES, sa.Vocabulary([]))).vector, states[:, 0])


def test_the_controls_of_hydra(folder):
    options = on_backbone("hydra", folder)
    trained, again = (build("hydra", **options).embedder.reader.layer.heads for _ in range(2))
    random = build("hydra", **options, heads="random").embedder.reader.layer.heads
    assert torch.equal(trained.query.weight, again.query.weight)
    assert not torch.equal(trained.query.weight, random.query.weight)
    frozen = build("hydra", **options, frozen_heads=True).embedder
    assert not any(parameter.requires_grad for parameter in frozen.reader.layer.heads.parameters())
    assert all(parameter.requires_grad for parameter in frozen.backbone.parameters())
    frozen = build("hydra", **on_backbone("hydra", folder, is_frozen=True)).embedder
    assert not any(parameter.requires_grad for parameter in frozen.backbone.parameters())
    assert all(parameter.requires_grad for parameter in frozen.reader.layer.parameters())


@pytest.mark.parametrize("name", ["backbone", "ms_san", "hydra", "sgnet"])
def test_encoders_that_keep_states_answer_the_same(name, folder):
    batch = sa.collate(TREES, sa.Vocabulary([]))
    torch.manual_seed(0)
    expected = build(name, **on_backbone(name, folder, is_frozen=True)).eval()(batch).vector
    torch.manual_seed(0)
    encoder = build(name, **on_backbone(name, folder, is_frozen=True, keep_states=True)).eval()
    for _ in range(2):
        torch.testing.assert_close(encoder(batch).vector, expected, atol=2e-6, rtol=1e-5)
    assert len(encoder.embedder.backbone.cached_states) == len({sentence.words for sentence in TREES})


def test_kept_states_are_those_of_the_numbers_and_parameters_at_hand():
    kept = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True, keep_states=True)
    subwords = kept.tokenize(SENTENCES)

    def check():
        fresh = PretrainedBackbone(kept.model, kept.tokenizer, is_frozen=True)
        for _ in range(2):
            found, expected = kept(subwords), fresh(subwords)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)
        return found

    with torch.autocast("cpu", torch.bfloat16):
        rough = check()
    before = check()
    assert not torch.equal(rough, before)
    torch.nn.Sequential(kept).double()
    check()
    kept.bfloat16().float()
    assert not torch.equal(check(), before)
    torch.nn.Sequential(kept).load_state_dict({f"0.{name}": one * 2 for name, one in kept.state_dict().items()})
    before = check()
    with torch.no_grad():
        next(kept.model.parameters()).mul_(2)
    assert not torch.equal(check(), before)


def test_pairs_are_read_as_one_text(folder):
    encoder = build("backbone", **on_backbone("backbone", folder)).eval()
    first, second = (sa.collate(side, sa.Vocabulary([])) for side in (TREES[:4], TREES[4:]))
    subwords = collate_subwords(list(zip(TREES[:4], TREES[4:], strict=True)), minilm_tokenizer())
    assert set(subwords.segments.unique().tolist()) == {0, 1}
    expected = tiny("bert")(
        input_ids=subwords.ids, attention_mask=subwords.mask.long(), token_type_ids=subwords.segments
    ).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder(first, second).vector, expected, atol=2e-6, rtol=1e-5)


def test_mistakes_in_options(folder):
    for name, message in (
        ("backbone", "needs the folder of a Hugging Face encoder"),
        ("hydra", "needs the folder of a Hugging Face encoder"),
    ):
        with pytest.raises(ConfigError, match=message):
            build(name, vocab_size=2)
    with pytest.raises(ConfigError, match="hydra pretrain wrote"):
        build("hydra", embedder=source(folder))
    with pytest.raises(ConfigError, match="multiple of the number of heads, got dim=16 for 6 heads"):
        build("ms_san", embedder=source(folder))
    with pytest.raises((ConfigError, TypeError), match=r"'trained'.*'random'"):
        build("hydra", **on_backbone("hydra", folder), heads="some")
    for name in ("hydra", "injected"):
        with pytest.raises(ConfigError, match="embedder: expected layer -1, the last one, got 0"):
            build(name, **on_backbone(name, folder, layer=0))


@pytest.mark.parametrize("name", ON_A_BACKBONE)
def test_a_trained_model_needs_neither_backbone_nor_adapter(name, folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "parts")
    labels = ("no", "yes")
    task = sa.tasks.Task("t", labels=labels)
    parts = {"options": options_of(name, tmp_path / "parts"), "embedder": source(tmp_path / "parts")}
    model = sentence_model(name, task, vocabulary=sa.Vocabulary([]), **parts)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    model.eval().save_pretrained(tmp_path / "model")
    before = model.predict(TREES)
    shutil.rmtree(tmp_path / "parts")
    (tmp_path / "model").rename(tmp_path / "moved")
    again = sa.load(tmp_path / "moved")
    after = again.predict(TREES)
    for one, other in zip(before, after, strict=True):
        assert one.probabilities["yes"] == pytest.approx(other.probabilities["yes"], abs=1e-6)
    again.save_pretrained(tmp_path / "again")
    names = [set(safetensors.torch.load_file(tmp_path / at / "model.safetensors")) for at in ("moved", "again")]
    assert names[0] == names[1]


def test_an_encoder_over_a_backbone_in_memory_is_saved_and_read(tmp_path):
    memory = PretrainedBackbone(tiny("bert"), minilm_tokenizer(), is_frozen=True)
    encoder = build("ms_san", embedder=BackboneEmbedding(memory, pooling="mean"), heads=["word", "none"]).eval()
    encoder.save_pretrained(tmp_path / "encoder")
    again = sa.load(tmp_path / "encoder")
    batch = sa.collate(TREES, sa.Vocabulary([]))
    assert torch.equal(again(batch).vector, encoder(batch).vector)
    assert again.config["embedder"] == {
        **encoder.config["embedder"],
        "folder": str(tmp_path / "encoder" / "backbone"),
    }
    assert not any(parameter.requires_grad for parameter in again.embedder.backbone.parameters())
    task = sa.tasks.Task("t", labels=("no", "yes"))
    model = sa.tasks.SentenceModel(encoder, task, vocabulary=sa.Vocabulary([])).eval()
    model.save_pretrained(tmp_path / "model")
    assert sa.load(tmp_path / "model").predict(TREES) == model.predict(TREES)


@pytest.mark.parametrize("name", ON_A_BACKBONE)
def test_transformers_finds_the_backbone_in_the_folder_of_a_trained_model(name, folder, tmp_path, monkeypatch):
    from transformers import AutoModelForSequenceClassification

    task = sa.tasks.Task("t", labels=("no", "yes"))
    parts = {"options": options_of(name, folder), "embedder": source(folder)}
    model = sentence_model(name, task, vocabulary=sa.Vocabulary([]), **parts).eval()
    model.save_pretrained(tmp_path / "model")
    import structattn.training.hugging_face  # noqa: F401

    monkeypatch.chdir(tmp_path)  # where a relative "backbone" would be looked for
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    for one, other in zip(model.predict(TREES), again.predict(TREES), strict=True):
        assert one.probabilities["yes"] == pytest.approx(other.probabilities["yes"], abs=1e-6)
    again.save_pretrained(tmp_path / "again")
    saved = sa.load(tmp_path / "again")
    assert saved.predict(TREES)[0].probabilities == pytest.approx(again.predict(TREES)[0].probabilities, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ["--encoder", "hydra", "--adapter", "{folder}/adapter", "--classifier.combine", "together"],
        ["--encoder", "ms_san", "--options.heads", "[forward, word]", "--embedder.pooling", "mean"],
    ],
    ids=lambda options: options[1],
)
def test_training_from_the_command_line(options, folder, tmp_path, capsys, caplog):
    rows = [("kids wash", "dogs bark", "entailment"), ("kids wash", "kids sit", "not_entailment")] * 4
    lines = ["index\tsentence1\tsentence2\tlabel"]
    lines += [f"{number}\t" + "\t".join(row) for number, row in enumerate(rows)]
    (tmp_path / "rte.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["train", "--task", "rte", "--backbone", str(folder / "backbone"), "--device", "cpu"]
    words += [word.format(folder=folder) for word in options]
    words += ["--data.train", str(tmp_path / "rte.tsv"), "--data.dev", str(tmp_path / "rte.tsv")]
    words += ["--optimization.epochs", "1", "--out", str(tmp_path / "run")]
    with caplog.at_level(logging.ERROR):
        assert main(words) == 0
        assert main(["eval", str(tmp_path / "run"), "--data", str(tmp_path / "rte.tsv"), "--json"]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_treebanks_are_read_as_the_text_they_came_from(tmp_path):
    tree = sa.DependencyTree([0, 1])
    write_conllu(tmp_path / "t.conllu", [sa.Sentence(["Do", "n't"], dependency=tree, metadata={"text": "Don't"})])
    (sentence,) = sa.read_conllu(tmp_path / "t.conllu")
    assert choose_text(sentence) == "Don't"
