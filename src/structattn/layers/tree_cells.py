"""Recursive cells: a node's state from its children's states, for all nodes of a level at once.

Tai et al. 2015, "Improved Semantic Representations From Tree-Structured Long Short-Term Memory Networks", section 3.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import TreeBatch
from structattn.functional.products import take_rows
from structattn.layers.linear import glorot_linear
from structattn.layers.tree_order import Children, tree_order


class ChildSumTreeLSTM(nn.Module):
    r"""The child-sum Tree-LSTM, for trees whose nodes are words, with any number of children in any order.

    ``h~_j = sum_k h_k``, ``i, o, u = W x_j + U h~_j + b`` (each with its own parameters),
    ``f_jk = sigmoid(W_f x_j + U_f h_k + b_f)``,
    ``c_j = sigmoid(i) tanh(u) + sum_k f_jk c_k``, ``h_j = sigmoid(o) tanh(c_j)`` (Tai et al. 2015, equations 2 to 8).

    The forget gates' bias starts at one, so that at first a node remembers what is below it.

    Args:
        dim: width of the words.
        hidden: width of the states.

    Example:
        >>> trees = TreeBatch(torch.tensor([[1, 1, 1]]), torch.ones(1, 3, dtype=torch.bool), None, num_leaves=3)
        >>> cell = ChildSumTreeLSTM(300, 168)
        >>> cell(torch.zeros(1, 3, 300), trees).shape, sum(parameter.numel() for parameter in cell.parameters())
        (torch.Size([1, 3, 168]), 315168)
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_word = glorot_linear(dim, 4 * hidden, blocks=4)
        self.from_sum = glorot_linear(hidden, 3 * hidden, bias=False, blocks=3)
        self.from_child = glorot_linear(hidden, hidden, bias=False)
        nn.init.ones_(self.from_word.bias[3 * hidden :])

    def forward(self, states: Float[Tensor, "batch node dim"], trees: TreeBatch) -> Float[Tensor, "batch node hidden"]:
        """The state of every node; padded nodes are zero.

        Args:
            states: the words.
            trees: dependency trees.
        """
        order = tree_order(trees, states.dtype)
        words = self.from_word(states.flatten(0, 1)[order.nodes])

        def above(values: tuple[Tensor, ...], children: Children, rows: slice) -> tuple[Tensor, ...]:
            child_state, child_memory = values
            gates, forget = words[rows].split([3 * self.hidden, self.hidden], dim=-1)
            remember = (take_rows(forget, children.parents) + self.from_child(child_state)).sigmoid()
            gates = gates + self.from_sum(children.total(child_state))
            return _state(gates, children.total(remember * child_memory))

        return order.unfold(order.run(_state(words[order.leaves, : 3 * self.hidden], None), above)[0])


class ConstituencyTreeLSTM(nn.Module):
    r"""The binary Tree-LSTM, for phrase trees whose leaves are words; phrases may have any number of children.

    At a word ``i, o, u = W x_j + b``; at a phrase ``i, o, u = U_l h_l + U_r h_r + b`` (each with its own parameters);
    the forget gates ``f_l = sigmoid(U_ll h_l + U_lr h_r + b_f)`` and ``f_r = sigmoid(U_rl h_l + U_rr h_r + b_f)``;
    ``c_j = sigmoid(i) tanh(u) + f_l c_l + f_r c_r``, ``h_j = sigmoid(o) tanh(c_j)``
    (Tai et al. 2015, equations 9 to 14 with N = 2; the authors' code has other biases and no input gate at words).

    The paper's trees are binary. Here a phrase keeps all its children: child ``k`` of ``m`` is at place
    ``t = (k - 1) / (m - 1)`` and counts as ``1 - t`` of a left and ``t`` of a right child, both in the sums and in its
    forget gate (as in the continuous binary tree of Mou et al. 2016); an only child is a left child.

    Args:
        dim: width of the words.
        hidden: width of the states.

    Example:
        >>> trees = TreeBatch(torch.tensor([[2, 2, 2]]), torch.ones(1, 3, dtype=torch.bool), None, num_leaves=2)
        >>> cell = ConstituencyTreeLSTM(300, 150)
        >>> cell(torch.zeros(1, 2, 300), trees).shape, sum(parameter.numel() for parameter in cell.parameters())
        (torch.Size([1, 3, 150]), 360600)
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_word = glorot_linear(dim, 3 * hidden, bias=False, blocks=3)
        # For each child three gates and the two forget gates.
        self.from_left = glorot_linear(hidden, 5 * hidden, bias=False, blocks=5)
        self.from_right = glorot_linear(hidden, 5 * hidden, bias=False, blocks=5)
        self.bias = nn.Parameter(torch.zeros(3 * hidden))
        self.forget_bias = nn.Parameter(torch.ones(hidden))

    def forward(self, states: Float[Tensor, "batch leaf dim"], trees: TreeBatch) -> Float[Tensor, "batch node hidden"]:
        """The state of every node, words first; padded nodes are zero.

        Args:
            states: the words.
            trees: phrase trees.
        """
        order = tree_order(trees, states.dtype)
        leaves = self.from_word(order.words(states)) + self.bias

        def above(values: tuple[Tensor, ...], children: Children, rows: slice) -> tuple[Tensor, ...]:
            child_state, child_memory = values
            share = children.places.unsqueeze(-1)  # how much of a right child each is
            left, right = (children.total(part * child_state) for part in (1 - share, share))
            mixed = self.from_left(left) + self.from_right(right)
            gates, forgets = mixed.split([3 * self.hidden, 2 * self.hidden], dim=-1)
            of_left, of_right = take_rows(forgets, children.parents).chunk(2, dim=-1)
            forget = (1 - share) * of_left + share * of_right
            remember = (forget + self.forget_bias).sigmoid()
            return _state(gates + self.bias, children.total(remember * child_memory))

        return order.unfold(order.run(_state(leaves, None), above)[0])


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
        """The state of every node, words first; padded nodes are zero.

        Args:
            states: the words.
            trees: phrase trees.
        """
        order = tree_order(trees, states.dtype)

        def above(values: tuple[Tensor, ...], children: Children, rows: slice) -> tuple[Tensor, ...]:
            (child,) = values
            share = children.places.unsqueeze(-1)  # how much of a right child each is
            left, right = (children.total(part * child) for part in (1 - share, share))
            mixed = self.from_left(left) + self.from_right(right)
            of_phrase, of_children = mixed.split([2 * self.hidden, 2 * self.hidden], dim=-1)
            candidate, score = (of_phrase + self.bias[: 2 * self.hidden]).chunk(2, dim=-1)
            of_left, of_right = take_rows(of_children, children.parents).chunk(2, dim=-1)
            child_score = (1 - share) * of_left + share * of_right + self.bias[2 * self.hidden :]
            # Bounded scores cannot overflow, so their maximum is not subtracted.
            weight, child_weight = self._bounded(score).exp(), self._bounded(child_score).exp()
            total = weight + children.total(child_weight)
            return ((weight * candidate.tanh() + children.total(child_weight * child)) / total,)

        return order.unfold(order.run((self.from_word(order.words(states)).tanh(),), above)[0])

    def _bounded(self, scores: Tensor) -> Tensor:
        return self.scale * (scores / self.scale).tanh()


def _state(gates: Tensor, remembered: Tensor | None) -> tuple[Tensor, Tensor]:
    """State and memory cell from the raw gates ``i, o, u`` and the children's memory after the forget gates."""
    enter, leave, update = gates.chunk(3, dim=-1)
    memory = enter.sigmoid() * update.tanh()
    if remembered is not None:
        memory = memory + remembered
    return leave.sigmoid() * memory.tanh(), memory
