"""Sparse structured attention: SparseMAP, the mixture of few structures that is nearest to the scores of their parts.

Reference: Niculae, Martins, Blondel and Cardie (2018), SparseMAP: Differentiable sparse structured inference; Wolfe
(1976), Finding the nearest point in a polytope.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.layers.structured_attention import PartDistribution

if TYPE_CHECKING:
    from structattn.distributions import StructuredDistribution

# The weights of structures below which they are dropped, and the gap, in units of the temperature, of a solution.
_NO_WEIGHT = 1e-10
_TOLERANCE = 1e-6


class SparseMap:
    r"""Sparse attention: ``mu = argmax_u <scores, u> - temperature / 2 |u|^2`` over mixtures ``u`` of structures.

    Niculae et al. (2018), equation 5. Marginals give all structures some weight, a best structure gives one of them
    all; this is a mixture of few, and changes continuously with the scores. Scores of anything but parts, such as the
    transitions of a chain, count as they are. Wolfe's active set method needs nothing of a family but its best
    structure: each iteration finds the one that the solution so far neglects most, and solves for all weights.

    The gradient is that of the weights of the structures in the mixture, ``P / temperature`` with ``P`` the projection
    on the directions between these: structures outside of it have none. The second derivative is zero.

    Args:
        temperature: the higher it is, the more structures are mixed.
        max_iterations: how many structures are looked for at most. If the solution is not reached, a warning names the
            gap: what the objective may gain at most, in units of the temperature.

    Raises:
        ValueError: for a temperature of 0 or below, or less than one iteration.
        TypeError: when called, for a distribution without ``with_scores``.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.tensor([[0.0, 0.0, 1.0], [0.3, 0.0, 0.0]])
        >>> SparseMap()(DependencyCRF(scores, single_root=True))
        tensor([[0.1750, 0.0000, 0.8250], [0.8250, 0.1750, 0.0000]])
    """

    def __init__(self, temperature: float = 1.0, max_iterations: int = 100) -> None:
        if not temperature > 0:
            raise ValueError(f"SparseMap expects a temperature above 0, got {temperature}")
        if max_iterations < 1:
            raise ValueError(f"SparseMap expects at least 1 iteration, got {max_iterations}")
        self.temperature = temperature
        self.max_iterations = max_iterations

    def __call__(self, distribution: PartDistribution) -> Float[Tensor, "..."]:
        """The weight of every part; zero where nothing is allowed."""
        if not hasattr(distribution, "with_scores"):
            raise TypeError(
                f"SparseMap expects a structured distribution with other scores on request (with_scores), such as "
                f"DependencyCRF or AlignmentCRF, got {type(distribution).__name__}"
            )
        structured = cast("StructuredDistribution", distribution)
        batch, event = structured.batch_shape, structured.event_shape
        items = structured if batch else structured[None]
        is_possible = items.topk_scores(1)[0] > -torch.inf
        weights = structured.scores.new_zeros(*is_possible.shape, *event)
        if is_possible.any() and event.numel():
            weights = weights.masked_scatter(
                is_possible.view(*is_possible.shape, *(1 for _ in event)), self._solve(items[is_possible])
            )
        return weights.view(batch + event)

    def _solve(self, items: "StructuredDistribution") -> Tensor:
        with torch.no_grad():
            mixture, gap = _find_mixture(items, self.temperature, self.max_iterations)
        if (worst := float(gap.max())) > _TOLERANCE:
            warnings.warn(
                f"SparseMap: {int((gap > _TOLERANCE).sum())} of {len(gap)} items are not solved after "
                f"{self.max_iterations} iterations, by a gap of up to {worst:.2g}; raise max_iterations or temperature",
                RuntimeWarning,
                stacklevel=3,
            )
        weights = mixture.weights
        if torch.is_grad_enabled():
            # Structures without weight repeat one that has some, so that each is one.
            filled = torch.where(mixture.is_used[..., None], mixture.structures, mixture.structures[:, :1])
            structures = filled.transpose(0, 1).reshape(-1, len(gap), *items.event_shape)
            scores = items.log_prob(structures).T.double()
            weights = weights + mixture.respond(scores - scores.detach(), self.temperature)
        parts = (weights.unsqueeze(-1) * mixture.structures).sum(1)
        return parts.view(-1, *items.event_shape).to(items.scores.dtype)


@dataclass
class _Mixture:
    """The structures of each item as flat parts, beside room for others, and their weights and scores."""

    structures: Float[Tensor, "item structure part"]
    weights: Float[Tensor, "item structure"]
    # What a structure scores beyond its parts.
    extra: Float[Tensor, "item structure"]
    is_used: Bool[Tensor, "item structure"]

    def respond(self, scores: Float[Tensor, "item structure"], temperature: float) -> Float[Tensor, "item structure"]:
        """How the weights change with the scores of the structures, as long as the same ones are used."""
        return self._solve(scores, temperature, torch.zeros_like(scores[:, :1]))

    def reweigh(self, scores: Float[Tensor, "item part"], temperature: float) -> None:
        """The best weights of some of the structures, of which those that would have none are dropped."""
        while True:
            values = torch.einsum("isp,ip->is", self.structures, scores) + self.extra
            best = self._solve(values, temperature, torch.ones_like(values[:, :1]))
            falls = self.is_used & (best <= _NO_WEIGHT)
            if not falls.any():
                self.weights = best
                return
            # As far towards the best weights as all stay positive.
            shares = torch.where(falls, self.weights / (self.weights - best).clamp(min=1e-300), torch.inf)
            step = shares.amin(1, keepdim=True).clamp(max=1)
            self.weights = self.weights + step * (best - self.weights)
            self.is_used = self.is_used & ~(falls & (shares <= step))
            self.weights = self.weights.where(self.is_used, 0)

    def add(self, structures: Tensor, extra: Tensor, wanted: Bool[Tensor, " item"]) -> None:
        """One more structure, without weight, for some of the items."""
        if self.is_used[wanted].all(1).any():
            self.structures = torch.cat([self.structures, torch.zeros_like(self.structures[:, :1])], 1)
            for name, room in (("weights", 0.0), ("extra", 0.0), ("is_used", False)):
                column = getattr(self, name)
                setattr(self, name, torch.cat([column, torch.full_like(column[:, :1], room)], 1))
        slot = self.is_used.int().argmin(1)
        rows = torch.arange(len(slot), device=slot.device)[wanted]
        slot = slot[wanted]
        self.structures[rows, slot], self.extra[rows, slot] = structures[wanted], extra[wanted]
        self.is_used[rows, slot] = True

    def _solve(self, scores: Tensor, temperature: float, total: Tensor) -> Tensor:
        """The stationary weights with that sum: ``temperature G w + t = scores``, ``G`` the numbers of common parts."""
        used = self.is_used.to(scores.dtype)
        common = self.structures @ self.structures.mT * used.unsqueeze(-1) * used.unsqueeze(-2)
        # A little more on the diagonal keeps the system regular where rounding would not.
        square = temperature * common + torch.diag_embed(1 - used + 1e-12)
        border = torch.cat([used, torch.zeros_like(total)], 1)
        system = torch.cat([torch.cat([square, used.unsqueeze(-1)], -1), border.unsqueeze(1)], 1)
        solution: Tensor = torch.linalg.solve(system, torch.cat([scores * used, total], 1))
        return solution[:, :-1] * used


def _find_mixture(
    items: "StructuredDistribution", temperature: float, max_iterations: int
) -> tuple[_Mixture, Float[Tensor, " item"]]:
    """Wolfe's active set method, and how far each item is from its solution at most."""
    scores = items.scores.double().flatten(1)
    is_allowed = scores.isfinite()
    scores = scores.where(is_allowed, 0)

    def find_best(direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best = items.with_scores(direction.where(is_allowed, -torch.inf).view(items.scores.shape))
        structures, value = best.topk(1)[0].flatten(1), best.topk_scores(1)[0]
        return structures, value, value - (structures * direction).sum(1)

    structures, _, extra = find_best(scores)
    ones = torch.ones_like(extra).unsqueeze(1)
    mixture = _Mixture(structures.unsqueeze(1), ones, extra.unsqueeze(1), ones.bool())
    gap = torch.zeros_like(extra)
    is_open = torch.ones_like(extra, dtype=torch.bool)
    for iteration in range(max_iterations):
        if iteration:
            mixture.add(structures, extra, is_open)
            mixture.reweigh(scores, temperature)
        parts = torch.einsum("is,isp->ip", mixture.weights, mixture.structures)
        direction = scores - temperature * parts
        structures, value, extra = find_best(direction)
        gap = (value - (direction * parts).sum(1) - (mixture.weights * mixture.extra).sum(1)) / temperature
        is_known = ((mixture.structures == structures.unsqueeze(1)).all(-1) & mixture.is_used).any(1)
        is_open = (gap > _TOLERANCE) & ~is_known
        if not is_open.any():
            break
    return mixture, gap
