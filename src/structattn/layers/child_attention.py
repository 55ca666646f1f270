"""Recursive attention: the state of a phrase from the states of its children, for all nodes of a level at once."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import TreeBatch
from structattn.functional import take_rows
from structattn.layers.linear import glorot_linear
from structattn.layers.tree_order import Children, tree_order


class ChildAttention(nn.Module):
    r"""Feature-wise attention of every phrase over its children and over a candidate composed from them.

    A word's state is :math:`h = \tanh(W x + b)`. That of a phrase with the children :math:`1 \ldots m` is

    .. math::
        u &= \tanh(U_l h_l + U_r h_r + b_u) \\
        s_0 &= A_l h_l + A_r h_r + b_0, \qquad s_k = (1 - t_k) (B_{ll} h_l + B_{lr} h_r)
            + t_k (B_{rl} h_l + B_{rr} h_r) + b_c \\
        \alpha &= \mathrm{softmax}_{0 \ldots m}\, c \tanh(s / c) \quad \text{in each feature} \\
        h &= \alpha_0 \odot u + \sum_k \alpha_k \odot h_k

    where :math:`h_l` and :math:`h_r` are the weighted sums of the children's states as left and as right children:
    child *k* of *m* is at place :math:`t_k = (k - 1) / (m - 1)` and counts as :math:`1 - t_k` of a left and :math:`t_k`
    of a right child; an only child is a left child.

    Not from a paper. The bounded, feature-wise softmax is DiSAN's (Shen et al. 2018, section on the masked
    self-attention); children and their order are treated as in :class:`ConstituencyTreeLSTM`, whose forget gates read
    the same states. Here the weights of the children and the candidate sum to one, so a feature can be kept, chosen
    from one child or composed, every state stays within the cube of the words' states, and no separate memory cell is
    needed.

    Args:
        dim: width of the words.
        hidden: width of the states.
        scale: the bound ``c``.

    Example:
        >>> trees = TreeBatch(torch.tensor([[2, 2, 2]]), torch.ones(1, 3, dtype=torch.bool), None, num_leaves=2)
        >>> cell = ChildAttention(64, 76)
        >>> cell(torch.zeros(1, 2, 64), trees).shape, sum(parameter.numel() for parameter in cell.parameters())
        (torch.Size([1, 3, 76]), 51376)
    """

    def __init__(self, dim: int, hidden: int, *, scale: float = 5.0) -> None:
        super().__init__()
        self.hidden = hidden
        self.scale = scale
        self.from_word = glorot_linear(dim, hidden)
        # The candidate, its score, and the scores of left and of right children.
        self.from_left = glorot_linear(hidden, 4 * hidden, bias=False, blocks=4)
        self.from_right = glorot_linear(hidden, 4 * hidden, bias=False, blocks=4)
        self.bias = nn.Parameter(torch.zeros(3 * hidden))

    def forward(self, states: Float[Tensor, "batch leaf dim"], trees: TreeBatch) -> Float[Tensor, "batch node hidden"]:
        """The state of every node, words first; padded nodes are zero."""
        order = tree_order(trees, states.dtype)

        def above(values: tuple[Tensor, ...], children: Children, rows: slice) -> tuple[Tensor, ...]:
            (child,) = values
            place = children.places.unsqueeze(-1)
            left, right = (children.total(part * child) for part in (1 - place, place))
            mixed = self.from_left(left) + self.from_right(right)
            own, of_children = mixed.split([2 * self.hidden, 2 * self.hidden], dim=-1)
            candidate, score = (own + self.bias[: 2 * self.hidden]).chunk(2, dim=-1)
            of_left, of_right = take_rows(of_children, children.parents).chunk(2, dim=-1)
            child_score = (1 - place) * of_left + place * of_right + self.bias[2 * self.hidden :]
            # Bounded scores cannot overflow, so their maximum is not subtracted.
            weight, child_weight = self._bounded(score).exp(), self._bounded(child_score).exp()
            total = weight + children.total(child_weight)
            return ((weight * candidate.tanh() + children.total(child_weight * child)) / total,)

        return order.unfold(order.run((self.from_word(order.words(states)).tanh(),), above)[0])

    def _bounded(self, scores: Tensor) -> Tensor:
        return self.scale * (scores / self.scale).tanh()
