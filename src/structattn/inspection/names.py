"""Short names of heads, gates and phrases, for figures, pages and tables, in place of module paths."""

from collections.abc import Sequence

from structattn.layers.attention_map import AttentionMap
from structattn.syntax.constituency_tree import Span


def titles_of(maps: Sequence[AttentionMap]) -> list[list[str]]:
    """A short title for each head of each map, distinct within a sentence.

    The names of the heads are enough if no two modules share one. Otherwise the module's path goes before them, without
    the parts common to all paths: ``blocks.0.attention`` and ``blocks.1.attention`` become "layer 1" and "layer 2".

    Example:
        >>> import torch
        >>> weights = torch.ones(1, 1, 1)
        >>> paths = ("blocks.0.attention", "blocks.1.attention")
        >>> titles_of([AttentionMap(path, ("a",), ("a",), weights, "attention", ("x",)) for path in paths])
        [['layer 1'], ['layer 2']]
    """
    short = _titles_of_modules(maps)
    return [
        list(found.head_names)
        if not short[found.name]
        else [short[found.name]]
        if len(found.head_names) == 1
        else [f"{short[found.name]} · {name}" for name in found.head_names]
        for found in maps
    ]


def module_titles(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """A short title for the path of each module, empty if the names of its heads are enough; gates as in `gate_names`.

    Example:
        >>> import torch
        >>> paths, weights = ("layers.0.attention", "layers.1.attention", "pooler"), torch.ones(1, 1, 1)
        >>> kinds = ("attention", "attention", "pooling")
        >>> maps = [AttentionMap(*one, ("a",), ("a",), weights, kind, ("x",)) for *one, kind in zip(paths, kinds)]
        >>> module_titles(maps)
        {'layers.0.attention': 'layer 1', 'layers.1.attention': 'layer 2', 'pooler': ''}
    """
    titles: dict[str, str] = {}
    for kind in ("attention", "pooling"):
        titles |= _titles_of_modules([found for found in maps if found.kind == kind])
    return titles | gate_names(maps)


def _titles_of_modules(maps: Sequence[AttentionMap]) -> dict[str, str]:
    names = {found.name: found.head_names for found in maps}
    paths = list(names)
    if len({name for heads in names.values() for name in heads}) == sum(map(len, names.values())):
        return dict.fromkeys(paths, "")
    return dict(zip(paths, _short(paths), strict=True))


def gate_names(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """A short name for the path of each gate: that of the attention head that feeds it, if there is just one.

    Otherwise it is the path without the parts common to all gates, and empty for a single gate.

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
