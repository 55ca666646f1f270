"""Recursive encoders against a recursion over nodes, on many shapes of trees."""

import itertools

import pytest
import torch
from torch import Tensor

import structattn as sa
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.errors import MissingStructure
from structattn.layers import ChildAttention
from structattn.layers.tree_cells import ChildSumTreeLSTM, ConstituencyTreeLSTM
from structattn.layers.tree_order import TreeOrder, TreeSweep

BRACKETS = [
    "(S (NP (D the) (N dog)) (VP (V barks)))",
    "(S (A a) (B b) (C c) (D (E d) (F e) (G f)))",
    "(S (X (Y (Z (W w)))))",
    "(W w)",
    "(S (L (L (L (L a) (R b)) (R c)) (R d)) (R e))",
    "(S (L a) (R (L b) (R (L c) (R (L d) (R e)))))",
    "(S (A a) (B (C b) (D c)) (E d))",
]
HEADS = [[2, 3, 0], [0, 0, 0, 0], [0, 1, 2, 3, 4], [2, 3, 4, 5, 0], [3, 3, 0, 3, 3], [0], [4, 4, 1, 0, 3]]


def phrase_batch() -> sa.SentenceBatch:
    trees = [sa.ConstituencyTree.from_brackets(text) for text in BRACKETS]
    sentences = [sa.Sentence(tree.words, constituency=tree) for tree in trees]
    sentences.insert(2, sa.Sentence([]))
    return sa.collate(sentences, sa.Vocabulary(["a"]))


def dependency_batch() -> sa.SentenceBatch:
    sentences = [sa.Sentence(["a"] * len(heads), dependency=sa.DependencyTree(heads)) for heads in HEADS]
    sentences.insert(2, sa.Sentence([]))
    return sa.collate(sentences, sa.Vocabulary(["a"]))


def children_of(trees: sa.TreeBatch, row: int, node: int) -> list[int]:
    """Children in the order of their first words."""

    def first_word(child: int) -> int:
        below = trees.subtrees()[row, child, : trees.num_leaves].nonzero()
        return int(below[0])

    parents = trees.parents[row].tolist()
    real = trees.mask[row].tolist()
    found = [child for child, parent in enumerate(parents) if parent == node and child != node and real[child]]
    return sorted(found, key=first_word)


def literal_child_sum(cell: ChildSumTreeLSTM, states: Tensor, trees: sa.TreeBatch, row: int) -> dict[int, Tensor]:
    found: dict[int, tuple[Tensor, Tensor]] = {}

    def visit(node: int) -> tuple[Tensor, Tensor]:
        if node not in found:
            below = [visit(child) for child in children_of(trees, row, node)]
            enter, leave, update, forget = cell.from_word(states[row, node]).chunk(4)
            total = sum((state for state, _ in below), torch.zeros_like(enter))
            more = cell.from_sum(total).chunk(3)
            memory = torch.sigmoid(enter + more[0]) * torch.tanh(update + more[2])
            for state, remembered in below:
                memory = memory + torch.sigmoid(forget + cell.from_child(state)) * remembered
            found[node] = torch.sigmoid(leave + more[1]) * torch.tanh(memory), memory
        return found[node]

    return {node: visit(node)[0] for node in range(trees.parents.shape[1]) if trees.mask[row, node]}


def literal_phrases(cell: ConstituencyTreeLSTM, states: Tensor, trees: sa.TreeBatch, row: int) -> dict[int, Tensor]:
    """For one and two children the equations of the paper; for more the mixture of left and right."""
    hidden = cell.hidden
    left, right = cell.from_left.weight.split(hidden), cell.from_right.weight.split(hidden)
    bias = cell.bias.split(hidden)
    found: dict[int, tuple[Tensor, Tensor]] = {}

    def visit(node: int) -> tuple[Tensor, Tensor]:
        if node in found:
            return found[node]
        if node < trees.num_leaves:
            gates = [
                part + one for part, one in zip(cell.from_word(states[row, node]).split(hidden), bias, strict=True)
            ]
            memory = torch.sigmoid(gates[0]) * torch.tanh(gates[2])
        else:
            below = [visit(child) for child in children_of(trees, row, node)]
            places = [index / max(len(below) - 1, 1) for index in range(len(below))]
            pairs = list(zip(places, below, strict=True))
            of_left = sum(((1 - place) * state for place, (state, _) in pairs), torch.zeros(hidden).double())
            of_right = sum((place * state for place, (state, _) in pairs), torch.zeros(hidden).double())
            gates = [left[index] @ of_left + right[index] @ of_right + bias[index] for index in range(3)]
            memory = torch.sigmoid(gates[0]) * torch.tanh(gates[2])
            forget_left = left[3] @ of_left + right[3] @ of_right + cell.forget_bias
            forget_right = left[4] @ of_left + right[4] @ of_right + cell.forget_bias
            for place, (_, remembered) in pairs:
                memory = memory + torch.sigmoid((1 - place) * forget_left + place * forget_right) * remembered
        found[node] = torch.sigmoid(gates[1]) * torch.tanh(memory), memory
        return found[node]

    return {node: visit(node)[0] for node in range(trees.parents.shape[1]) if trees.mask[row, node]}


def literal_attention(cell: ChildAttention, states: Tensor, trees: sa.TreeBatch, row: int) -> dict[int, Tensor]:
    """A softmax in each feature over the children and the candidate."""
    left, right = cell.from_left.weight.split(cell.hidden), cell.from_right.weight.split(cell.hidden)
    of_candidate, of_own_score, of_child_score = cell.bias.split(cell.hidden)
    found: dict[int, Tensor] = {}

    def visit(node: int) -> Tensor:
        if node < trees.num_leaves:
            found[node] = torch.tanh(cell.from_word(states[row, node]))
        if node in found:
            return found[node]
        below = [visit(child) for child in children_of(trees, row, node)]
        places = [index / max(len(below) - 1, 1) for index in range(len(below))]
        sides = torch.tensor([[1 - place, place] for place in places]).double().T @ torch.stack(below)
        candidate, own, of_left, of_right = (a @ sides[0] + b @ sides[1] for a, b in zip(left, right, strict=True))
        scores = [own + of_own_score]
        scores += [(1 - place) * of_left + place * of_right + of_child_score for place in places]
        weights = (cell.scale * torch.tanh(torch.stack(scores) / cell.scale)).softmax(0)
        found[node] = (weights * torch.stack([torch.tanh(candidate + of_candidate), *below])).sum(0)
        return found[node]

    return {node: visit(node) for node in range(trees.parents.shape[1]) if trees.mask[row, node]}


def assert_same(found: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    """Equal values, and equal gradients by all inputs."""
    torch.testing.assert_close(found, expected)
    incoming = torch.randn_like(expected)
    gradients = (torch.autograd.grad(output, inputs, incoming) for output in (found, expected))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", ["dependency", "constituency", "attention"])
def test_levels_at_once_equal_a_recursion_over_nodes(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "dependency":
        batch, cell, literal = dependency_batch(), ChildSumTreeLSTM(3, 4).double(), literal_child_sum
        trees = batch.dependency
    else:
        cells = {"constituency": ConstituencyTreeLSTM(3, 4), "attention": ChildAttention(3, 4, scale=2.0)}
        batch, cell = phrase_batch(), cells[kind].double()
        literal = literal_phrases if kind == "constituency" else literal_attention
        trees = batch.constituency
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    states = torch.randn(*batch.tokens.shape, 3, dtype=torch.float64, requires_grad=True)
    output = cell(states, trees)
    expected = torch.zeros_like(output)
    for row in range(len(batch)):
        for node, state in literal(cell, states, trees, row).items():
            expected[row, node] = state
    assert_same(output, expected, [states, *cell.parameters()])


@pytest.mark.parametrize("cell", [ChildSumTreeLSTM(3, 4), ConstituencyTreeLSTM(3, 4), ChildAttention(3, 4)])
def test_sweeps_over_all_columns_equal_levels(cell: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """What graphs and accelerators do, where no shape depends on the trees."""
    batch = dependency_batch() if isinstance(cell, ChildSumTreeLSTM) else phrase_batch()
    trees = batch.dependency if isinstance(cell, ChildSumTreeLSTM) else batch.constituency
    states = torch.randn(*batch.tokens.shape, 3, requires_grad=True)
    by_level = cell(states, trees)
    # The file that the cell is from has the way through the trees by name.
    monkeypatch.setattr(f"{type(cell).__module__}.tree_order", TreeSweep)
    by_sweeps = cell(states, trees)
    assert_same(by_sweeps, by_level, [states, *cell.parameters()])


def test_binary_trees_follow_the_paper() -> None:
    """Two words and one phrase, equations 9 to 14 spelled out."""
    torch.manual_seed(0)
    cell = ConstituencyTreeLSTM(3, 2)
    batch = sa.collate(
        [sa.Sentence(["a", "b"], constituency=sa.ConstituencyTree.from_brackets("(S (A a) (B b))"))], sa.Vocabulary([])
    )
    output = cell(torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(1)), batch.constituency)
    words = cell.from_word(torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(1)))[0] + cell.bias
    memories = torch.sigmoid(words[:, :2]) * torch.tanh(words[:, 4:])
    (h_l, h_r), (c_l, c_r) = torch.sigmoid(words[:, 2:4]) * torch.tanh(memories), memories
    gates = cell.from_left(h_l) + cell.from_right(h_r)
    i, o, u = (gates[:6] + cell.bias).chunk(3)
    f_l, f_r = (gates[6:] + cell.forget_bias.repeat(2)).chunk(2)
    memory = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_l) * c_l + torch.sigmoid(f_r) * c_r
    torch.testing.assert_close(output[0, 2], torch.sigmoid(o) * torch.tanh(memory))


@pytest.mark.parametrize(("dim", "hidden"), [(300, 168), (5, 3)])
def test_parameter_counts(dim: int, hidden: int) -> None:
    def size(module: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    assert size(ChildSumTreeLSTM(dim, hidden)) == 4 * (dim * hidden + hidden**2 + hidden)
    assert size(ConstituencyTreeLSTM(dim, hidden)) == 3 * dim * hidden + 10 * hidden**2 + 4 * hidden
    assert size(ChildAttention(dim, hidden)) == dim * hidden + 8 * hidden**2 + 4 * hidden
    # The paper's 315,840 at 300 and 168 counts two biases where one does: 4 * 168 more.
    assert 4 * (300 * 168 + 168**2 + 168) == 315_840 - 4 * 168


@pytest.mark.parametrize("cell", [ConstituencyTreeLSTM(3, 4), ChildAttention(3, 4)])
def test_every_node_below_decides_and_no_other(cell: torch.nn.Module) -> None:
    batch = phrase_batch()
    trees = batch.constituency
    states = torch.randn(*batch.tokens.shape, 3, requires_grad=True)
    output = cell(states, trees)
    for row, node in trees.mask.nonzero().tolist()[::8]:
        (gradient,) = torch.autograd.grad(output[row, node].sum(), states, retain_graph=True)
        touched = gradient.abs().sum(-1) > 0
        expected = torch.zeros_like(touched)
        expected[row] = trees.subtrees()[row, node, : trees.num_leaves]
        assert torch.equal(touched, expected)


def test_a_phrase_of_equal_children_that_agree_with_the_candidate_is_their_state() -> None:
    """Weights add to one, so what all keys share is kept, by any number of children and however large the scores."""
    cell = ChildAttention(3, 4).double()
    for parameter in (cell.from_left.weight, cell.from_right.weight):
        torch.nn.init.normal_(parameter, std=100.0)
        torch.nn.init.zeros_(parameter[:4])
    torch.nn.init.zeros_(cell.from_word.weight)
    batch = phrase_batch()
    states = torch.randn(*batch.tokens.shape, 3, dtype=torch.float64)
    with torch.no_grad():
        cell.from_word.bias.copy_(cell.bias[:4].copy_(torch.tensor([-2.0, 0.0, 0.5, 30.0])))
        output = cell(states, batch.constituency)
    expected = cell.from_word.bias.tanh() * batch.constituency.mask.unsqueeze(-1)
    torch.testing.assert_close(output, expected.detach())


def test_the_order_holds_every_real_node_once_children_first() -> None:
    trees = phrase_batch().constituency
    order = TreeOrder(trees, torch.float32)
    assert sorted(order.nodes.tolist()) == trees.mask.flatten().nonzero().squeeze(1).tolist()
    rank = {node: index for index, node in enumerate(order.nodes.tolist())}
    for node in order.nodes.tolist():
        row, column = divmod(node, order.width)
        parent = row * order.width + int(trees.parents[row, column])
        assert rank[node] < rank[parent] or node == parent
    assert sum(order.level_sizes) == len(rank)


def test_a_pass_costs_operations_per_level_not_per_node() -> None:
    """A chain of 200 levels and a bush of 200 words, both without recursion."""
    chain = sa.Sentence(["a"] * 200, dependency=sa.DependencyTree(list(range(200))))
    bush = sa.Sentence(["a"] * 200, dependency=sa.DependencyTree([0] + [1] * 199))
    batch = sa.collate([chain, bush], sa.Vocabulary(["a"]))
    order = TreeOrder(batch.dependency, torch.float32)
    assert order.level_sizes[:2] == [200, 2]
    states = torch.randn(2, 200, 3, requires_grad=True)
    output = ChildSumTreeLSTM(3, 2)(states, batch.dependency)
    output[:, 0].sum().backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert output.isfinite().all()


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("tree_lstm", phrase_batch()),
        ("child_attention", phrase_batch()),
        ("dependency_tree_lstm", dependency_batch()),
    ],
)
def test_the_sentence_vector_is_the_mean_of_the_roots(name: str, batch: sa.SentenceBatch) -> None:
    encoder = build(name, vocab_size=3, dim=4, dropout=0.0)
    encoding = encoder(batch)
    trees = batch.dependency if name == "dependency_tree_lstm" else batch.constituency
    for row in range(len(batch)):
        tops = [
            encoding.states[row, node]
            for node in range(trees.parents.shape[1])
            if trees.mask[row, node] and int(trees.parents[row, node]) == node
        ]
        expected = torch.stack(tops).mean(0) if tops else torch.zeros(4)
        torch.testing.assert_close(encoding.vector[row], expected)
    assert torch.equal(encoding.mask, trees.mask)


@pytest.mark.parametrize(("name", "structure"), [("tree_lstm", "constituency"), ("dependency_tree_lstm", "dependency")])
def test_a_missing_tree_is_named(name: str, structure: str) -> None:
    sentences = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=3), 2)]
    batch = sa.collate([*sentences, sa.Sentence(["no", "tree"])], sa.Vocabulary(["a"]))
    with pytest.raises(MissingStructure, match=rf"RecursiveNetwork\('{structure}'\).* sentence 2 \('no tree'\)"):
        build(name, vocab_size=3, dim=4)(batch)
