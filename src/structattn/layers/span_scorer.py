"""Phrases of a latent tree: scores of all spans, and what each word reads from the phrases around it.

The parts of the structure are spans; their marginals are distributed over words.

Reference: Kim et al. (2017), Structured attention networks, section 3 (the general form; the paper itself has no such
layer); Stern, Andreas and Klein (2017), section 3 (trees over scored spans).
"""

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.distributions import ConstituencyCRF
from structattn.layers.additive_scores import AdditiveScores
from structattn.layers.batch_argument import count_words
from structattn.layers.structured_attention import Reader, Scorer, normalised


class SpanScorer(Scorer):
    r"""Scores of all spans from their first and last words, and a distribution over binary trees.

    ``theta(i, k) = tanh( s^T tanh(W_1 x_i + W_2 x_{k-1} + b) )`` for the span of the words ``i .. k - 1``: the scorer
    of Kim et al. (2017), section 4.1, for spans.

    Args:
        dim: width of the states.
        hidden: width of the hidden layer; ``dim`` if ``None``.
        bound: the outer function; ``nn.Tanh()`` if ``None``.
        temperature: all scores are divided by it.
        noise: module that perturbs the scores, such as `GumbelNoise`.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> trees = SpanScorer(4)(torch.ones(1, 4, 4), torch.ones(1, 4, dtype=torch.bool))
        >>> round(trees.log_count().exp().item())
        5
    """

    def __init__(
        self,
        dim: int,
        hidden: int | None = None,
        *,
        bound: nn.Module | None = None,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__(temperature=temperature, noise=noise)
        self.scores = AdditiveScores(dim, hidden, bound=bound)

    def reader(self) -> "PhraseReader":
        """Each word reads the means of the phrases around it."""
        return PhraseReader()

    def forward(self, states: Float[Tensor, "batch word dim"], mask: Shaped[Tensor, "batch word"]) -> ConstituencyCRF:
        """A distribution over binary trees.

        Args:
            states: the words.
            mask: which of them count; these come first.
        """
        _, lengths = count_words(mask, wanted_by=self)
        scores = self.adjusted(self.scores(states, states, lengths))
        # From (first word, last word) to fenceposts: the last word k - 1 ends before fencepost k.
        return ConstituencyCRF(F.pad(scores, (1, 0, 0, 1)), lengths)


class PhraseReader(Reader):
    r"""The expected phrase context of each word.

    ``context_j = sum over spans (i, k) around j of p(i, k) mean(x_i .. x_{k-1})``: the general form
    ``E_z[f(x, z)]`` of Kim et al. (2017), section 3, where ``f`` is the sum of the means of all spans that contain the
    word, including the word itself and the whole sentence. The weights are
    ``a_jl = sum over spans around j and l of p(i, k) / (k - i)``; a row sums to the expected number of these spans,
    unless ``total`` is given.

    Args:
        total: the sum that the weights of a word are scaled to; unscaled if ``None``.

    Example:
        >>> spans = torch.tensor([[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
        >>> PhraseReader(total=1.0)(spans, torch.ones(1, 2, 4), None)[1]
        tensor([[[[0.7500, 0.2500], [0.2500, 0.7500]]]])
    """

    def __init__(self, total: float | None = None) -> None:
        super().__init__()
        self.total = total

    def forward(
        self,
        parts: Float[Tensor, "batch fencepost fencepost"],
        values: Float[Tensor, "batch word value"],
        mask: Bool[Tensor, "batch word"] | None,
    ) -> tuple[Float[Tensor, "batch word value"], Float[Tensor, "batch 1 word word"]]:
        """What each word reads from the phrases around it.

        Args:
            parts: the weight of each span between two fenceposts.
            values: the words' values.
            mask: which words are real; not needed, as others are in no span.

        Returns:
            The output, and the weights of words.
        """
        weights = normalised(word_weights(parts), self.total)
        return weights @ values, weights.unsqueeze(1)


def word_weights(spans: Float[Tensor, "*batch fencepost fencepost"]) -> Float[Tensor, "*batch word word"]:
    """Span weights over words: ``a_jl = sum over spans (i, k) around j and l of spans[i, k] / (k - i)``."""
    fencepost = torch.arange(spans.shape[-1], device=spans.device)
    shares = spans / (fencepost - fencepost[:, None]).clamp(min=1)
    # Sums over all starts up to i and all ends from k on: each pair of words then reads a single entry.
    around = shares.cumsum(-2).flip(-1).cumsum(-1).flip(-1)
    word = fencepost[:-1]
    return around[..., word[:, None].minimum(word), word[:, None].maximum(word) + 1]
