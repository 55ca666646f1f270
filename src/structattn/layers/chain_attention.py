"""Attention that selects one fact after another: a linear chain over steps, whose states are the facts.

Each step has embeddings of its own.

Reference: Kim et al. (2017), Structured attention networks, section 4.3.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.distributions import LinearChainCRF
from structattn.layers.expectations import Expectation, PartDistribution, checked_temperature, marginals
from structattn.layers.linear import glorot_linear

ChainPotentials = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def unary_potentials(
    keys: Float[Tensor, "batch step fact dim"], queries: Float[Tensor, "batch step dim"]
) -> tuple[Float[Tensor, "batch step fact"], Float[Tensor, "batch step-1 fact fact"]]:
    """``theta_k(i) = <m_i^k, u^k>``, and steps that are independent of each other: Kim et al. (2017), section 4.3.

    Args:
        keys: ``m_i^k``.
        queries: ``u^k``.

    Returns:
        Scores of the facts at each step, and of a fact after another.

    Example:
        >>> unary_potentials(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 4))[0]
        tensor([[[4., 4., 4.], [4., 4., 4.]]])
    """
    batch, steps, facts, _ = keys.shape
    return (keys @ queries.unsqueeze(-1)).squeeze(-1), keys.new_zeros(batch, steps - 1, facts, facts)


def binary_potentials(
    keys: Float[Tensor, "batch step fact dim"], queries: Float[Tensor, "batch step dim"]
) -> tuple[Float[Tensor, "batch step fact"], Float[Tensor, "batch step-1 fact fact"]]:
    """Edges between facts: Kim et al. (2017), section 4.3.

    ``theta_{k,k+1}(i, j) = <m_i^k, u^k> + <m_i^k, m_j^{k+1}> + <m_j^{k+1}, u^{k+1}>``, and ``-inf`` for ``i = j``: no
    fact follows itself. A step between two others is on two edges, so its own term counts twice, as the equation says.

    Takes and gives what `unary_potentials` does.

    Example:
        >>> binary_potentials(torch.ones(1, 3, 2, 1), torch.ones(1, 3, 1))[0].tolist()
        [[[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]]
    """
    unary, _ = unary_potentials(keys, queries)
    inner = torch.cat([unary[:, :1], 2 * unary[:, 1:-1], unary[:, 1:][:, -1:]], 1)
    same = torch.eye(keys.shape[2], dtype=torch.bool, device=keys.device)
    return inner, (keys[:, :-1] @ keys[:, 1:].mT).masked_fill(same, -torch.inf)


def double_counted_potentials(
    keys: Float[Tensor, "batch step fact dim"], queries: Float[Tensor, "batch step dim"]
) -> tuple[Float[Tensor, "batch step fact"], Float[Tensor, "batch step-1 fact fact"]]:
    """As `binary_potentials`, with ``<m_i^k, u^k>`` twice at the first and the last step, too.

    In the code of Kim et al. (2017) the edge from the start to the first fact and the edge from the last fact to the
    stop score that fact once more; the equation of section 4.3 has no such edges.

    Takes and gives what `unary_potentials` does.

    Example:
        >>> double_counted_potentials(torch.ones(1, 2, 2, 1), torch.ones(1, 2, 1))[0].tolist()
        [[[2.0, 2.0], [2.0, 2.0]]]
    """
    unary, _ = unary_potentials(keys, queries)
    return 2 * unary, binary_potentials(keys, queries)[1]


class ChainScorer(nn.Module):
    r"""Scores of sequences of ``num_steps`` facts, and a distribution over them: Kim et al. (2017), section 4.3.

    ``m_i^k = M_k x_i``, ``u^1 = query`` and ``u^{k+1} = Q u^k``.

    Args:
        dim: width of the facts.
        num_steps: how many facts are selected, ``K`` in the paper.
        query_dim: width of the query; ``dim`` if ``None``.
        potentials: `binary_potentials`, `unary_potentials` or `double_counted_potentials`.
        temperature: all scores are divided by it.
        noise: changes the scores of the facts, as `GumbelNoise` does.

    Raises:
        ValueError: if there is no step, or the temperature is not positive.

    Example:
        >>> scorer = ChainScorer(4, 2)
        >>> chain = scorer(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 4))
        >>> round(chain.log_count().exp().item())
        6
    """

    def __init__(
        self,
        dim: int,
        num_steps: int,
        *,
        query_dim: int | None = None,
        potentials: ChainPotentials = binary_potentials,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if num_steps < 1:
            raise ValueError(f"ChainScorer expects at least 1 step, got {num_steps}")
        query_dim = dim if query_dim is None else query_dim
        self.num_steps = num_steps
        self.keys = glorot_linear(dim, num_steps * query_dim, bias=False, blocks=num_steps)
        # A single step has no next one.
        self.next_query = glorot_linear(query_dim, query_dim, bias=False) if num_steps > 1 else nn.Identity()
        self.potentials = potentials
        self.temperature = checked_temperature(temperature, wanted_by="ChainScorer")
        self.noise = nn.Identity() if noise is None else noise

    def forward(
        self,
        states: Float[Tensor, "batch fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch query_dim"],
    ) -> LinearChainCRF:
        """A distribution over sequences of facts; its words are the steps, its states the facts."""
        keys = self.keys(states).unflatten(-1, (self.num_steps, -1)).transpose(1, 2)
        queries = [query]
        while len(queries) < self.num_steps:
            queries.append(self.next_query(queries[-1]))
        unary, transition = self.potentials(keys, torch.stack(queries, 1))
        unary = self.noise(unary).masked_fill(~mask.unsqueeze(1), -torch.inf)
        return LinearChainCRF(unary / self.temperature, transition / self.temperature)


class ChainAttention(nn.Module):
    r"""Soft selection of a sequence of facts for a query: Kim et al. (2017), section 4.3.

    ``context = sum_k sum_i p(z_k = i) o_i^k`` with ``o_i^k = O_k x_i``. The weights ``(batch, 1, step, fact)`` have a
    row for each step. Where no sequence is allowed, such as two steps over a single fact, the output is zero.

    Args:
        dim: width of the facts and of the output.
        num_steps: how many facts are selected.
        query_dim: width of the query; ``dim`` if ``None``.
        scorer: module ``(states, mask, query)`` to a distribution; a `ChainScorer` if ``None``.
        expectation: from the distribution to weights: `marginals`, `straight_through_argmax`, `StraightThroughSample`.

    Example:
        >>> attention = ChainAttention(4, 2)
        >>> facts, mask = torch.ones(1, 3, 4), torch.tensor([[True, True, False]])
        >>> output, weights = attention(facts, mask, query=torch.ones(1, 4), need_weights=True)
        >>> output.shape, weights[0, 0]
        (torch.Size([1, 4]), tensor([[0.5000, 0.5000, 0.0000], [0.5000, 0.5000, 0.0000]], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(
        self,
        dim: int,
        num_steps: int,
        *,
        query_dim: int | None = None,
        scorer: nn.Module | None = None,
        expectation: Expectation = marginals,
    ) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.scorer = ChainScorer(dim, num_steps, query_dim=query_dim) if scorer is None else scorer
        self.values = glorot_linear(dim, num_steps * dim, bias=False, blocks=num_steps)
        self.expectation = expectation

    def forward(
        self,
        states: Float[Tensor, "batch fact dim"],
        mask: Bool[Tensor, "batch fact"],
        *,
        query: Float[Tensor, "batch query_dim"],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch 1 step fact"] | None]:
        """Select facts."""
        distribution: PartDistribution = self.scorer(states, mask, query)
        weights = self.expectation(distribution)
        values = self.values(states).unflatten(-1, (self.num_steps, -1)).transpose(1, 2)
        output = (weights.unsqueeze(-2) @ values).squeeze(-2).sum(1)
        return output, weights.unsqueeze(1) if need_weights else None
