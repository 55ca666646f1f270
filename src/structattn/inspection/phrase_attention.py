"""How much of a trained model's attention goes to phrases, layer by layer, compared with uniform attention.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", table 4. The shares are summed over a
whole data set, translations included; no weights are kept.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import Example, SentenceBatch
from structattn.errors import ConfigError
from structattn.layers.recording import recording
from structattn.pictures import Series, bar_chart
from structattn.tasks import TaskModel

Kind = Literal["self", "cross"]


@dataclass(frozen=True)
class PhraseAttention:
    r"""One layer's attention to phrases: ``rho = sum P[phrase columns] / sum P``, over all queries of a data set.

    Attributes:
        kind: ``self`` for queries that are phrases or words themselves, ``cross`` for those of a decoder.
        layer: counted from 1 among those of its kind.
        shares: the share of each head.
        uniform: the share under uniform attention to all allowed keys.
        queries: number of queries, without words that may attend to no phrase, as under the subtree mask.

    Example:
        >>> row = PhraseAttention("cross", 1, (0.6, 0.7), 0.4, 120)
        >>> round(row.share, 2), row.name
        (0.65, 'cross-attention 1')
    """

    kind: Kind
    layer: int
    shares: tuple[float, ...]
    uniform: float
    queries: int

    @property
    def share(self) -> float:
        """The mean over heads."""
        return statistics.fmean(self.shares)

    @property
    def name(self) -> str:
        """The name for tables and pictures."""
        return f"{self.kind}-attention {self.layer}"


def phrase_attention(model: TaskModel, examples: Sequence[Example], *, batch_size: int = 32) -> list[PhraseAttention]:
    """Measure each layer of a model on some examples; decoders read the gold texts.

    Args:
        model: one that attends over words and phrases, such as a Tree Transformer.
        examples: examples, with labels if the model generates text.
        batch_size: examples per batch.

    Returns:
        Self-attention, then cross-attention, each from the first layer to the last.

    Raises:
        ConfigError: if there are no examples, one has no text for the decoder, or no part of the model attends to
            phrases.
        MissingStructure: if a sentence lacks its tree.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (VP (V bark) (R now)))")
        >>> sentence = sa.Sentence(tree.words, constituency=tree)
        >>> encoder = sa.encoders.build("tree_transformer", vocab_size=2, dim=8, num_heads=2, num_layers=1)
        >>> vocabulary = sa.Vocabulary([])
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.get_task("sentiment"), vocabulary=vocabulary)
        >>> [(row.name, round(row.uniform, 2), row.queries) for row in phrase_attention(model, [Example([sentence])])]
        [('self-attention 1', 0.37, 2)]
    """
    if not examples:
        raise ConfigError("expected at least one example, got none")
    sums: dict[tuple[Kind, nn.Module], _Sum] = {}
    for start in range(0, len(examples), batch_size):
        part = examples[start : start + batch_size]
        if model.task.answer == "text":
            for example in part:
                if not isinstance(example.label, str):
                    raise ConfigError(f"{example.describe()} has no text for the decoder to read")
        for kind, module, shares in _measure(model, model.collate(part)):
            sums.setdefault((kind, module), _Sum()).add(*shares)
    if not sums:
        raise ConfigError("expected a model that attends over words and phrases, as tree_transformer does, got none")
    layers = Counter[Kind]()
    rows = []
    for (kind, _), total in sums.items():
        layers[kind] += 1
        rows.append(PhraseAttention(kind, layers[kind], *total.means()))
    return sorted(rows, key=lambda row: row.kind != "self")


def phrase_attention_table(rows: Sequence[PhraseAttention]) -> list[list[str]]:
    """A table of the layers: the share on phrases, that of uniform attention, their ratio, the lowest and highest head.

    Args:
        rows: the result of ``phrase_attention``.

    Returns:
        A header, a line for each layer, and one for all layers of a kind if there are several.

    Example:
        >>> for line in phrase_attention_table([PhraseAttention("cross", 1, (0.6, 0.7), 0.4, 120)]):
        ...     line
        ['attention', 'on phrases', 'uniform', 'ratio', 'lowest head', 'highest head', 'queries']
        ['cross-attention 1', '65.0%', '40.0%', '1.62', '60.0%', '70.0%', '120']
    """
    lines = [["attention", "on phrases", "uniform", "ratio", "lowest head", "highest head", "queries"]]
    for kind in ("self", "cross"):
        layers = [row for row in rows if row.kind == kind]
        lines += [_line(row.name, row.shares, row.uniform, queries=row.queries) for row in layers]
        if len(layers) > 1:
            heads = [share for row in layers for share in row.shares]
            uniform = statistics.fmean(row.uniform for row in layers)
            lines.append(_line(f"{kind}-attention", heads, uniform, queries=layers[0].queries))
    return lines


def phrase_attention_figure(rows: Sequence[PhraseAttention], *, title: str | None = None) -> str:
    """Bars of each layer's share, with a line from its lowest head to its highest, beside the uniform share.

    Args:
        rows: the result of ``phrase_attention``.
        title: a heading.

    Returns:
        An SVG text.

    Raises:
        ValueError: for no rows.

    Example:
        >>> "uniform" in phrase_attention_figure([PhraseAttention("cross", 1, (0.6, 0.7), 0.4, 120)])
        True
    """
    if not rows:
        raise ValueError("expected at least one layer to draw, got none")
    errors = [(row.share - min(row.shares), max(row.shares) - row.share) for row in rows]
    shares = Series("on phrases", [], [row.share for row in rows], errors=errors)
    uniform = Series("uniform", [], [row.uniform for row in rows])
    return bar_chart(
        [row.name for row in rows], [shares, uniform], title=title, value_label="attention on phrases", percent=True
    )


def phrase_share(
    weights: Float[Tensor, "head query key"], num_words: int, *, allowed: Float[Tensor, "query key"] | None = None
) -> tuple[Float[Tensor, " head"], float]:
    """The share of all attention that goes to phrases, by head, and its value under uniform attention to allowed keys.

    The first ``num_words`` keys are words, the others phrases. 0 where there is no attention at all.
    """
    uniform = torch.ones_like(weights[0]) if allowed is None else allowed
    uniform = uniform / uniform.sum(-1, keepdim=True).clamp(min=1)
    return _share(weights, num_words), float(_share(uniform, num_words))


def _share(weights: Tensor, num_words: int) -> Tensor:
    total = weights.sum((-2, -1))
    return weights[..., num_words:].sum((-2, -1)) / total.where(total > 0, 1.0)


def _line(name: str, shares: Sequence[float], uniform: float, *, queries: int) -> list[str]:
    share = statistics.fmean(shares)
    percent = [f"{100 * value:.1f}%" for value in (share, uniform, min(shares), max(shares))]
    ratio = f"{share / uniform:.2f}" if uniform else ""
    return [name, *percent[:2], ratio, *percent[2:], str(queries)]


class _Sum:
    """Shares of sentences, weighted by their number of queries."""

    def __init__(self) -> None:
        self.shares: Tensor | float = 0.0
        self.uniform = 0.0
        self.queries = 0

    def add(self, shares: Tensor, uniform: float, queries: int) -> None:
        self.shares = self.shares + shares.double() * queries
        self.uniform += uniform * queries
        self.queries += queries

    def means(self) -> tuple[tuple[float, ...], float, int]:
        shares = torch.as_tensor(self.shares) / self.queries
        return tuple(shares.tolist()), self.uniform / self.queries, self.queries


def _measure(model: Any, batch: Any) -> Iterator[tuple[Kind, nn.Module, tuple[Tensor, float, int]]]:
    """For each module that attends to phrases and each sentence: shares of heads, uniform share, number of queries."""
    batch = batch.to(model.device)
    with recording(model) as records:
        model(batch)
    calls = Counter[int]()
    for record in records:
        module, source = record.module, batch.sides[calls[id(record.module)] % len(batch.sides)]
        calls[id(module)] += 1
        trees = source.constituency
        kind: Kind | None = getattr(module, "attends_to_phrases", None)
        if trees is None or kind is None or record.weights.shape[-1] != trees.mask.shape[1]:
            continue
        allowed = _allowed_nodes(module, source) if kind == "self" else _read_nodes(batch.outputs != 0, source)
        for row, real in enumerate(allowed.cpu()):
            queries = real[:, trees.num_leaves :].any(-1)
            columns = trees.mask[row].cpu()
            if queries.any():
                weights = record.weights[row][:, queries][:, :, columns]
                permitted = real[queries][:, columns].float()
                words = int(columns[: trees.num_leaves].sum())
                yield kind, module, (*phrase_share(weights, words, allowed=permitted), int(queries.sum()))


def _allowed_nodes(attention: Any, source: SentenceBatch) -> Bool[Tensor, "batch node node"]:
    trees = source.require("constituency", wanted_by="TreeAttention")
    allowed = trees.mask[:, :, None] & trees.mask[:, None, :]
    permitted = None if attention.prior is None else attention.prior(source).allowed
    # The heads of a Tree Transformer share one mask.
    return allowed if permitted is None else allowed & permitted[:, 0]


def _read_nodes(steps: Bool[Tensor, "batch step"], source: SentenceBatch) -> Bool[Tensor, "batch step node"]:
    trees = source.require("constituency", wanted_by="TreeCrossAttention")
    return steps[:, :, None] & trees.mask[:, None, :]
