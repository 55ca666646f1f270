"""Priors in decoders: no state depends on a later word, and cached steps are those of a whole text."""

import functools

import pytest
import torch

import structattn as sa
from backbones import DECODERS, WINDOW, checkpoint_activations, decoder_tokenizer, minilm_tokenizer, tiny, tiny_decoder
from structattn.backbones import PretrainedBackbone, inject, load_injection
from structattn.backbones.generation import pad_left, word_starts
from structattn.data import collate_subwords
from structattn.errors import ConfigError, MissingStructure
from structattn.priors import (
    Backward,
    ConstituencyDistance,
    DependencyDistance,
    Forward,
    LearntTable,
    NotSelf,
    PerHead,
    Relation,
    Subtree,
    WordDistance,
)

WORDS = ["the", "dog", "near", "trees", "barks", "near", "the", "kids", "wash"]
HEADS = [2, 5, 4, 2, 0, 5, 8, 6, 5]
OTHER = [2, 3, 0, 3, 4, 5, 6, 7, 8]
NAMES = ["forward/word", "word", "none", "backward"]


def random_table(of="word"):
    table = LearntTable(4, of, clip=4)
    torch.nn.init.normal_(table.table, generator=torch.Generator().manual_seed(0))
    return table


# Every class of priors; a prior of the whole text must not get into a decoder.
PRIORS = [Forward(), Backward(), NotSelf(), WordDistance(), Forward() + 0.5 * WordDistance(), -2.0 * WordDistance()]
READERS = [DependencyDistance(), ConstituencyDistance(), Relation("head"), WordDistance() + 2 * DependencyDistance()]
PRIORS += [random_table()]
READERS += [random_table(of) for of in ("dependency", "constituency", "path")]


class FirstWords(sa.priors.Prior):
    """Prefers words that begin like the query: it reads the query and the key, and no later word."""

    name = "letter"
    scope = "earlier"

    def forward(self, batch):
        size = batch.tokens.shape[1]
        bias = torch.zeros(len(batch.sentences), 1, size, size)
        for row, sentence in enumerate(batch.sentences):
            for query, word in enumerate(sentence.words):
                bias[row, 0, query, : query + 1] = torch.tensor(
                    [2.0 * (key[:1] == word[:1]) for key in sentence.words[: query + 1]]
                )
        return sa.priors.AttentionBias(None, bias)


def decoder(kind, priors=NAMES, **options):
    settings = {name: options.pop(name) for name in ("implementation",) if name in options}
    return inject(tiny_decoder(kind, **settings), priors, tokenizer=decoder_tokenizer(), **options)


def sentence(count=9, heads=HEADS, words=WORDS):
    kept = [head if head <= count else 0 for head in heads[:count]]
    return sa.Sentence(words[:count], dependency=sa.DependencyTree(kept))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", DECODERS)
def test_no_state_depends_on_later_words_or_what_is_computed_from_them(kind, implementation):
    """Alone and beside a longer text, inside a sliding window and beyond it: other words and another tree later on."""
    for priors in (NAMES, PerHead([FirstWords(), Forward(), Backward(), None]), PRIORS[4], random_table()):
        injected = decoder(kind, priors, implementation=implementation)
        for count in (4, 9):
            changed = sa.Sentence([*WORDS[: count - 1], "hands"], dependency=sa.DependencyTree([0, *range(1, count)]))
            logits = [injected([text]).logits[0] for text in (sentence(count), changed)]
            ids = [injected.tokenize([text]).ids[0] for text in (sentence(count), changed)]
            same = int((ids[0][: len(ids[1])] != ids[1][: len(ids[0])]).nonzero()[0])
            assert same >= count - 1
            torch.testing.assert_close(logits[0][:same], logits[1][:same], atol=1e-6, rtol=0)
            assert (logits[0][same] - logits[1][same]).abs().max() > 1e-3
            longer = sa.Sentence(["kids"] * 12)
            beside = injected([sentence(count), longer]).logits[0][: len(ids[0])]
            torch.testing.assert_close(beside, logits[0], atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", DECODERS)
def test_eager_and_sdpa_agree_and_differ_from_the_plain_decoder(kind):
    eager, sdpa = (decoder(kind, implementation=name) for name in ("eager", "sdpa"))
    texts = [sentence(9), sentence(3)]
    subwords = eager.tokenize(texts)
    assert subwords.ids.shape[1] > WINDOW
    first, second = (model(texts).logits[subwords.mask] for model in (eager, sdpa))
    torch.testing.assert_close(first, second, atol=2e-5, rtol=0)
    plain = sdpa.remove()(input_ids=subwords.ids, attention_mask=subwords.mask.long()).logits[subwords.mask]
    assert (first - plain).abs().max() > 1e-2


@pytest.mark.parametrize("prior", [*PRIORS, *READERS, FirstWords(), PerHead([Forward(), None])], ids=repr)
def test_the_scope_of_a_prior_is_what_its_rows_depend_on(prior):
    """Other words and trees after a query change nothing in its row, where the prior says so."""
    brackets = "(S (S (S the dog) (S near trees)) barks)", "(S the (S dog (S near (S trees sleep))))"
    values = []
    for text, heads in zip(brackets, ([2, 5, 4, 2, 0], [3, 1, 0, 3, 4]), strict=True):
        tree = sa.ConstituencyTree.from_brackets(text)
        words = sa.Sentence(tree.words, dependency=sa.DependencyTree(heads), constituency=tree)
        values.append(prior(sa.collate([words], sa.Vocabulary([]))))
    rows = [
        torch.cat([part.expand(1, -1, 5, 5).float() for part in (value.allowed, value.bias) if part is not None], dim=1)
        for value in values
    ]
    is_same = torch.equal(rows[0][..., :4, :4].tril(), rows[1][..., :4, :4].tril())
    assert is_same == (prior.scope != "text")


@pytest.mark.parametrize("prior", [*READERS, Subtree()], ids=repr)
def test_a_prior_that_reads_later_words_is_refused(prior):
    with pytest.raises(
        ConfigError, match=r"read later words, which a decoder such as LlamaForCausalLM must not: .*trees='prompt'"
    ):
        inject(tiny_decoder("llama"), prior)
    with pytest.raises(ConfigError, match="trees='prompt' is for decoders, and BertModel reads a text both ways"):
        inject(tiny("bert"), prior, trees="prompt")


def test_what_a_wrapper_set_on_the_model_is_put_back():
    """PEFT sets ``prepare_inputs_for_generation`` on the model; without one, none is left behind."""
    injected = decoder("gpt2", NAMES)
    steps = {"max_new_tokens": 3, "do_sample": False}
    expected = injected.generate([sentence(4)], **steps).tolist()
    assert "prepare_inputs_for_generation" not in vars(injected.model)
    calls = []
    usual = injected.model.prepare_inputs_for_generation

    @functools.wraps(usual)
    def wrapped(*values, **inputs):
        calls.append(len(values))
        return usual(*values, **inputs)

    injected.model.prepare_inputs_for_generation = wrapped
    assert injected.generate([sentence(4)], **steps).tolist() == expected
    assert calls
    assert vars(injected.model)["prepare_inputs_for_generation"] is wrapped


def test_a_word_without_a_key_is_refused():
    """A strictly backward word sees nothing in a decoder, and GPT-2's texts begin without a special token."""
    with pytest.raises(ValueError, match="leaves a subword of text 0 without a key"):
        decoder("gpt2", Backward(include_self=False))([sentence(3)])


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"cache_implementation": "static"}], ids=str)
def test_cached_steps_give_what_whole_texts_give(kind, options):
    """Prompts of unequal length, padded on the left, beyond the sliding window."""
    prompts = [sentence(9), sentence(2), sentence(5)]
    for priors in (NAMES, PerHead([FirstWords(), None, WordDistance(), FirstWords()])):
        injected = decoder(kind, priors)
        steps = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, **options}
        cached = injected.generate(prompts, **steps)
        whole = injected.generate(prompts, **{**steps, "cache_implementation": None}, use_cache=False)
        assert cached.tolist() == whole.tolist()
        alone = [injected.generate([prompt], **steps)[0].tolist()[-8:] for prompt in prompts]
        assert [row[-8:] for row in cached.tolist()] == alone


@pytest.mark.parametrize("kind", DECODERS)
def test_greedy_steps_are_the_best_tokens_of_the_whole_text(kind):
    """By the forward pass over the text that the tokenizer reads back, without generate."""
    injected, tokenizer = decoder(kind), decoder_tokenizer()
    ids = injected.generate([sentence(4)], max_new_tokens=6, do_sample=False)[0]
    prompt = injected.tokenize([sentence(4)])
    starts = word_starts(tokenizer)
    words = prompt.words[0].tolist()
    is_word = [True] * len(words)
    special = set(tokenizer.all_special_ids)
    for token in ids[len(words) :].tolist():
        words.append(words[-1] + int(starts[token]))
        is_word.append(token not in special)
    subwords = sa.data.SubwordBatch(
        ids=ids[None],
        mask=torch.ones(1, len(ids), dtype=torch.bool),
        words=torch.tensor([words]),
        is_word=torch.tensor([is_word]),
        segments=torch.zeros(1, len(ids), dtype=torch.long),
        word_mask=torch.ones(1, max(words) + 1, dtype=torch.bool),
        is_cut=torch.tensor([False]),
        sentences=((sa.Sentence(["-"] * (max(words) + 1)),),),
    )
    best = injected(subwords).logits[0].argmax(-1)
    assert best[len(prompt.ids[0]) - 1 : -1].tolist() == ids[len(prompt.ids[0]) :].tolist()


def test_sampling_repeats_with_the_same_seed():
    injected = decoder("llama")
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(injected.generate([sentence(4)], max_new_tokens=8, do_sample=True).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("kind", DECODERS)
def test_trees_of_the_prompt_shape_what_is_said_next(kind):
    injected = decoder(kind, ["dependency", "word", "dependency", "none"], trees="prompt", alpha=3.0)
    tree, other = sentence(5), sentence(5, OTHER)
    target = sa.Sentence(["near", "the", "kids"])
    ids = injected.tokenize([(tree, target)]).ids
    pairs = [injected([(prompt, target)]).logits[0] for prompt in (tree, other)]
    assert (pairs[0] - pairs[1]).abs().max() > 1e-3, "the continuation depends on the tree of the prompt"
    changed = injected([(tree, sa.Sentence(["near", "the", "dog"]))]).logits[0]
    torch.testing.assert_close(pairs[0][:-2], changed[: len(pairs[0]) - 2], atol=1e-5, rtol=0)
    labels = ids.clone()
    with pytest.raises(ConfigError, match="labels: expected -100 at every word of the prompts"):
        injected([(tree, target)], labels=labels)
    subwords = injected.tokenize([(tree, target)])
    labels[subwords.words < 5] = -100
    assert injected([(tree, target)], labels=labels).loss.isfinite()
    steps = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    cached = [injected.generate([prompt], **steps).tolist() for prompt in (tree, other)]
    assert cached[0] == injected.generate([tree], **steps, use_cache=False).tolist()
    bias = injected.attention_bias(subwords).bias[0]
    later = subwords.words[0] >= 5
    assert (bias[0][later] == 0).all()
    assert (bias[0][:, later] == 0).all()
    assert (bias[1][later][:, ~later] < 0).all(), "a distance between words goes on after the prompt"
    with pytest.raises(MissingStructure):
        injected.generate([sa.Sentence(["two", "kids"])], **steps)


def test_priors_of_a_decoder_are_saved_with_what_their_trees_are(tmp_path):
    injected = decoder("llama", ["dependency", "word", "none", "forward"], trees="prompt", learnable_alpha=True)
    injected.save_pretrained(tmp_path)
    before = injected([sentence(5)]).logits
    again = load_injection(injected.remove(), tmp_path, tokenizer=decoder_tokenizer())
    assert again.trees == "prompt"
    assert torch.equal(again([sentence(5)]).logits, before)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing_changes_no_gradient(kind, use_reentrant):
    gradients = []
    for is_checkpointed in (False, True):
        injected = decoder(kind, NAMES, learnable_alpha=True).train()
        if is_checkpointed:
            checkpoint_activations(injected.model, use_reentrant)
        torch.manual_seed(0)  # of dropout
        injected([sentence(9), sentence(3)], use_cache=False).logits.square().mean().backward()
        gradients.append([None if one.grad is None else one.grad.clone() for one in injected.parameters()])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(again, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_bert_that_was_made_a_decoder_is_one(implementation):
    model = tiny("bert", is_decoder=True, implementation=implementation)
    injected = inject(model, NAMES, tokenizer=minilm_tokenizer())
    texts = [sa.Sentence(["two", "kids", last]) for last in ("wash", "sleep")]
    first, second = (injected([text]).last_hidden_state[0, :3] for text in texts)
    assert torch.equal(first, second)
    with pytest.raises(ConfigError, match="expected a decoder with a language model's head to continue texts"):
        inject(tiny("roberta"), NAMES, tokenizer=minilm_tokenizer()).generate([sentence(3)])


def test_texts_padded_on_the_left_are_the_same_texts():
    subwords = collate_subwords([sentence(9), sentence(2)], decoder_tokenizer())
    flipped = pad_left(subwords)
    for name in ("ids", "words", "is_word", "segments"):
        before, after = getattr(subwords, name), getattr(flipped, name)
        assert [row[mask].tolist() for row, mask in zip(before, subwords.mask, strict=True)] == [
            row[mask].tolist() for row, mask in zip(after, flipped.mask, strict=True)
        ]
    assert flipped.mask[:, -1].all()


def test_words_of_new_tokens_need_marks():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    starts = word_starts(decoder_tokenizer())
    tokens = decoder_tokenizer().convert_ids_to_tokens(range(len(starts)))
    assert [token for token, is_start in zip(tokens, starts.tolist(), strict=True) if is_start] == [
        token for token in tokens if token[0] == "Ġ"
    ]
    pieces = minilm_tokenizer().convert_tokens_to_ids(["wash", "##ing"])
    assert word_starts(minilm_tokenizer())[pieces].tolist() == [True, False]
    inner = Tokenizer(models.WordLevel({"?": 0, "the": 1, "dog": 2}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    plain = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="?")
    with pytest.raises(ConfigError, match="does not mark where words begin"):
        inject(tiny_decoder("gpt2"), NAMES, tokenizer=plain).generate([sa.Sentence(["the", "dog"])], max_new_tokens=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decoder("llama", ["word"] * 3), "expected one for each of the model's 4 heads, got 3"),
        (lambda: decoder("llama", implementation="flex_attention"), "call model.set_attn_implementation"),
        (
            lambda: decoder("gpt2").generate([sentence(4)], max_new_tokens=99),
            "max_new_tokens: expected at most 92 after prompts of up to 4 tokens",
        ),
        (lambda: decoder("gpt2").generate([sentence(9)] * 2, max_new_tokens=90), "reads 96; got 90"),
        (
            lambda: inject(tiny("t5", implementation="eager"), ["word"] * 4),
            "cannot be injected into a model of type 't5'",
        ),
        (lambda: inject(tiny_decoder("llama"), NAMES).generate([sentence(3)]), "injected without a tokenizer"),
    ],
)
def test_faults_of_whoever_asks(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_frozen_decoder_with_priors_is_an_encoder_of_sentences():
    backbone = PretrainedBackbone(tiny_decoder("llama").model, decoder_tokenizer())
    embedder = sa.backbones.BackboneEmbedding(backbone)
    encoder = sa.encoders.build("injected", embedder=embedder, heads=["forward", "word"])
    assert encoder.embedder.reader.prior.head_names == ("forward", "word") * 2
