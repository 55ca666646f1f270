""":class:`AttentionMap`, the attention weights of one module for one sentence."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from structattn.syntax import Sentence

Kind = Literal["attention", "pooling", "gate"]


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
        allowed: which keys a query may attend to, for modules that say so: what the prior forbids has weight 0, as may
            other keys. ``None`` if all keys are allowed.
        words: for subwords the number of the word that each belongs to, among all words of the text; ``None`` for
            special tokens. ``None`` altogether for rows that are no subwords.
        sentence: the sentence, with its trees, if the batch has it.
        index: which sentence it is: its place in the batch, or among all sentences of all examples.

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
    sentence: Sentence | None = None
    index: int = 0
