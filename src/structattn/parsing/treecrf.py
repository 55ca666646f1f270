"""The biaffine tree-CRF parser: states of words, biaffine scores, and a distribution over whole trees.

Reference: Dozat and Manning (2017), Deep biaffine attention for neural dependency parsing; for the likelihood of trees
Koo et al. (2007), Structured prediction models via the matrix-tree theorem, and Eisner (2000); as one system Zhang, Li
and Zhang (2020), Efficient second-order TreeCRF for neural dependency parsing, section 3 (the first-order part).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from structattn.data.saved_model import SavedModel
from structattn.distributions import DependencyCRF, Labelled, NonProjectiveDependencyCRF
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.parsing.batched_parsing import parse_in_batches
from structattn.parsing.biaffine import BiaffineScorer, ParserScores
from structattn.syntax import DependencyTree, Sentence

_FAMILIES: Mapping[str, type[DependencyCRF] | type[NonProjectiveDependencyCRF]] = {
    "all": NonProjectiveDependencyCRF,
    "projective": DependencyCRF,
}
_LOSSES = ("trees", "words", "labelled")
_ROOT = "root"


@runtime_checkable
class EncoderBatch(Protocol):
    """The interface of the tensors that a parser's encoder reads."""

    @property
    def mask(self) -> Bool[Tensor, "batch word"]:
        """``True`` at words."""
        ...

    @property
    def lengths(self) -> Int64[Tensor, " batch"]:
        """Number of words of each sentence."""
        ...

    def to(self, device: torch.device | str) -> "EncoderBatch":
        """The same batch on another device."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """A module that maps sentences to states of their words."""

    #: Name of this kind of encoder in a parser folder.
    kind: str
    #: Longer sentences are parsed in stretches of this many words.
    max_length: int
    output_dim: int
    #: The options that it was built with, as plain values.
    options: Mapping[str, Any]

    def sizes(self, sentences: Sequence[Sentence]) -> Sequence[int]:
        """Number of words or subword tokens of each sentence; sentences of similar size are batched together."""
        ...

    def collate(self, sentences: Sequence[Sentence]) -> EncoderBatch:
        """Sentences as tensors; each has at least one word."""
        ...

    def count_unknown(self, words: Sequence[str]) -> int:
        """How many words it knows nothing of but their characters."""
        ...

    def __call__(self, batch: Any) -> Tensor:
        """States of the words, ``(batch, word, dim)``; zero at padding."""
        ...

    def save(self, folder: Path) -> None:
        """Write everything needed to rebuild the encoder except its parameters."""
        ...


@dataclass(frozen=True, eq=False)
class GoldBatch:
    """Sentences as tensors, with their trees and tags; labels and tags that the parser does not know are -1."""

    inputs: EncoderBatch
    #: CoNLL id of each word's head; 0 at padding.
    heads: Int64[Tensor, "batch word"]
    #: Number of each arc's label; -1 at padding.
    labels: Int64[Tensor, "batch word"]
    #: Number of each word's tag; -1 at padding.
    tags: Int64[Tensor, "batch word"]

    def to(self, device: torch.device | str) -> "GoldBatch":
        """The same batch on another device."""
        gold = (self.heads, self.labels, self.tags)
        return GoldBatch(self.inputs.to(device), *(tensor.to(device) for tensor in gold))


class TreeCRF(SavedModel):
    r"""A dependency parser: encoder, biaffine scores, a distribution over trees with one root.

    The loss of a sentence is :math:`-\log p(\text{tree})`, the sum over words of :math:`-\log p(\text{label} \mid
    \text{gold arc})` and of :math:`-\log p(\text{tag})`, divided by the number of words of the batch. With
    ``loss="words"`` every word chooses its head independently, :math:`\mathrm{softmax}_j s_{ij}`, as in Dozat and
    Manning's own training. With either of these losses, the prediction is the most probable tree of the distribution;
    each arc then gets its best label, and ``root`` is the label of the root's arc and of no other. With
    ``loss="labelled"``, trees and labels are chosen together: the distribution is ``Labelled``, an arc with a label
    scores :math:`s_{ij}` plus the score of the label, and the loss of a sentence is :math:`-\log p(\text{tree},
    \text{labels})` and that of the tags.

    Args:
        encoder: states of words: a ``WordEncoder``, a ``SubwordEncoder``, or a module of your own with their methods.
        scorer: scores of arcs, labels and tags, for as many labels and tags as given here.
        labels: labels of arcs.
        tags: tags of words.
        trees: ``all`` trees, or the ``projective`` ones.
        loss: ``trees`` for the likelihood of whole trees, ``words`` for that of each word's head, ``labelled`` for that
            of whole trees with their labels.

    Raises:
        ConfigError: for an unknown kind of trees or loss.

    Example:
        >>> import structattn as sa
        >>> from structattn.parsing import WordEncoder
        >>> gold = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> characters = sa.Vocabulary(["\x02", "\x03", *"adhiksw"], lowercase=False)
        >>> encoder = WordEncoder(sa.Vocabulary(["kids", "wash"]), characters, hidden=8)
        >>> scorer = BiaffineScorer(16, num_labels=2, num_tags=2)
        >>> parser = TreeCRF(encoder, scorer, labels=["nsubj", "root"], tags=["NOUN", "VERB"])
        >>> bool(parser.loss(parser.collate([gold])) > 0), len(parser.predict([gold])[0].dependency.roots)
        (True, 1)
    """

    kind: ClassVar[str] = "parser"

    def __init__(
        self,
        encoder: Encoder,
        scorer: BiaffineScorer,
        *,
        labels: Sequence[str],
        tags: Sequence[str],
        trees: str = "all",
        loss: str = "trees",
    ) -> None:
        super().__init__()
        if trees not in _FAMILIES:
            raise ConfigError(f"trees: expected one of {', '.join(_FAMILIES)}, got {trees!r}")
        if loss not in _LOSSES:
            raise ConfigError(f"loss: expected one of {', '.join(_LOSSES)}, got {loss!r}")
        self.encoder: Any = encoder  # a module; only the protocol is used
        self.scorer = scorer
        self.label_names = tuple(labels)
        self.tag_names = tuple(tags)
        self.trees = trees
        self.loss_over = loss
        self._label_ids = {name: number for number, name in enumerate(self.label_names)}
        self._tag_ids = {name: number for number, name in enumerate(self.tag_names)}

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters."""
        return {
            "encoder": self.encoder.kind,
            "options": dict(self.encoder.options),
            "scorer": dict(self.scorer.options),
            "parser": {
                "labels": list(self.label_names),
                "tags": list(self.tag_names),
                "trees": self.trees,
                "loss": self.loss_over,
            },
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write what the encoder needs.

        Args:
            folder: an existing folder.

        Returns:
            ``config``.
        """
        self.encoder.save(folder)
        return self.config

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.scorer.root.device

    def forward(self, batch: EncoderBatch) -> ParserScores:
        """Scores of arcs and tags, and the states that labels are scored from; see ``BiaffineScorer``.

        Args:
            batch: the output of the encoder's ``collate``.
        """
        scores: ParserScores = self.scorer(self.encoder(batch))
        return scores

    def distribution(
        self, scores: ParserScores, lengths: Int64[Tensor, " batch"]
    ) -> DependencyCRF | NonProjectiveDependencyCRF | Labelled:
        """The distribution over trees with one root, with their labels if the parser chooses both together.

        Args:
            scores: the output of ``forward``.
            lengths: number of words of each sentence.
        """
        arcs = scores.arcs.to(torch.promote_types(scores.arcs.dtype, torch.float32))
        family = partial(_FAMILIES[self.trees], single_root=True, validate_args=False)
        if self.loss_over != "labelled":
            return family(arcs, lengths)
        head_id = torch.arange(arcs.shape[-1], device=arcs.device)
        labels = self._with_root_apart(self.scorer.all_labels(scores), head_id == 0)
        return Labelled(family, arcs.unsqueeze(-1) + labels, lengths)

    def best_trees(
        self, scores: ParserScores, lengths: Int64[Tensor, " batch"]
    ) -> tuple[Int64[Tensor, "batch word"], Int64[Tensor, "batch word"]]:
        """CoNLL id of each word's head in the most probable tree, and the number of its label; anything at padding.

        Args:
            scores: the output of ``forward``.
            lengths: number of words of each sentence.
        """
        distribution = self.distribution(scores, lengths)
        best = distribution.to_structure(distribution.argmax())
        if isinstance(best, tuple):
            return best
        return best, self._with_root_apart(self.scorer.labels(scores, best), best == 0).argmax(-1)

    def collate(self, sentences: Sequence[Sentence]) -> GoldBatch:
        """Sentences with trees as tensors, as ``loss`` takes them.

        Args:
            sentences: sentences with trees, labels and tags; a parser of projective trees projectivises the others.

        Raises:
            ValueError: if a sentence has no tree, no labels or no tags.
        """
        shape = (len(sentences), max(len(sentence) for sentence in sentences))
        heads, labels, tags = np.zeros(shape, np.int64), np.full(shape, -1), np.full(shape, -1)
        for row, sentence in enumerate(sentences):
            tree = sentence.dependency
            if tree is None or tree.labels is None or sentence.tags is None:
                missing = "tags" if tree is not None and tree.labels is not None else "dependency tree with labels"
                raise ValueError(f"sentence {row} ({' '.join(sentence.words[:5])!r}) has no {missing} to learn from")
            target = tree.projectivised() if self.trees == "projective" else tree
            heads[row, : len(tree)] = target.heads
            labels[row, : len(tree)] = [self._label_ids.get(label, -1) for label in tree.labels]
            tags[row, : len(tree)] = [self._tag_ids.get(tag, -1) for tag in sentence.tags]
        return GoldBatch(self.encoder.collate(sentences), *map(torch.from_numpy, (heads, labels, tags)))

    def loss(self, batch: GoldBatch) -> Float[Tensor, ""]:
        """The training loss: the mean over the words of the batch.

        Args:
            batch: the output of ``collate``.
        """
        return self.loss_of(self(batch.inputs), batch)

    def loss_of(self, scores: ParserScores, batch: GoldBatch) -> Float[Tensor, ""]:
        """The training loss of scores that are already computed.

        Args:
            scores: the output of ``forward`` for ``batch.inputs``.
            batch: the output of ``collate``.
        """
        distribution = self.distribution(scores, batch.inputs.lengths)
        labels = self.scorer.labels(scores, batch.heads)
        if self.loss_over == "words":
            arcs = self._head_surprisal(scores.arcs, batch)
        else:
            arcs = -distribution.log_prob(batch.heads).sum()
        gold = batch.labels
        if self.loss_over == "labelled":  # p(tree, labels) = p(tree) p(labels | tree); without a label, summed over all
            labels = self._with_root_apart(labels, batch.heads == 0)
            is_allowed = labels.gather(-1, gold.clamp(min=0).unsqueeze(-1)).squeeze(-1) > -torch.inf
            gold = gold.where(is_allowed, -1)
        total = arcs + _surprisal(labels, gold) + _surprisal(scores.tags, batch.tags)
        mean: Tensor = total / batch.inputs.lengths.sum()
        return mean

    def predict(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with predicted trees and tags, computed in one batch.

        The module is in evaluation mode during the call.

        Args:
            sentences: any number of sentences; those without words get empty trees.
        """
        nonempty = [sentence for sentence in sentences if len(sentence)]
        if not nonempty:
            return [self._decode(sentence, (), (), ()) for sentence in sentences]
        with evaluating(self):
            batch = self.encoder.collate(nonempty).to(self.device)
            scores = self(batch)
            heads, labels = self.best_trees(scores, batch.lengths)
        columns = zip(heads.tolist(), labels.tolist(), scores.tags.argmax(-1).tolist(), strict=True)
        decoded = (self._decode(sentence, *row) for sentence, row in zip(nonempty, columns, strict=True))
        return [next(decoded) if len(sentence) else self._decode(sentence, (), (), ()) for sentence in sentences]

    def parse(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Predict trees and tags for any number of sentences of any length, in batches of similar length.

        A sentence of more than ``encoder.max_length`` words is parsed in stretches of that many. The roots of the later
        stretches are then attached to the root of the first as ``parataxis``, which gives one tree over all words.

        Args:
            sentences: the sentences; the results are in the same order.
        """
        encoder = self.encoder
        return parse_in_batches(self.predict, sentences, max_length=encoder.max_length, measure=encoder.sizes)

    def _head_surprisal(self, arcs: Tensor, batch: GoldBatch) -> Tensor:
        words = arcs.shape[1]
        head_id = torch.arange(words + 1, device=arcs.device)
        itself = head_id == head_id[1:, None]
        beyond = head_id > batch.inputs.lengths[:, None, None]
        allowed = arcs.masked_fill(itself | beyond, -torch.inf)
        return _surprisal(allowed, batch.heads.masked_fill(~batch.inputs.mask, -1))

    def _with_root_apart(self, labels: Tensor, is_below_root: Tensor) -> Tensor:
        """Scores of labels, of which ``root`` is for the arc from the root and for no other."""
        root = self._label_ids.get(_ROOT)
        if root is None or len(self.label_names) == 1:
            return labels
        is_root = torch.arange(len(self.label_names), device=labels.device) == root
        return labels.masked_fill(is_below_root.unsqueeze(-1) != is_root, -torch.inf)

    def _decode(self, sentence: Sentence, heads: Sequence[int], labels: Sequence[int], tags: Sequence[int]) -> Sentence:
        size = len(sentence)
        tree = DependencyTree(heads[:size], [self.label_names[label] for label in labels[:size]])
        return Sentence(sentence.words, [self.tag_names[tag] for tag in tags[:size]], tree, metadata=sentence.metadata)


def _surprisal(scores: Tensor, gold: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=-1, reduction="sum")
