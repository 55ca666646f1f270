"""Best and random spanning trees of directed graphs, for whole batches at once.

Separate because these are graph algorithms, not dynamic programs over a chart.

Reference: Edmonds (1967), Optimum branchings (also Chu and Liu, 1965); Lawler (1972), k best solutions by partition;
Zmigrod, Vieira and Cotterell (2020), Please mind the root; Zmigrod et al. (2021), Efficient sampling of dependency
structures.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from structattn.distributions.semirings import drawn
from structattn.kernels import native, spanning_tree


@dataclass(frozen=True)
class SpanningTreeSelector:
    """Best and random spanning trees.

    Among equal trees, each contraction prefers the head with the lowest id, then the word that comes first.

    Attributes:
        num_words: number of words of the longest sentence.
        single_root: whether exactly one word hangs from the root.
    """

    num_words: int
    single_root: bool

    def best(
        self, scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], *, count: int
    ) -> tuple[Float[Tensor, "{count} batch"], Bool[Tensor, "{count} batch part"]]:
        """The ``count`` best trees, by partition of what is left after each (Lawler, 1972)."""
        arcs = scores.unflatten(-1, (self.num_words, self.num_words + 1))
        if count == 1:
            heads, found = maximum_spanning_trees(arcs, lengths, single_root=self.single_root)
            return _scores(arcs, heads, lengths, found)[None], _arcs(heads[None], lengths, found[None])
        options = torch.ones_like(arcs, dtype=torch.bool).unsqueeze(1)
        heads, values = self._solve(arcs, lengths, options)
        batch = torch.arange(len(scores), device=scores.device)
        best = []
        for rank in range(count):
            if not values.shape[1]:
                best.append((values.new_full((len(scores),), -torch.inf), heads.new_zeros(len(scores), self.num_words)))
                continue
            value, slot = values.max(1)
            tree = heads[batch, slot]
            best.append((value, tree))
            if rank == count - 1:
                break
            without = values.scatter(1, slot[:, None], -torch.inf)
            parts_left = _partition(options[batch, slot], tree)
            new_heads, new_values = self._solve(arcs, lengths, parts_left)
            # Nothing is left to choose for padding, nor where there was no tree.
            real = (torch.arange(self.num_words, device=scores.device) < lengths[:, None]) & (value > -torch.inf)[
                :, None
            ]
            new_values = new_values.masked_fill(~real, -torch.inf)
            values = torch.cat([without, new_values], 1)
            kept = values.sort(dim=1, descending=True, stable=True).indices[:, : count - rank - 1]
            values = values.gather(1, kept)
            heads = torch.cat([heads, new_heads], 1)[batch[:, None], kept]
            options = torch.cat([options, parts_left], 1)[batch[:, None], kept]
        values, trees = (torch.stack(column) for column in zip(*best, strict=True))
        return values, _arcs(trees, lengths, values > -torch.inf)

    def draw(
        self,
        scores: Float[Tensor, "batch part"],
        lengths: Int[Tensor, " batch"],
        *,
        count: int,
        generator: Generator | None,
    ) -> Bool[Tensor, "{count} batch part"]:
        """``count`` exact samples, by taking back the eliminations of the matrix-tree theorem.

        Random walks (Wilson, 1996) also sample exactly, but walk for ever around a cycle of strong arcs. Here each step
        costs the same: given a tree over the nodes ``0 .. k-1`` of the reduced graph, every arc is an old one or a
        detour over ``k``. The ends of detours become children of ``k``; the start of the topmost detour becomes its
        head. Trees with the same detours have the same total weight before and after (the weighted Cayley formula), so
        the sample stays exact.
        """
        weights = scores.unflatten(-1, (self.num_words, self.num_words + 1)).transpose(-1, -2).unsqueeze(0)
        log_partition, steps = spanning_tree.eliminations(weights, lengths, single_root=self.single_root)
        heads = torch.zeros(count, len(scores), 0, dtype=torch.int64, device=scores.device)
        for node, gone in steps:
            via = gone.via[0].expand(count, -1, -1, -1).gather(-2, heads.unsqueeze(-2)).squeeze(-2)
            uniform = torch.rand(via.shape, dtype=via.dtype, device=via.device, generator=generator)
            detour = uniform < via
            shares = gone.heads[0, ..., 0]
            if self.single_root and node > 1:
                shares = shares.clone()
                shares[:, 0] = 0
            alone = drawn(shares, count, generator=generator).T
            head = torch.where(detour.any(-1), _start_of_top_detour(heads, detour), alone)
            heads = torch.cat([heads.masked_fill(detour, node), head.unsqueeze(-1)], -1)
        return _arcs(heads, lengths, (log_partition > -torch.inf).expand(count, -1))

    def _solve(
        self,
        arcs: Float[Tensor, "batch word head_id"],
        lengths: Tensor,
        options: Bool[Tensor, "batch choice word head_id"],
    ) -> tuple[Int[Tensor, "batch choice word"], Float[Tensor, "batch choice"]]:
        """The best tree among the arcs of each choice, and its score."""
        choices = options.shape[1]
        allowed = arcs.unsqueeze(1).masked_fill(~options, -torch.inf).flatten(0, 1)
        repeated = lengths.repeat_interleave(choices)
        heads, found = maximum_spanning_trees(allowed, repeated, single_root=self.single_root)
        values = _scores(allowed, heads, repeated, found)
        return heads.view(len(arcs), choices, self.num_words), values.view(len(arcs), choices)


def maximum_spanning_trees(
    scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Int[Tensor, "batch word"], Bool[Tensor, " batch"]]:
    """Edmonds' algorithm with all cycles of all sentences contracted in one round; fewer rounds than words.

    Each component takes its best entering arc, which is then subtracted from all its entering arcs; components on a
    cycle become one. Undoing the rounds, a component keeps its arc unless a later arc enters exactly it. A single root
    is the wish for few root arcs, ordered before the score (no large constant is added, so no digit is lost).

    Args:
        scores: row = word, column = id of its head; ``-inf`` forbids an arc.
        lengths: number of words of each sentence.
        single_root: whether exactly one word hangs from the root.

    Returns:
        Heads, and whether there is a tree at all.

    Example:
        >>> scores = torch.tensor([[[0.0, -torch.inf, 9.0], [1.0, 9.0, -torch.inf]]])
        >>> maximum_spanning_trees(scores, torch.tensor([2]), single_root=False)[0].tolist()
        [[2, 0]]
    """
    compiled = _compiled_trees(scores, lengths, single_root=single_root)
    if compiled is not None:
        return compiled
    batch, words, nodes = scores.shape
    real = torch.arange(words, device=scores.device) < lengths[:, None]
    root = torch.arange(nodes, device=scores.device) == 0
    gain = torch.where(real[..., None], scores, torch.zeros_like(scores).masked_fill(~root, -torch.inf))
    # Arcs are compared by level first, then by gain.
    level = torch.zeros_like(gain)
    if single_root:
        level = level.masked_fill(real[..., None] & root, -1)
    component = torch.arange(nodes, device=scores.device).expand(batch, nodes)
    found = torch.ones(batch, dtype=torch.bool, device=scores.device)
    rounds = []
    while True:
        of_word = component[:, 1:]
        outside = (component[:, None, :] != of_word[..., None]) & (gain > -torch.inf)
        word_level = level.masked_fill(~outside, -torch.inf).amax(-1)
        first = outside & (level == word_level[..., None])
        word_gain, head = gain.masked_fill(~first, -torch.inf).max(-1)
        best_level = _best_of_component(word_level, component)
        word_gain = word_gain.masked_fill(word_level != best_level.gather(1, of_word), -torch.inf)
        best_gain = _best_of_component(word_gain, component)
        enters = (word_gain == best_gain.gather(1, of_word)) & (word_gain > -torch.inf)
        index = torch.arange(words, device=scores.device).where(enters, words)
        entered = index.new_full((batch, nodes), words).scatter_reduce(1, of_word, index, "amin")
        found &= (entered.gather(1, of_word) < words).all(-1)
        entered = entered.clamp(max=max(words - 1, 0))
        start = head.gather(1, entered) if words else entered
        rounds.append((component, entered, start))
        level = level - best_level.masked_fill(best_level == -torch.inf, 0).gather(1, of_word)[..., None]
        gain = gain - best_gain.masked_fill(best_gain == -torch.inf, 0).gather(1, of_word)[..., None]
        reached = (best_gain > -torch.inf) & ~root
        on_cycle, name = _cycles(component.gather(1, start).where(reached, 0))
        if not on_cycle.any():
            break
        component = name.where(on_cycle, torch.arange(nodes, device=scores.device)).gather(1, component)
    heads = _undo(rounds)[:, 1:]
    if single_root:
        found = found & (((heads == 0) & real).sum(-1) == lengths.clamp(max=1))
    return heads.where(found[:, None] & real, 0), found


def _compiled_trees(scores: Tensor, lengths: Tensor, *, single_root: bool) -> tuple[Tensor, Tensor] | None:
    """The same rounds in a compiled kernel; None if there is none."""
    function = native.function("arborescence", scores, pointers=4, numbers=3)
    if function is None:
        return None
    batch, words, _ = scores.shape
    scores, lengths = scores.contiguous(), lengths.contiguous()
    heads, found = lengths.new_empty(batch, words), torch.empty_like(lengths)
    tensors = (scores, lengths, heads, found)
    function(*(tensor.data_ptr() for tensor in tensors), batch, words, int(single_root))
    return heads, found.bool()


def _best_of_component(values: Tensor, component: Tensor) -> Tensor:
    best = values.new_full(component.shape, -torch.inf)
    return best.scatter_reduce(1, component[:, 1:], values, "amax")


def _cycles(target: Int[Tensor, "batch node"]) -> tuple[Bool[Tensor, "batch node"], Int[Tensor, "batch node"]]:
    """Which nodes lie on a cycle of a pointer graph (node 0 points to itself and is none), and its lowest node."""
    name = torch.arange(target.shape[1], device=target.device).expand_as(target)
    for _ in range(target.shape[1].bit_length()):
        name = name.minimum(name.gather(1, target))
        target = target.gather(1, target)
    on_cycle = torch.zeros_like(target, dtype=torch.bool).scatter(1, target, True)
    on_cycle[:, 0] = False
    return on_cycle, name


def _undo(rounds: list[tuple[Tensor, Tensor, Tensor]]) -> Int[Tensor, "batch node"]:
    """Heads of all nodes, from the arcs that entered the components of each round."""
    component, entered, start = rounds[-1]
    nodes = torch.arange(component.shape[1], device=component.device)
    for earlier, own_entered, own_start in reversed(rounds[:-1]):
        later_entered, later_start = entered.gather(1, component), start.gather(1, component)
        enters_me = earlier.gather(1, (later_entered + 1).clamp(max=len(nodes) - 1)) == nodes
        entered, start = later_entered.where(enters_me, own_entered), later_start.where(enters_me, own_start)
        component = earlier
    return start


def _partition(
    options: Bool[Tensor, "batch word head_id"], heads: Int[Tensor, "batch word"]
) -> Bool[Tensor, "batch choice word head_id"]:
    """All trees but one, in disjoint sets: set ``w`` agrees with it before word ``w`` and differs there."""
    words = heads.shape[1]
    chosen = torch.nn.functional.one_hot(heads, words + 1).bool().unsqueeze(1)
    choice = torch.arange(words, device=heads.device)
    before = (choice < choice[:, None])[..., None]
    here = (choice == choice[:, None])[..., None]
    return options.unsqueeze(1) & (chosen | ~before) & ~(chosen & here)


def _start_of_top_detour(heads: Int[Tensor, "count batch word"], detour: Bool[Tensor, "count batch word"]) -> Tensor:
    """Head of the first word with a detour that no word above it has."""
    if not heads.shape[-1]:
        return heads.new_zeros(heads.shape[:-1])
    root = torch.zeros_like(detour[..., :1])
    parent = torch.cat([torch.zeros_like(heads[..., :1]), heads], -1)
    above = torch.cat([root, detour], -1).gather(-1, parent)
    for _ in range(parent.shape[-1].bit_length()):
        above = above | above.gather(-1, parent)
        parent = parent.gather(-1, parent)
    top = (detour & ~above[..., 1:]).int().argmax(-1, keepdim=True)
    return heads.gather(-1, top).squeeze(-1)


def _scores(arcs: Tensor, heads: Int[Tensor, "batch word"], lengths: Tensor, found: Tensor) -> Tensor:
    """Sum of the arcs of each tree; ``-inf`` where there is none."""
    values = arcs.gather(-1, heads.unsqueeze(-1)).squeeze(-1)
    real = torch.arange(heads.shape[-1], device=arcs.device) < lengths[:, None]
    return values.masked_fill(~real, 0).sum(-1).masked_fill(~found, -torch.inf)


def _arcs(heads: Int[Tensor, "count batch word"], lengths: Tensor, found: Bool[Tensor, "count batch"]) -> Tensor:
    words = heads.shape[-1]
    real = (torch.arange(words, device=heads.device) < lengths[:, None]) & found[..., None]
    arcs = torch.zeros(*heads.shape, words + 1, dtype=torch.bool, device=heads.device)
    return arcs.scatter_(-1, heads.unsqueeze(-1), real.unsqueeze(-1)).flatten(-2)
