"""Short names of heads, gates and phrases, for figures, pages and tables, in place of module paths."""

from collections.abc import Sequence

from structattn.inspection.attention_map import AttentionMap
from structattn.syntax.constituency import Span


def titles_of(maps: Sequence[AttentionMap]) -> list[list[str]]:
    """A short title for each head of each map, distinct within a sentence.

    The names of the heads are enough if no two modules share one. Otherwise the module's path goes before them, without
    what all paths have in common: ``blocks.0.attention`` and ``blocks.1.attention`` become "layer 1" and "layer 2".

    Example:
        >>> import torch
        >>> weights = torch.ones(1, 1, 1)
        >>> paths = ("blocks.0.attention", "blocks.1.attention")
        >>> titles_of([AttentionMap(path, ("a",), ("a",), weights, "attention", ("x",)) for path in paths])
        [['layer 1'], ['layer 2']]
    """
    names = {found.name: found.head_names for found in maps}
    paths = list(names)
    if len({name for heads in names.values() for name in heads}) == sum(map(len, names.values())):
        return [list(found.head_names) for found in maps]
    short = dict(zip(paths, _short(paths), strict=True))
    return [
        [short[found.name]]
        if len(found.head_names) == 1
        else [f"{short[found.name]} · {name}" for name in found.head_names]
        for found in maps
    ]


def gate_names(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """For the path of each gate a short name: that of the one attention head that feeds it, if there is just one.

    Otherwise it is the path without what all gates have in common, and nothing for a gate that is the only one.

    Example:
        >>> import torch
        >>> weights = torch.ones(1, 1, 1)
        >>> attention = AttentionMap("0.attention", ("a",), ("a",), weights, "attention", ("forward",))
        >>> gate_names([attention, AttentionMap("0.gate", ("a",), ("gate",), weights, "gate", ("FusionGate",))])
        {'0.gate': 'forward'}
    """
    gates = list(dict.fromkeys(found.name for found in maps if found.kind == "gate"))
    names = dict(zip(gates, _short(gates) if len(gates) > 1 else [""], strict=False))
    for found in maps:
        if found.kind == "gate":
            block = found.name.rpartition(".")[0] + "."
            feeding = {
                other.name: other.head_names
                for other in maps
                if other.kind == "attention" and other.name.startswith(block)
            }
            heads = [head for heads in feeding.values() for head in heads]
            if len(heads) == 1:
                names[found.name] = heads[0]
    return names


def phrase_names(words: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """A name for each phrase: its label, its first and its last word.

    Example:
        >>> phrase_names(["a", "dog", "barks"], [("NP", 0, 2), ("VP", 2, 3)])
        ['NP (a … dog)', 'VP (barks)']
    """
    return [f"{label} ({' … '.join(words[i] for i in sorted({start, end - 1}))})" for label, start, end in spans]


def _short(paths: Sequence[str]) -> list[str]:
    parts = [path.split(".") for path in paths]
    while all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    if len(parts) > 1 and all(len(part) == 1 and part[0].isdecimal() for part in parts):
        return [f"layer {int(number) + 1}" for (number,) in parts]
    return [".".join(part) for part in parts]
