"""A different prior for every attention head, evaluated together, so that MS-SAN is one attention call."""

import functools
import operator
from collections.abc import Callable, Container, Hashable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.priors.prior import AttentionBias, Prior, Scope, Term, num_weights, widest


class PerHead(Prior):
    r"""One prior per head: ``M_h = priors[h]``, stacked to ``(batch, head, query, key)``.

    MS-SAN (arXiv 2012.14642), section on multi-mask multi-head attention: ``M_h = M_dir(h) + alpha * M_dis(h)``.

    Every prior is first decomposed into scaled base priors. Each distinct base prior is then evaluated once and spread
    over the heads that use it by a vector of weights, so the work does not grow with the number of heads, and priors
    that depend on positions only stay ``(1, head, n, n)`` until they meet one that depends on the sentence.

    Args:
        priors: one prior, or ``None`` for a plain head, per head.
        head_names: one name per head for pictures; made from the priors' names if ``None``.

    Raises:
        ValueError: without any head, for a wrong number of names, or for a prior or weights made for another number of
            heads; each head takes the row of its own number.

    Example:
        >>> from structattn.priors import Backward, Forward, WordDistance
        >>> distance = WordDistance()
        >>> prior = PerHead([Forward() + distance, Backward() + distance, None])
        >>> prior.head_names, len(prior.bases)
        (('forward + word', 'backward + word', 'none'), 3)
    """

    selected: Tensor
    factors: Tensor

    def __init__(self, priors: Sequence[Prior | None], head_names: Sequence[str] | None = None) -> None:
        super().__init__()
        if not priors:
            raise ValueError("PerHead expects at least one head, got none")
        if head_names is None:
            head_names = ["none" if prior is None else prior.name for prior in priors]
        if len(head_names) != len(priors):
            raise ValueError(f"PerHead expects one name per head, got {len(head_names)} names for {len(priors)} heads")
        self._head_names = tuple(head_names)
        self._terms = [() if prior is None else prior.terms() for prior in priors]
        self._repr = f"PerHead([{', '.join(map(repr, priors))}])"
        bases: dict[Hashable, Prior] = {}
        alphas: dict[Hashable, nn.Module] = {}
        # (base prior, learnt alphas) -> the fixed factor of every head
        groups: dict[tuple[Hashable, tuple[Hashable, ...]], list[float]] = {}
        is_used: dict[Hashable, list[bool]] = {}
        for head in range(len(priors)):
            for term in self._terms[head]:
                self._check(term, len(priors), head)
                base = term.base.cache_key()
                keys = tuple(_alpha_key(alpha) for alpha in term.alphas)
                bases.setdefault(base, term.base)
                alphas.update(zip(keys, term.alphas, strict=True))
                is_used.setdefault(base, [False] * len(priors))[head] = True
                groups.setdefault((base, keys), [0.0] * len(priors))[head] += term.factor
        self.bases = nn.ModuleList(bases.values())
        self.alphas = nn.ModuleList(alphas.values())
        base_index = {key: index for index, key in enumerate(bases)}
        alpha_index = {key: index for index, key in enumerate(alphas)}
        self._groups = [(base_index[base], [alpha_index[key] for key in keys]) for base, keys in groups]
        self.register_buffer(
            "selected", torch.tensor([*is_used.values()]).view(len(bases), len(priors)), persistent=False
        )
        self._exact_factors = [*groups.values()]
        factors = torch.tensor(self._exact_factors, dtype=torch.get_default_dtype()).view(len(groups), len(priors))
        self.register_buffer("factors", factors, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        # In another precision they are not those of the last one, rounded.
        self.factors = self.factors.new_tensor(self._exact_factors).view_as(self.factors)
        return self

    def __repr__(self) -> str:
        return self._repr

    @property
    def name(self) -> str:
        """The heads' names, each once."""
        return ", ".join(dict.fromkeys(self._head_names))

    @property
    def head_names(self) -> tuple[str, ...]:
        """One name per head."""
        return self._head_names

    @property
    def num_heads(self) -> int | None:
        """The number of priors."""
        return len(self._head_names)

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """The widest scope of any head's prior."""
        return widest(prior for prior in self.bases if isinstance(prior, Prior))

    def select(self, scopes: Container[Scope]) -> "PerHead":
        """The part of every head's prior whose terms have one of these scopes, with the same parameters."""
        chosen = ([term.prior for term in terms if term.base.scope in scopes] for terms in self._terms)
        return PerHead([functools.reduce(operator.add, priors) if priors else None for priors in chosen])

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """Evaluate each distinct base prior once and spread it over the heads that use it."""
        values: list[AttentionBias] = [base(batch) for base in self.bases]
        total = AttentionBias()
        for value, selected in zip(values, self.selected, strict=True):
            if value.allowed is not None:
                total = total + AttentionBias(value.allowed | ~selected[:, None, None])
        for (base, alphas), factors in zip(self._groups, self.factors, strict=True):
            bias = values[base].bias
            if bias is not None:
                weight = factors
                for alpha in alphas:
                    weight = weight * self.alphas[alpha]()
                total = total + AttentionBias(None, weight[:, None, None] * bias)
        return total

    @staticmethod
    def _check(term: Term, num_heads: int, head: int) -> None:
        if term.base.num_heads not in (None, num_heads):
            raise ValueError(f"PerHead has {num_heads} heads, but prior {head} is made for {term.base.num_heads}")
        for alpha in term.alphas:
            if (weights := num_weights(alpha)) not in (None, num_heads):
                raise ValueError(f"PerHead has {num_heads} heads, but an alpha of prior {head} has {weights} weights")


def _alpha_key(alpha: nn.Module) -> Hashable:
    """Equal for the same alpha, even if it was multiplied with several priors and wrapped each time."""
    return tuple(id(value) for value in (*alpha.parameters(), *alpha.buffers()))
