"""Facts as vectors, and two ways to select some of them for a question: hop by hop, and as a chain of facts.

Each step has its own embeddings; as in memory networks, its value embeddings are the next step's key embeddings.

Reference: Sukhbaatar et al. (2015), End-to-end memory networks, sections 2 and 4.1; Kim et al. (2017), section 4.3.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from structattn.distributions import LinearChainCRF
from structattn.functional import masked_softmax
from structattn.layers.chain_scorer import ChainPotentials, ChainScorer, StepReader, binary_potentials
from structattn.layers.structured_attention import StructuredAttention


class FactEmbedding(nn.Module):
    r"""``m_i = sum_j l_j * E x_ij + T(i)``: Sukhbaatar et al. (2015), section 4.1.

    Position encoding: ``l_kj = (1 - j/J) - (k/d) (1 - 2j/J)`` for feature ``k`` of ``d`` and word ``j`` of ``J``, both
    from 1. Temporal encoding ``T``: a learned vector for the age of a fact, 0 for the last one.

    Args:
        vocab_size: number of word ids; 0 is padding.
        dim: width of the vectors.
        num_times: number of ages that are told apart; older facts share the last one.
        deviation: initial standard deviation of both tables.

    Example:
        >>> embedding = FactEmbedding(9, 4, num_times=5)
        >>> embedding(torch.tensor([[[2, 3, 0], [4, 0, 0]]]), torch.tensor([2])).shape
        torch.Size([1, 2, 4])
    """

    def __init__(self, vocab_size: int, dim: int, *, num_times: int, deviation: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.times = nn.Embedding(num_times, dim)
        for table in (self.words, self.times):
            nn.init.normal_(table.weight, std=deviation)
        with torch.no_grad():
            self.words.weight[0] = 0.0

    def words_only(self, words: Int[Tensor, "batch fact word"]) -> Float[Tensor, "batch fact dim"]:
        """Embed text without temporal encoding, such as a question."""
        dim, width = self.words.embedding_dim, words.shape[-1]
        # The relative position of each word in its sentence and of each feature in the vector.
        length = (words != 0).sum(-1, keepdim=True).clamp(min=1)
        word = torch.arange(1, width + 1, device=words.device) / length
        feature = torch.arange(1, dim + 1, device=words.device) / dim
        weight = (1 - word).unsqueeze(-1) - feature * (1 - 2 * word).unsqueeze(-1)
        embedded: Tensor = (self.words(words) * weight.to(self.words.weight.dtype)).sum(-2)
        return embedded

    def forward(
        self, words: Int[Tensor, "batch fact word"], num_facts: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch fact dim"]:
        """Embed facts; the first ``num_facts`` of each item are real, and the output for the others has no meaning."""
        facts = self.words_only(words)
        ago = num_facts[:, None] - 1 - torch.arange(words.shape[1], device=words.device)
        timed: Tensor = facts + self.times(ago.clamp(0, self.times.num_embeddings - 1))
        return timed


class LinearStart(nn.Module):
    """A layer that can leave its softmax out, as memory networks do at the start of training.

    Sukhbaatar et al. (2015), section 4.2. The switch is a plain ``bool``, which a forward pass reads without waiting
    for a device and a compiled graph treats as a constant. It is nevertheless part of the state dictionary: a model
    saved during the linear start answers as it did then.

    Attributes:
        is_linear: whether the softmax is left out.

    Example:
        >>> layer = LinearStart()
        >>> layer.is_linear = True
        >>> layer.state_dict()["is_linear"]
        tensor(True)
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_linear = False
        self.register_state_dict_post_hook(_keep_switch)
        self.register_load_state_dict_pre_hook(_restore_switch)


def _keep_switch(layer: LinearStart, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    state[f"{prefix}is_linear"] = torch.tensor(layer.is_linear)


def _restore_switch(layer: LinearStart, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    layer.is_linear = bool(state.pop(f"{prefix}is_linear", layer.is_linear))


class MemoryHops(LinearStart):
    r"""``p^k = softmax(<m_i^k, u^k>)``, ``u^{k+1} = u^k + sum_i p_i^k o_i^k``: Sukhbaatar et al. (2015), section 2.

    While ``is_linear`` is true, the softmax is left out (linear start, section 4.2). Padding must be finite.

    Example:
        >>> keys = torch.ones(1, 2, 3, 4)
        >>> output, weights = MemoryHops()(keys, keys, torch.tensor([[True, True, False]]), torch.zeros(1, 4))
        >>> output[0, 0], weights[0, 0]
        (tensor(2.), tensor([[0.5000, 0.5000, 0.0000], [0.5000, 0.5000, 0.0000]]))
    """

    def forward(
        self,
        keys: Float[Tensor, "batch step fact dim"],
        values: Float[Tensor, "batch step fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch dim"],
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch 1 step fact"]]:
        """The answer vector, and the attention weights of each hop."""
        looked_at = []
        for step in range(keys.shape[1]):
            scores = (keys[:, step] @ query.unsqueeze(-1)).squeeze(-1)
            weights = scores.masked_fill(~mask, 0.0) if self.is_linear else masked_softmax(scores, mask)
            query = query + (weights.unsqueeze(1) @ values[:, step]).squeeze(1)
            looked_at.append(weights)
        return query, torch.stack(looked_at, 1).unsqueeze(1)

    def best(
        self,
        keys: Float[Tensor, "batch step fact dim"],
        values: Float[Tensor, "batch step fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch dim"],
    ) -> Int[Tensor, "batch step"]:
        """The fact with the largest weight at each hop."""
        _, weights = self(keys, values, mask, query)
        chosen: Tensor = weights[:, 0].masked_fill(~mask.unsqueeze(1), -torch.inf).argmax(-1)
        return chosen


class FactChain(LinearStart):
    r"""A chain over facts: ``c = sum_k sum_i p(z_k = i) o_i^k``, answer vector ``c + u^K``: Kim et al. (2017), 4.3.

    ``u^{k+1} = Q u^k``. While ``is_linear`` is true, no softmax is taken, as in the linear start of memory networks.
    The marginals are then replaced by messages passed forward along the chain (ours, not the paper's):
    ``w_1(i) = theta_1(i)`` and ``w_{k+1}(j) = theta_{k+1}(j) + mean_i w_k(i) theta_{k,k+1}(i, j)``, where forbidden
    pairs count as zero.

    Args:
        dim: width of the vectors.
        num_steps: number of facts that are selected.
        potentials: `binary_potentials` or `unary_potentials`.

    Example:
        >>> keys = torch.ones(1, 2, 3, 4)
        >>> output, weights = FactChain(4, 2)(keys, keys, torch.tensor([[True, True, False]]), torch.zeros(1, 4))
        >>> output[0, 0], weights[0, 0]
        (tensor(2., grad_fn=...), tensor([[0.5000, 0.5000, 0.0000], [0.5000, 0.5000, 0.0000]], grad_fn=...))
    """

    def __init__(self, dim: int, num_steps: int, *, potentials: ChainPotentials = binary_potentials) -> None:
        super().__init__()
        # The keys and values of each step are those of the memory.
        scorer = ChainScorer(dim, num_steps, keys=nn.Identity(), potentials=potentials)
        self.attention = StructuredAttention(scorer, reader=StepReader(nn.Identity()))

    @property
    def scorer(self) -> ChainScorer:
        """The scorer that gives the distribution over sequences of facts."""
        scorer = self.attention.scorer
        assert isinstance(scorer, ChainScorer)  # set in __init__
        return scorer

    def distribution(
        self,
        keys: Float[Tensor, "batch step fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch dim"],
    ) -> tuple[LinearChainCRF, Float[Tensor, "batch dim"]]:
        """The distribution over sequences of facts, and the query of the last step."""
        queries = self.scorer.queries(query)
        chain: LinearChainCRF = self.scorer(keys, mask, queries)
        return chain, queries[:, -1]

    def forward(
        self,
        keys: Float[Tensor, "batch step fact dim"],
        values: Float[Tensor, "batch step fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch dim"],
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch 1 step fact"]]:
        """Answer vector, and the marginals of each step."""
        queries = self.scorer.queries(query)
        if self.is_linear:
            parts = _messages_forward(*self.scorer.potentials(keys, queries), mask)
            context, weights = self.attention.reader(parts, values, None)
        else:
            context, weights = self.attention(keys, mask, queries=queries, values=values, need_weights=True)
        return context + queries[:, -1], weights

    def best(
        self,
        keys: Float[Tensor, "batch step fact dim"],
        values: Float[Tensor, "batch step fact dim"],
        mask: Bool[Tensor, "batch fact"],
        query: Float[Tensor, "batch dim"],
    ) -> Int[Tensor, "batch step"]:
        """The most probable sequence of facts."""
        chain, _ = self.distribution(keys, mask, query)
        return chain.argmax().argmax(-1)


def _messages_forward(
    unary: Float[Tensor, "batch step fact"],
    transition: Float[Tensor, "batch step-1 fact fact"],
    mask: Bool[Tensor, "batch fact"],
) -> Float[Tensor, "batch step fact"]:
    number = mask.sum(-1, keepdim=True).clamp(min=1)
    pairs = transition.masked_fill(transition.isneginf(), 0.0)
    weights = [unary[:, 0].masked_fill(~mask, 0.0)]
    for step in range(1, unary.shape[1]):
        message = (weights[-1].unsqueeze(1) @ pairs[:, step - 1]).squeeze(1) / number
        weights.append((unary[:, step] + message).masked_fill(~mask, 0.0))
    return torch.stack(weights, 1)
