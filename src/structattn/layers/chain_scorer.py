"""Selecting one fact after another: a linear chain over steps with the facts as states, and a reader of its selections.

Each step has embeddings of its own.

Reference: Kim et al. (2017), Structured attention networks, section 4.3.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from structattn.distributions import LinearChainCRF
from structattn.layers.batch_argument import read_mask
from structattn.layers.linear import glorot_linear
from structattn.layers.structured_attention import Reader, Scorer

ChainPotentials = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def unary_potentials(
    keys: Float[Tensor, "batch step fact dim"], queries: Float[Tensor, "batch step dim"]
) -> tuple[Float[Tensor, "batch step fact"], Float[Tensor, "batch step-1 fact fact"]]:
    """``theta_k(i) = <m_i^k, u^k>``, with steps independent of each other: Kim et al. (2017), section 4.3.

    Args:
        keys: ``m_i^k``.
        queries: ``u^k``.

    Returns:
        Scores of the facts at each step, and of the transitions between facts.

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

    Args:
        keys: ``m_i^k``.
        queries: ``u^k``.

    Returns:
        Scores of the facts at each step, and of the transitions between facts.

    Example:
        >>> binary_potentials(torch.ones(1, 3, 2, 1), torch.ones(1, 3, 1))[0].tolist()
        [[[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]]
    """
    unary, _ = unary_potentials(keys, queries)
    inner = torch.cat([unary[:, :1], 2 * unary[:, 1:-1], unary[:, 1:][:, -1:]], 1)
    same = torch.eye(keys.shape[2], dtype=torch.bool, device=keys.device)
    return inner, (keys[:, :-1] @ keys[:, 1:].mT).masked_fill(same, -torch.inf)


class StepMaps(nn.Module):
    """A separate linear map for each step: ``x_i^k = W_k x_i``."""

    def __init__(self, dim: int, num_steps: int, output_dim: int) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.linear = glorot_linear(dim, num_steps * output_dim, bias=False, blocks=num_steps)

    def forward(self, states: Float[Tensor, "batch fact dim"]) -> Float[Tensor, "batch step fact output"]:
        """Map facts, once for each step."""
        mapped: Tensor = self.linear(states).unflatten(-1, (self.num_steps, -1)).transpose(1, 2)
        return mapped


class ChainScorer(Scorer):
    r"""Scores of sequences of ``num_steps`` facts, and a distribution over them: Kim et al. (2017), section 4.3.

    ``m_i^k = M_k x_i``, ``u^1 = query`` and ``u^{k+1} = Q u^k``.

    Args:
        dim: width of the facts.
        num_steps: how many facts are selected, ``K`` in the paper.
        query_dim: width of the query; ``dim`` if ``None``.
        keys: module from the facts to their keys at each step; a linear map for each step if ``None``.
        potentials: from the keys and queries of all steps to scores of facts and transitions: `binary_potentials` or
            `unary_potentials`.
        temperature: all scores are divided by it.
        noise: module that perturbs the scores of the facts, such as `GumbelNoise`.

    Raises:
        ValueError: if there is no step, or the temperature is not positive.

    Example:
        >>> scorer = ChainScorer(4, 2)
        >>> chain = scorer(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 4))
        >>> round(chain.log_count().exp().item())
        6
    """

    needs_words_first: ClassVar[bool] = False

    def __init__(
        self,
        dim: int,
        num_steps: int,
        *,
        query_dim: int | None = None,
        keys: nn.Module | None = None,
        potentials: ChainPotentials = binary_potentials,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__(temperature=temperature, noise=noise)
        if num_steps < 1:
            raise ValueError(f"ChainScorer expects at least 1 step, got {num_steps}")
        query_dim = dim if query_dim is None else query_dim
        self.dim = dim
        self.num_steps = num_steps
        self.keys = StepMaps(dim, num_steps, query_dim) if keys is None else keys
        # A single step has no next one.
        self.next_query = glorot_linear(query_dim, query_dim, bias=False) if num_steps > 1 else nn.Identity()
        self.potentials = potentials

    def reader(self) -> "StepReader":
        """Each step reads the facts through its own linear map."""
        return StepReader(StepMaps(self.dim, self.num_steps, self.dim))

    def queries(self, query: Float[Tensor, "batch query_dim"]) -> Float[Tensor, "batch step query_dim"]:
        """The queries of all steps: ``u^{k+1} = Q u^k``.

        Args:
            query: the first of them, ``u^1``.
        """
        queries = [query]
        while len(queries) < self.num_steps:
            queries.append(self.next_query(queries[-1]))
        return torch.stack(queries, 1)

    def forward(
        self,
        states: Float[Tensor, "batch *step fact dim"],
        mask: Shaped[Tensor, "batch fact"],
        queries: Float[Tensor, "batch query_dim"] | Float[Tensor, "batch step query_dim"],
    ) -> LinearChainCRF:
        """A distribution over sequences of facts; its words are the steps, its states the facts.

        Args:
            states: the facts.
            mask: which of them are real.
            queries: the first query ``u^1``, or those of all steps.
        """
        unary, transition = self.potentials(self.keys(states), queries if queries.dim() == 3 else self.queries(queries))
        mask = read_mask(mask, wanted_by=self)
        unary = self.noise(unary).masked_fill(~mask.unsqueeze(1), -torch.inf)
        return LinearChainCRF(unary / self.temperature, transition / self.temperature)


class StepReader(Reader):
    r"""The facts that the steps select: Kim et al. (2017), section 4.3.

    ``context = sum_k sum_i p(z_k = i) o_i^k`` with ``o_i^k = O_k x_i``. The weights ``(batch, 1, step, fact)`` have a
    row for each step. Where no sequence is allowed, such as two steps over a single fact, the output is zero.

    Args:
        values: module from the facts to their values at each step, such as `StepMaps`.

    Example:
        >>> reader = StepReader(nn.Identity())
        >>> reader(torch.full((1, 2, 3), 0.5), torch.ones(1, 2, 3, 4), None)[0]
        tensor([[3., 3., 3., 3.]])
    """

    def __init__(self, values: nn.Module) -> None:
        super().__init__()
        self.values = values

    def forward(
        self,
        parts: Float[Tensor, "batch step fact"],
        values: Float[Tensor, "batch *step fact value"],
        mask: Bool[Tensor, "batch fact"] | None,
    ) -> tuple[Float[Tensor, "batch output"], Float[Tensor, "batch 1 step fact"]]:
        """The sum of what the steps select.

        Args:
            parts: for each step the weight of each fact.
            values: the facts, or those of each step.
            mask: which facts are real; not needed, as others have no weight.

        Returns:
            The output, and the weights.
        """
        output = (parts.unsqueeze(-2) @ self.values(values)).squeeze(-2).sum(1)
        return output, parts.unsqueeze(1)
