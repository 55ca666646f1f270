"""Maximum spanning trees of directed graphs, for whole batches at once: Edmonds' algorithm.

Each component takes its best entering arc, whose score is then subtracted from those of all arcs that enter it; the
components on a cycle are merged. When the rounds are undone, a component keeps its arc unless an arc of a later round
enters this very component. A single root is enforced by preferring fewer root arcs before higher scores (no large
constant is added, so no precision is lost).

Reference: Edmonds (1967), Optimum branchings (also Chu and Liu, 1965); Zmigrod, Vieira and Cotterell (2020), Please
mind the root.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def find_best_trees(
    scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Int[Tensor, "batch word"], Bool[Tensor, " batch"]]:
    """Heads, and whether there is a tree; all cycles of all sentences are contracted in each round."""
    batch, words, nodes = scores.shape
    real = torch.arange(words, device=scores.device) < lengths[:, None]
    root = torch.arange(nodes, device=scores.device) == 0
    gain = torch.where(real[..., None], scores, torch.zeros_like(scores).masked_fill(~root, -torch.inf))
    # Arcs are compared by level first, then by gain. No arc from the root is on a cycle, so contraction keeps levels.
    level = torch.zeros_like(gain)
    if single_root:
        level = level.masked_fill(real[..., None] & root, -1)
    component = torch.arange(nodes, device=scores.device).expand(batch, nodes)
    exists = torch.ones(batch, dtype=torch.bool, device=scores.device)
    rounds = []
    for _ in range(max(words, 1)):
        of_word = component[:, 1:]
        outside = (component[:, None, :] != of_word[..., None]) & (gain > -torch.inf)
        word_level = level.masked_fill(~outside, -torch.inf).amax(-1)
        first = outside & (level == word_level[..., None])
        word_gain, head = gain.masked_fill(~first, -torch.inf).max(-1)
        best_level = _max_by_component(word_level, component)
        word_gain = word_gain.masked_fill(word_level != best_level.gather(1, of_word), -torch.inf)
        best_gain = _max_by_component(word_gain, component)
        enters = (word_gain == best_gain.gather(1, of_word)) & (word_gain > -torch.inf)
        index = torch.arange(words, device=scores.device).where(enters, words)
        entered = index.new_full((batch, nodes), words).scatter_reduce(1, of_word, index, "amin")
        exists &= (entered.gather(1, of_word) < words).all(-1)
        entered = entered.clamp(max=max(words - 1, 0))
        start = head.gather(1, entered) if words else entered
        rounds.append((component, entered, start))
        gain = gain - best_gain.masked_fill(best_gain == -torch.inf, 0).gather(1, of_word)[..., None]
        reached = (best_gain > -torch.inf) & ~root
        on_cycle, name = _find_cycles(component.gather(1, start).where(reached, 0))
        # Further rounds change nothing, but only on the CPU is it free to check whether one is needed.
        if scores.is_cpu and not on_cycle.any():
            break
        component = name.where(on_cycle, torch.arange(nodes, device=scores.device)).gather(1, component)
    heads = _undo(rounds)[:, 1:]
    if single_root:
        exists = exists & (((heads == 0) & real).sum(-1) == lengths.clamp(max=1))
    return heads.where(exists[:, None] & real, 0), exists


def _max_by_component(values: Tensor, component: Tensor) -> Tensor:
    best = values.new_full(component.shape, -torch.inf)
    return best.scatter_reduce(1, component[:, 1:], values, "amax")


def _find_cycles(target: Int[Tensor, "batch node"]) -> tuple[Bool[Tensor, "batch node"], Int[Tensor, "batch node"]]:
    """Which nodes lie on a cycle of a pointer graph (not node 0, which points to itself), and its lowest node."""
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
    for earlier, earlier_entered, earlier_start in reversed(rounds[:-1]):
        later_entered, later_start = entered.gather(1, component), start.gather(1, component)
        enters_me = earlier.gather(1, (later_entered + 1).clamp(max=len(nodes) - 1)) == nodes
        entered = later_entered.where(enters_me, earlier_entered)
        start = later_start.where(enters_me, earlier_start)
        component = earlier
    return start
