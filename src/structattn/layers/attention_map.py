""":class:`AttentionMap`, the attention weights of one module for one sentence."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

if TYPE_CHECKING:
    from structattn.syntax import Sentence

Kind = Literal["attention", "pooling", "gate"]
LATENT_TREES = "latent trees"
"""The ``layer`` of a map that shows latent trees: the probabilities of heads, and the best tree."""
SUBWORDS = "subwords"
"""The ``layer`` of a map of a backbone."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of one module for one sentence, without padding.

    Attributes:
        name: path of the module inside the model; a module that runs several times gets ``#2``, ``#3`` and so on.
        rows: the queries, words or nodes; ``("sentence",)`` for pooling.
        columns: the keys, words or nodes; ``("gate",)`` for gates.
        weights: one matrix per head. Feature-wise weights are averaged over the features, as in DiSAN's figures.
        kind: ``"attention"``, ``"pooling"`` or ``"gate"``.
        head_names: one for each head.
        layer: class of the module.
        features: the weights of every feature, ``(word, feature)``, for poolers and gates; otherwise ``None``.
        allowed: which keys a query may attend to, for modules that report it: keys that the prior forbids have weight
            0, but so may other keys. ``None`` if all keys are allowed.
        words: for subwords, the index of the word that each belongs to, among all words of the text; ``None`` for
            special tokens. The whole attribute is ``None`` if the rows are not subwords.
        sentence: the sentence, with its trees, if the batch has it.
        index: index of the sentence in the batch, or among all sentences of all examples.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
        >>> AttentionMap("attention", ("a", "dog"), ("a", "dog"), weights, "attention", ("forward",)).weights[0, 1, 0]
        tensor(0.5000)
    """

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Float[Tensor, "head query key"]
    kind: Kind
    head_names: tuple[str, ...]
    layer: str = ""
    features: Float[Tensor, "word feature"] | None = None
    allowed: Bool[Tensor, "head query key"] | None = None
    words: tuple[int | None, ...] | None = None
    sentence: "Sentence | None" = None
    index: int = 0

    def of_words(self) -> "AttentionMap":
        """Convert a map over subwords to one over words; any other map is returned as it is.

        The weight of a word as a key is the sum over its subwords, that of a word as a query the mean over them
        (Clark et al. 2019, "What Does BERT Look At?", section 4.1). Special tokens are left out, so that a row sums to
        its weight on words.

        Example:
            >>> weights = torch.tensor([[[0.2, 0.4, 0.4], [0.2, 0.0, 0.8], [0.6, 0.2, 0.2]]])
            >>> pieces = ("[CLS]", "play", "##ed")
            >>> words = AttentionMap("x", pieces, pieces, weights, "attention", ("h",), words=(None, 0, 0)).of_words()
            >>> words.rows, round(words.weights.item(), 4)
            (('played',), 0.6)
        """
        if self.words is None or self.rows != self.columns:
            return self
        numbers = sorted({number for number in self.words if number is not None})
        belongs = torch.tensor([[number == word for word in self.words] for number in numbers]).view(len(numbers), -1)
        keys = belongs.to(self.weights.dtype)
        weights = keys / keys.sum(-1, keepdim=True) @ self.weights @ keys.mT
        allowed = None if self.allowed is None else (keys @ self.allowed.to(keys.dtype) @ keys.mT) > 0
        if self.sentence is not None and numbers == list(range(len(self.sentence))):
            names = tuple(self.sentence.words)
        else:
            pieces = [[piece for piece, word in zip(self.rows, self.words, strict=True) if word == n] for n in numbers]
            names = tuple("".join(piece.removeprefix("##") for piece in word) for word in pieces)
        return replace(self, rows=names, columns=names, weights=weights, allowed=allowed, words=None)
