"""The base class of priors, what they build, and their algebra: ``a + b`` and ``alpha * a``.

A prior reads a batch and builds an :class:`AttentionBias`; it never touches scores.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import add, and_
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch

Scope = Literal["positions", "earlier", "text"]


@dataclass(frozen=True, eq=False)
class AttentionBias:
    """The value of a prior: a mask and a bias, each broadcastable to ``(batch, head, query, key)``.

    They are kept apart until scores are computed, because ``-inf`` inside a float matrix turns ``0 * prior`` into NaN.

    Attributes:
        allowed: ``True`` where a query may attend to a key; ``None`` allows everything.
        bias: added to the scores; ``None`` for no bias. Finite: forbidding a key is left to ``allowed``.

    Example:
        >>> import torch
        >>> causal = AttentionBias(torch.ones(1, 1, 2, 2, dtype=torch.bool).tril(), None)
        >>> near = AttentionBias(None, -torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]]))
        >>> both = causal + near.scaled(2.0)
        >>> both.allowed[0, 0].tolist(), both.bias[0, 0].tolist()
        ([[True, False], [True, True]], [[-0.0, -2.0], [-2.0, -0.0]])
    """

    allowed: Bool[Tensor, "#batch #head #query #key"] | None = None
    bias: Float[Tensor, "#batch #head #query #key"] | None = None

    def __add__(self, addend: "AttentionBias") -> "AttentionBias":
        """The intersection of both masks, and the sum of both biases."""
        if not isinstance(addend, AttentionBias):
            return NotImplemented
        return AttentionBias(_join(self.allowed, addend.allowed, and_), _join(self.bias, addend.bias, add))

    def scaled(self, weight: int | float | Float[Tensor, ""] | Float[Tensor, " head"]) -> "AttentionBias":
        """The same mask with the bias multiplied by ``weight``, one number or one per head."""
        if self.bias is None:
            return self
        if isinstance(weight, Tensor) and weight.dim() == 1:
            weight = weight[:, None, None]
        return AttentionBias(self.allowed, weight * self.bias)


def _join(first: Tensor | None, second: Tensor | None, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return function(first, second)


class Prior(nn.Module, ABC):
    """A module whose forward turns a batch, and the structure it carries, into an ``AttentionBias``.

    ``a + b`` intersects the masks and adds the biases; ``alpha * a`` scales the bias only, where ``alpha``
    is a number, a tensor or ``nn.Parameter`` with one value or one per head, or a :class:`LearnableAlpha`. ``-a`` and
    ``a - b`` are refused, as a mask has no opposite.

    A subclass has a ``name`` and a ``forward``, and a ``cache_key`` if several of its instances may be in use.

    Attributes:
        scope: what the value of a query and an earlier key, or the query itself, depends on: their ``positions`` alone;
            the words up to the query and what was computed from these (``earlier``); or the whole ``text``, as a tree
            of the sentence does. A decoder takes the first two.

    Example:
        >>> from structattn.priors import Forward, WordDistance
        >>> prior = Forward() + 1.5 * WordDistance()
        >>> prior.name, prior
        ('forward + 1.5 word', Forward(include_self=True) + 1.5 * WordDistance())
    """

    #: A class attribute, or a property in priors that are made of others.
    scope: ClassVar[Scope] = "text"

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for pictures and errors."""

    @abstractmethod
    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The mask and the bias for this batch."""

    @property
    def head_names(self) -> tuple[str, ...]:
        """One name per head, or a single one if all heads are alike."""
        return (self.name,)

    @property
    def num_heads(self) -> int | None:
        """The number of heads this prior is made for; ``None`` if it fits any number."""
        return None

    def cache_key(self) -> Hashable:
        """Equal for priors that always build the same value: ``PerHead`` evaluates one of them for all heads.

        By default each instance has its own; override it if two instances with equal options build the same bias.
        """
        return id(self)

    def terms(self) -> "tuple[Term, ...]":
        """This prior as a sum of scaled base priors."""
        return (Term(self),)

    def __add__(self, addend: "Prior") -> "Prior":
        return Sum(self, addend) if isinstance(addend, Prior) else NotImplemented

    def __radd__(self, start: object) -> "Prior":
        # sum() starts with 0.
        return self if isinstance(start, int) and start == 0 else NotImplemented

    def __rmul__(self, alpha: "int | float | Tensor | LearnableAlpha") -> "Prior":
        return Scaled(alpha, self) if isinstance(alpha, int | float | Tensor | LearnableAlpha) else NotImplemented

    def __mul__(self, alpha: "int | float | Tensor | LearnableAlpha") -> "Prior":
        return self.__rmul__(alpha)

    def __neg__(self) -> "Prior":
        raise TypeError(
            f"-prior has no meaning for {self.name!r}: a mask has no opposite; write -1 * prior to turn a preference "
            "around and keep the mask"
        )

    def __sub__(self, subtrahend: object) -> "Prior":
        raise TypeError(
            "prior - prior has no meaning, as a mask has no opposite; write a + (-1) * b to subtract a preference and "
            "keep both masks"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class LearnableAlpha(nn.Module):
    """A learnt, positive weight for each head: ``alpha = softplus(raw)``.

    MS-SAN (arXiv 2012.14642) has one fixed ``alpha >= 0`` for all heads; this is the learnt variant.

    Args:
        num_heads: number of weights; a single one is shared by all heads that use it.
        initial: the weights to start from, one for all heads or one per head; positive.

    Raises:
        ValueError: if a weight is not positive, or their number is not ``num_heads``.

    Example:
        >>> LearnableAlpha(3, initial=1.5)()
        tensor([1.5000, 1.5000, 1.5000], grad_fn=...)
    """

    def __init__(self, num_heads: int, *, initial: int | float | Sequence[int | float] = 1.0) -> None:
        super().__init__()
        start = [initial] * num_heads if isinstance(initial, int | float) else list(initial)
        if len(start) != num_heads:
            raise ValueError(f"LearnableAlpha expects {num_heads} initial weights, one per head, got {len(start)}")
        if not all(0 < weight < math.inf for weight in start):
            raise ValueError(f"LearnableAlpha expects positive finite initial weights, got {start}")
        # log(exp(w) - 1), the inverse of softplus, in a form that does not overflow.
        self.raw = nn.Parameter(torch.tensor([weight + math.log(-math.expm1(-weight)) for weight in start]))

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"{len(self.raw)}"

    def forward(self) -> Float[Tensor, " head"]:
        """The weights."""
        return nn.functional.softplus(self.raw)


class Sum(Prior):
    """``a + b``: the intersection of the masks and the sum of the biases."""

    def __init__(self, first: Prior, second: Prior) -> None:
        super().__init__()
        heads = {prior.num_heads for prior in (first, second)} - {None}
        if len(heads) == 2:
            raise ValueError(
                f"a sum of priors expects equal numbers of heads, got {first.num_heads} and {second.num_heads}"
            )
        self.first, self.second = first, second

    @property
    def name(self) -> str:
        """Both names with a plus between."""
        return f"{self.first.name} + {self.second.name}"

    @property
    def head_names(self) -> tuple[str, ...]:
        """Both names with a plus between, head by head."""
        names = [self.first.head_names, self.second.head_names]
        count = max(map(len, names))
        return tuple(map(" + ".join, zip(*(name * (count // len(name)) for name in names), strict=True)))

    @property
    def num_heads(self) -> int | None:
        """The number of heads of the part that has one."""
        return self.first.num_heads if self.second.num_heads is None else self.second.num_heads

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """The wider scope of the two."""
        return widest([self.first, self.second])

    def terms(self) -> "tuple[Term, ...]":
        """The terms of both."""
        return self.first.terms() + self.second.terms()

    def __repr__(self) -> str:
        return f"{self.first!r} + {self.second!r}"

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """Evaluate both and add."""
        total: AttentionBias = self.first(batch) + self.second(batch)
        return total


class Scaled(Prior):
    """``alpha * a``: the same mask, the bias multiplied by ``alpha``."""

    def __init__(self, alpha: "int | float | Tensor | nn.Module", prior: Prior) -> None:
        super().__init__()
        if isinstance(alpha, int | float) and not math.isfinite(alpha):
            raise ValueError(f"alpha * prior expects a finite alpha, got {alpha}")
        if isinstance(alpha, Tensor) and alpha.dim() > 1:
            raise ValueError(
                f"alpha * prior expects one alpha or one per head, got a tensor of shape {tuple(alpha.shape)}"
            )
        self.alpha = FixedAlpha(alpha) if isinstance(alpha, Tensor) else alpha
        self.prior = prior
        weights = self._num_weights()
        if None not in (weights, prior.num_heads) and weights != prior.num_heads:
            raise ValueError(f"alpha * prior got {weights} weights for a prior with {prior.num_heads} heads")

    @property
    def name(self) -> str:
        """The name of the scaled prior, after a fixed ``alpha`` other than one."""
        return self._prefix() + self.prior.name

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the scaled prior, each after a fixed ``alpha`` other than one."""
        return tuple(self._prefix() + name for name in self.prior.head_names)

    @property
    def num_heads(self) -> int | None:
        """The number of weights, or of heads of the scaled prior."""
        weights = self._num_weights()
        return self.prior.num_heads if weights is None else weights

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """That of the scaled prior."""
        return self.prior.scope

    def terms(self) -> "tuple[Term, ...]":
        """The terms of the scaled prior, each multiplied by ``alpha``."""
        if isinstance(self.alpha, nn.Module):
            alpha = self.alpha
            return tuple(Term(term.base, term.factor, (*term.alphas, alpha)) for term in self.prior.terms())
        number = float(self.alpha)
        return tuple(Term(term.base, number * term.factor, term.alphas) for term in self.prior.terms())

    def __repr__(self) -> str:
        alpha = f"{self.alpha:g}" if not isinstance(self.alpha, nn.Module) else repr(self.alpha)
        return f"{alpha} * ({self.prior!r})" if isinstance(self.prior, Sum) else f"{alpha} * {self.prior!r}"

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """Evaluate, then scale the bias."""
        value: AttentionBias = self.prior(batch)
        return value.scaled(self.alpha() if isinstance(self.alpha, nn.Module) else float(self.alpha))

    def _prefix(self) -> str:
        return "" if isinstance(self.alpha, nn.Module) or self.alpha == 1 else f"{self.alpha:g} "

    def _num_weights(self) -> int | None:
        return num_weights(self.alpha) if isinstance(self.alpha, nn.Module) else None


@dataclass(frozen=True)
class Term:
    """One summand ``factor * alphas * base`` of a prior."""

    base: Prior
    factor: float = 1.0
    alphas: tuple[nn.Module, ...] = ()

    @property
    def prior(self) -> Prior:
        """The summand as a prior."""
        prior: Prior = self.base if self.factor == 1 else Scaled(self.factor, self.base)
        for alpha in self.alphas:
            prior = Scaled(alpha, prior)
        return prior


def widest(priors: Iterable[Prior]) -> Scope:
    """The widest scope of any of these priors."""
    return max((prior.scope for prior in priors), key=get_args(Scope).index, default="positions")


def num_weights(alpha: nn.Module) -> int | None:
    """The number of weights of an ``alpha`` that has one per head; ``None`` if all heads share one."""
    value: Tensor = alpha()
    return len(value) if value.numel() != 1 else None


class FixedAlpha(nn.Module):
    """A tensor or parameter as ``alpha``, registered, so that it moves, saves and trains with the prior."""

    alpha: Tensor

    def __init__(self, alpha: Tensor) -> None:
        super().__init__()
        if isinstance(alpha, nn.Parameter):
            self.alpha = alpha
        else:
            self.register_buffer("alpha", alpha)

    def __repr__(self) -> str:
        return f"tensor of {self.alpha.numel()}" if self.alpha.numel() > 1 else f"{self.alpha.item():g}"

    def forward(self) -> Tensor:
        """The weight or weights."""
        return self.alpha
