"""Tree planting: targets by hand, and attention that learns them without a tree in use."""

import pytest
import torch

import structattn as sa
from backbones import DECODERS, KINDS, decoder_tokenizer, minilm_tokenizer, tiny, tiny_decoder
from structattn.backbones import relation_loss
from structattn.backbones.planting import plant, visible_pairs
from structattn.backbones.text_boundaries import with_boundaries
from structattn.errors import ConfigError, MissingStructure
from structattn.priors import ConstituencyDistance, DependencyDistance, Forward, Relation, WordDistance

WORDS = ["the", "dog", "near", "trees", "barks"]
SENTENCE = sa.Sentence(WORDS, dependency=sa.DependencyTree([2, 5, 4, 2, 0]))
NEXT = (
    "1",
    ".268941 .731059",
    ".090031 .244728 .665241",
    ".054065 .146963 .399486 .399486",
    ".348299 .128132 .348299 .047137 .128132",
    ".178911 .065818 .178911 .024213 .065818 .486330",
)


def batched(sentence):
    return sa.collate([sentence], sa.Vocabulary([]))


def normalised(targets):
    return targets / targets.sum(-1, keepdim=True).clamp(min=1e-9)


def planted(kind="llama", priors=None, **options):
    priors = {(0, 1): DependencyDistance(), (1, 3): WordDistance()} if priors is None else priors
    return plant(tiny_decoder(kind), priors, tokenizer=decoder_tokenizer(), **options)


def test_distances_by_hand_and_in_the_words_so_far():
    """*near* is 2 from *dog* in both, but in the tree of the words so far nothing connects them: each is a root."""
    assert ["".join(map(str, row)) for row in SENTENCE.dependency.distances()] == [
        "01322",
        "10211",
        "32013",
        "21102",
        "21320",
    ]
    prefix = sa.Sentence(WORDS[:3], dependency=sa.DependencyTree([2, 0, 0]))
    assert prefix.dependency.distances()[2] == [3, 2, 0]
    seen = [
        Relation("ancestor", as_mask=True)(batched(each)).allowed[0, 0, 2, :3].tolist() for each in (SENTENCE, prefix)
    ]
    assert seen == [[False, True, True], [False, False, True]]


def test_targets_of_the_next_word_by_hand():
    """The beginning and the end hang on the root; row by row, the word that is predicted."""
    (targets,) = normalised(planted(priors={(0, 1): DependencyDistance()}).targets(batched(with_boundaries(SENTENCE))))
    assert targets[0, 0].abs().sum() == 0, "nothing comes before the beginning"
    for row, text in zip(targets[0, 1:], NEXT, strict=True):
        expected = [float(number) for number in text.split()]
        assert row.tolist() == pytest.approx([*expected, *[0.0] * (7 - len(expected))], abs=1e-6)


def test_targets_of_the_words_themselves_by_hand():
    causal = planted(priors={(0, 1): DependencyDistance()}, align="own")
    targets = normalised(causal.targets(batched(SENTENCE)))[0, 0]
    assert targets[3, :4].tolist() == pytest.approx([0.072329, 0.196612, 0.196612, 0.534447], abs=1e-6)
    assert targets[4].tolist() == pytest.approx([0.080159, 0.217895, 0.029489, 0.080159, 0.592299], abs=1e-6)
    strict = {(0, 1): DependencyDistance() + sa.priors.NotSelf()}
    both = plant(tiny("bert"), strict, tokenizer=minilm_tokenizer(), align="own")
    targets = normalised(both.targets(batched(SENTENCE)))[0, 0]
    assert targets[3].tolist() == pytest.approx([0.134471, 0.365529, 0.365529, 0.0, 0.134471], abs=1e-6)


def test_divergence_from_uniform_attention_by_hand():
    targets = planted(priors={(0, 1): DependencyDistance()}).targets(batched(with_boundaries(SENTENCE)))
    pairs = visible_pairs(torch.ones(1, 7, dtype=torch.bool), align="next", is_causal=True)
    loss = relation_loss(torch.zeros(1, 1, 7, 7), targets, pairs, objective="kl", reduction="pairs")
    assert loss.item() == pytest.approx(0.195359, abs=1e-6)


def test_divergence_of_a_word_in_two_pieces_by_hand():
    """Uniform attention of the beginning, four words, two pieces of *barks* and the end."""
    model = planted(priors={(0, 1): DependencyDistance()})
    model._weights[0] = torch.ones(1, 4, 8, 8).tril() / torch.arange(1, 9)[:, None]
    owners = torch.tensor([[0, 1, 2, 3, 4, 5, 5, 6]])
    loss = model.divergence(batched(with_boundaries(SENTENCE)), owners)
    assert loss.item() == pytest.approx(0.164868, abs=1e-6)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("align", ["next", "own"])
def test_the_divergence_is_that_of_the_weights_summed_over_subwords(kind, align):
    """Beside a loop over the weights that an eager model returns, for texts with and without padding."""
    texts = [SENTENCE, sa.Sentence(["two", "kids"], dependency=sa.DependencyTree([2, 0]))]
    model = planted(kind, align=align)
    output, loss = model(texts, output_attentions=False)
    eager = tiny_decoder(kind, implementation="eager")
    rows = []
    for text in texts:
        alone = planted(kind, align=align)
        alone([text])
        tokenizer = decoder_tokenizer()
        pieces = [tokenizer(word)["input_ids"] for word in text.words]
        owners = [word for word, ids in enumerate(pieces) for _ in ids]
        ids = [token for part in pieces for token in part]
        words = text
        if align == "next":
            ids, owners = [1, *ids, 2], [0, *(word + 1 for word in owners), len(text) + 1]
            words = with_boundaries(text)
        weights = eager(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        weights = [layer.detach() for layer in weights]
        targets = normalised(model.targets(batched(words)))[0]
        for index, (layer, head) in enumerate(model.heads):
            for word in range(len(words)):
                queries = [place - (align == "next") for place, owner in enumerate(owners) if owner == word]
                limit = word if align == "next" else word + 1
                sums = [
                    sum(
                        float(weights[layer][0, head, query, key])
                        for query in queries
                        for key, owner in enumerate(owners)
                        if owner == other
                    )
                    for other in range(limit)
                ]
                if limit:
                    share = [value / sum(sums) for value in sums]
                    target = targets[index, word, :limit].double()
                    rows.append(
                        float(
                            (
                                target * (target / torch.tensor(share).double().clamp(min=1e-30)).log().nan_to_num(0.0)
                            ).sum()
                        )
                    )
    assert loss.item() == pytest.approx(sum(rows) / len(rows), abs=2e-4)
    assert output.loss.isfinite()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
def test_planting_leaves_the_model_as_it_was(kind):
    model = tiny_decoder(kind)
    ids = torch.tensor([[1, 5, 6, 7, 8, 9, 10, 11, 12, 2]])
    before = model(input_ids=ids).logits
    names = [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")]
    heads = plant(model, {(-1, 0): WordDistance()}, tokenizer=decoder_tokenizer())
    assert list(heads.heads) == [(1, 0)]
    torch.testing.assert_close(model(input_ids=ids).logits, before, atol=1e-5, rtol=0)
    assert heads.remove() is model
    assert torch.equal(model(input_ids=ids).logits, before)
    assert [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")] == names


@pytest.mark.parametrize("kind", KINDS)
def test_encoders_are_planted_and_left_as_they_were(kind):
    model, ids = tiny(kind), torch.arange(5, 12)[None]
    before = model(input_ids=ids).last_hidden_state
    heads = plant(model, {(0, 1): WordDistance()}, tokenizer=minilm_tokenizer(), align="own")
    assert heads(["Two kids wash their hands .", "Kids ."])[1].item() > 0.1
    torch.testing.assert_close(model(input_ids=ids).last_hidden_state, before, atol=1e-6, rtol=0)
    assert torch.equal(heads.remove()(input_ids=ids).last_hidden_state, before)


def test_planted_heads_learn_and_others_need_not():
    """A few steps on the divergence alone; the tree is gone afterwards."""
    torch.manual_seed(0)
    model = planted(priors={(1, 2): DependencyDistance()}, beta=2.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(25):
        _, loss = model([SENTENCE])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    plain = model.remove()
    assert plain(input_ids=torch.tensor([[1, 5, 6]])).logits.isfinite().all()


def test_dropout_of_weights_is_off_in_planted_layers_alone():
    config = {"attn_pdrop": 0.5, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    model = tiny_decoder("gpt2", **config).train()
    heads = plant(model, {(0, 1): WordDistance()}, tokenizer=decoder_tokenizer())
    losses = {heads([SENTENCE])[1].item() for _ in range(3)}
    assert len(losses) == 1, "the first layer sees the same states, and drops no weight"
    assert [block.attn.attn_dropout.p for block in model.transformer.h] == [0.0, 0.5]
    heads.remove()
    assert [block.attn.attn_dropout.p for block in model.transformer.h] == [0.5, 0.5]


def test_sentences_with_boundaries():
    tree = sa.ConstituencyTree.from_brackets("(S (NP the dog) barks)")
    sentence = sa.Sentence(
        tree.words, dependency=sa.DependencyTree([2, 3, 0], ["det", "nsubj", "root"]), constituency=tree
    )
    bounded = with_boundaries(sentence)
    assert bounded.words == ("<s>", "the", "dog", "barks", "</s>")
    assert bounded.dependency.heads == (4, 3, 4, 0, 4)
    assert [span[1:] for span in bounded.constituency.spans] == [(0, 5), (1, 4), (1, 3)]
    distances = -ConstituencyDistance()(sa.collate([bounded], sa.Vocabulary([]))).bias[0, 0]
    assert (distances[0, 4], distances[0, 1] > distances[0, 3]) == (2, True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: plant(tiny("bert"), {(0, 0): Forward()}, tokenizer=minilm_tokenizer()),
            ConfigError,
            "take 'own' for BertModel",
        ),
        (
            lambda: planted(priors={(2, 0): Forward()}),
            ConfigError,
            "no layer 2 with a head 0: there are 2 layers of 4 heads",
        ),
        (lambda: planted(priors={(0, 4): Forward()}), ConfigError, "no layer 0 with a head 4"),
        (lambda: planted(priors={}), ConfigError, "expected the prior of at least one head"),
        (lambda: planted(align="previous"), ConfigError, "align: expected 'next' or 'own'"),
        (
            lambda: plant(tiny("t5", implementation="eager"), {(0, 0): Forward()}, tokenizer=minilm_tokenizer()),
            ConfigError,
            "got 't5'",
        ),
        (lambda: planted()([sa.Sentence(WORDS)]), MissingStructure, "needs dependency of every sentence"),
        (
            lambda: planted()([sa.Sentence(WORDS * 30, dependency=sa.DependencyTree([0] * 150))]),
            ConfigError,
            "subwords with its beginning and end, expected at most 96",
        ),
    ],
)
def test_faults_of_whoever_asks(call, error, message):
    with pytest.raises(error, match=message):
        call()
