"""What is read together: batches of similar size, and the spellings of their words against a twin, word by word."""

import random
from collections.abc import Callable, Sequence

import pytest
import torch

from backbones import minilm_tokenizer, tiny
from structattn.backbones import PretrainedBackbone
from structattn.data import Vocabulary
from structattn.parsing import BiaffineScorer
from structattn.parsing.batched_parsing import count_words, parse_in_batches
from structattn.parsing.subword_encoder import SubwordEncoder
from structattn.parsing.word_encoder import WordEncoder, character_vocabulary
from structattn.syntax import DependencyTree, Sentence

ADDRESS = "https://example.org/" + "q3x7/" * 20
SENTENCES = [
    Sentence(["Kids", "wash", "kids"]),
    Sentence(["wash"]),
    Sentence([ADDRESS, "İstanbul", "\x02", "\x03\x03", "\udcff", "a" * 32, "a" * 33]),
    Sentence(["kids"] * 9),
]


def flat(sentences: Sequence[Sentence]) -> list[Sentence]:
    return [Sentence(one.words, None, DependencyTree([0] + [1] * (len(one) - 1))) for one in sentences]


def batches_of(
    sentences: Sequence[Sentence], sizes_of: Callable[[Sequence[Sentence]], Sequence[int]]
) -> list[list[int]]:
    """The sizes in each batch."""
    seen: list[list[int]] = []

    def parse(batch: Sequence[Sentence]) -> list[Sentence]:
        seen.append([*sizes_of(batch)])
        return flat(batch)

    found = parse_in_batches(parse, sentences, max_length=300, measure=sizes_of)
    assert [one.words for one in found] == [one.words for one in sentences]
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_padding_stays_below_an_eighth_and_what_small_batches_save(seed: int) -> None:
    draw = random.Random(seed)
    sentences = [Sentence(["a"] * (1 + int(draw.expovariate(1 / 14)))) for _ in range(1500)]
    batches = batches_of(sentences, count_words)
    assert sum(map(len, batches)) == 1500
    assert [size for batch in batches for size in batch] == sorted(map(len, sentences))
    # Each step to longer sentences adds at most eight rows' worth of padding to the rows before it.
    for batch in batches:
        for place in range(1, len(batch)):
            assert (batch[place] - batch[place - 1]) * place <= 8 * batch[place - 1]
    # The numbers of rows have three binary digits and zeros behind them.
    for rows in map(len, batches):
        assert rows % (1 << max(0, rows.bit_length() - 3)) == 0


def test_sentences_are_batched_by_what_the_encoder_reads() -> None:
    tokenizer = minilm_tokenizer()
    encoder = SubwordEncoder(PretrainedBackbone(tiny("bert"), tokenizer))
    sentences = [Sentence([ADDRESS]), *[Sentence(["kids", "wash"])] * 20, *[Sentence(["kids"] * 12)] * 5]
    sizes = encoder.sizes(sentences)
    tokens = encoder.collate(sentences).subwords.mask.sum(1).tolist()
    assert sizes == tokens
    assert encoder.sizes([]) == []
    assert sizes[0] == encoder.backbone.max_length
    # An address is one word and many tokens: it would make every short sentence as long as it is.
    assert batches_of(sentences, encoder.sizes) == [[4] * 20, [14] * 5, [sizes[0]]]
    assert [len(one) for one in batches_of(sentences, count_words)] == [20, 6]


@pytest.mark.parametrize("buckets", [None, 50])
def test_spellings_are_those_read_word_by_word(buckets: int | None) -> None:
    characters = character_vocabulary(SENTENCES, min_count=1)
    encoder = WordEncoder(Vocabulary(["kids", "wash"]), characters, hidden=3, buckets=buckets)
    for sentences in (SENTENCES, SENTENCES[:1], SENTENCES[::-1], SENTENCES[1:2] * 3):
        batch = encoder.collate(sentences)
        different = list(dict.fromkeys(word for one in sentences for word in one.words))
        read = []
        for word in different:
            kept = [*word] if len(word) <= 32 else [*word[:24], *word[-8:]]
            read.append([characters[character] for character in ["\x02", *kept, "\x03"]] + [0])
        assert batch.characters.tolist() == [character for spelled in read for character in spelled]
        assert batch.starts.tolist() == [sum(map(len, read[:row])) for row in range(len(read))]
        for row, one in enumerate(sentences):
            spelled = [different[number] for number in batch.spelling_ids[row, : len(one)].tolist()]
            assert spelled == list(one.words)
            assert not batch.spelling_ids[row, len(one) :].any()


def test_frequent_characters_come_first_after_the_marks() -> None:
    sentences = [Sentence(["aab", "\x02\x02"]), Sentence(["bbc", "dd", "\udcff\udcff"])]
    assert character_vocabulary(sentences).words[2:] == ("\x02", "\x03", "b", "a", "d")


@pytest.mark.parametrize(("batch", "words"), [(1, 1), (1, 40), (3, 7), (20, 30)])
@pytest.mark.parametrize("alike", [False, True])
def test_labels_are_those_of_the_product_over_all_words(batch: int, words: int, alike: bool) -> None:
    generator = torch.Generator().manual_seed(7)
    scorer = BiaffineScorer(5, num_labels=4, num_tags=2, arc_dim=3, label_dim=6, dropout=0.0).double()
    torch.nn.init.normal_(scorer.label_weight, generator=generator)
    states = torch.randn(batch, words, 5, generator=generator, dtype=torch.float64)
    heads = torch.zeros(batch, words, dtype=torch.int64)
    if not alike:
        heads = torch.randint(words + 1, (batch, words), generator=generator)
    scores = scorer(states)
    below, above = (torch.cat([one, torch.ones_like(one[..., :1])], -1) for one in (scores.dependents, scores.heads))
    chosen = above[torch.arange(batch).unsqueeze(1), heads]
    expected = torch.einsum("bwi,lij,bwj->bwl", below, scorer.label_weight, chosen)
    found = scorer.labels(scores, heads)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(scorer.labels(scores, heads), expected)
        of_all = scorer.all_labels(scores).gather(2, heads[..., None, None].expand(-1, -1, -1, 4)).squeeze(2)
        torch.testing.assert_close(of_all, expected)
    weights = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    ours, theirs = (
        torch.autograd.grad((one * weights).sum(), [scorer.label_weight, scorer.project.weight], retain_graph=True)
        for one in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)
