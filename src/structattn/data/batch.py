"""Sentences become tensors: everything a model may ask about a batch, padded on the right.

Structures are converted here, once per batch, so that layers and priors never look at a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from structattn.data.example import Example, sentences_of
from structattn.data.trees import TreeBatch
from structattn.data.vocabulary import PADDING_ID, Vocabulary
from structattn.syntax import Sentence
from structattn.syntax.errors import MissingStructure, shown

_TREES = ("dependency", "constituency")


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """A batch of sentences as tensors; ``True`` means real everywhere.

    A tree field is there as soon as one sentence has such a tree; in the other sentences every word is then its own
    root, and ``has`` tells them apart. The same holds for relations, whose missing matrices are zero. A sentence
    without words lacks nothing: whatever is asked for, it has it.

    Attributes:
        tokens: word ids, 0 at padding.
        mask: ``True`` at words.
        lengths: number of words of each sentence; may be 0.
        dependency: dependency trees, or ``None`` if no sentence has one.
        constituency: phrase trees (words first, then phrases), or ``None`` if no sentence has one.
        relations: matrices carried by the sentences, ``(query, key)``, by name.
        has: for each structure of the batch (``"dependency"``, ``"constituency"``, a relation's name), which sentences
            have it.
        sentences: the sentences themselves, so that pictures can name the words.

    Example:
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> sentences = [Sentence(["dogs", "bark"], dependency=DependencyTree([2, 0])), Sentence(["hush"])]
        >>> batch = collate(sentences, Vocabulary(["bark", "dogs"]))
        >>> batch.tokens.tolist(), batch.mask.tolist()
        ([[3, 2], [1, 0]], [[True, True], [True, False]])
        >>> batch.has_dependency.tolist(), batch.available("dependency")
        ([True, False], False)
        >>> batch.require("dependency", wanted_by="DependencyDistance")
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.MissingStructure: DependencyDistance needs dependency of every sentence, but sentence 1
        ('hush') has none
    """

    tokens: Int64[Tensor, "batch word"]
    mask: Bool[Tensor, "batch word"]
    lengths: Int64[Tensor, " batch"]
    dependency: TreeBatch | None = None
    constituency: TreeBatch | None = None
    relations: Mapping[str, Float[Tensor, "batch word word"]] = field(default_factory=dict)
    has: Mapping[str, Bool[Tensor, " batch"]] = field(default_factory=dict)
    sentences: tuple[Sentence, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.tokens.device

    @property
    def has_dependency(self) -> Bool[Tensor, " batch"]:
        """Which sentences have a dependency tree."""
        return self._has("dependency")

    @property
    def has_constituency(self) -> Bool[Tensor, " batch"]:
        """Which sentences have a phrase tree."""
        return self._has("constituency")

    def available(self, structure: str) -> bool:
        """Whether every sentence has this structure: a tree's name or a relation's."""
        return bool(self._has(structure).all())

    @overload
    def require(  # type: ignore[overload-overlap]  # a name known to be a tree's gives the trees
        self, structure: Literal["dependency", "constituency"], *, wanted_by: str
    ) -> TreeBatch: ...

    @overload
    def require(self, structure: str, *, wanted_by: str) -> Float[Tensor, "batch word word"]: ...

    def require(self, structure: str, *, wanted_by: str) -> TreeBatch | Float[Tensor, "batch word word"]:
        """The trees ``"dependency"`` or ``"constituency"``, or the relation of that name.

        Args:
            structure: what is needed.
            wanted_by: who needs it; named in the error.

        Raises:
            MissingStructure: if a sentence lacks it; the message names the first such sentence and who wanted it.
        """
        if not self.available(structure):
            index = int((~self._has(structure)).nonzero()[0])
            words = " ".join(self.sentences[index].words[:6]) if index < len(self.sentences) else ""
            kind = structure if structure in _TREES else f"relation {structure!r}"
            raise MissingStructure(
                f"{wanted_by} needs {kind} of every sentence, but sentence {index} ({words!r}) has none", index=index
            )
        if structure == "dependency" and self.dependency is not None:
            return self.dependency
        if structure == "constituency" and self.constituency is not None:
            return self.constituency
        if structure not in self.relations:  # no sentence has words
            return torch.zeros(*self.tokens.shape, self.tokens.shape[1], device=self.device)
        return self.relations[structure]

    def to(self, device: torch.device | str) -> "SentenceBatch":
        """The same batch on another device."""
        return SentenceBatch(
            self.tokens.to(device),
            self.mask.to(device),
            self.lengths.to(device),
            dependency=None if self.dependency is None else self.dependency.to(device),
            constituency=None if self.constituency is None else self.constituency.to(device),
            relations={name: matrix.to(device) for name, matrix in self.relations.items()},
            has={name: present.to(device) for name, present in self.has.items()},
            sentences=self.sentences,
        )

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def _has(self, structure: str) -> Tensor:
        present = self.has.get(structure)
        return self.lengths == 0 if present is None else present


def collate(sentences: Sequence[Sentence | Example | str], vocabulary: Vocabulary) -> SentenceBatch:
    """Turn sentences into one padded batch.

    Args:
        sentences: at least one sentence, example of one sentence, or text, which ``Sentence.from_text`` splits;
            sentences may have no words.
        vocabulary: gives the word ids and the label ids.

    Raises:
        ValueError: for no sentences, an example of two, or a relation named like a tree.
        TypeError: for anything else, such as one text instead of a list.

    Example:
        >>> collate(["a dog", Sentence(["a"])], Vocabulary(["a"])).tokens.tolist()
        [[2, 1], [2, 0]]
        >>> collate([Sentence(["a"]), Sentence([])], Vocabulary(["a"])).tokens.tolist()
        [[2], [0]]
    """
    sentences = _sentences(sentences)
    lengths = [len(sentence.words) for sentence in sentences]
    width = max(1, *lengths)
    tokens = np.full((len(sentences), width), PADDING_ID, dtype=np.int64)
    for row, sentence in enumerate(sentences):
        tokens[row, : lengths[row]] = vocabulary.encode(sentence.words)
    length = torch.tensor(lengths)
    has: dict[str, Tensor] = {}
    relations = _relations(sentences, width, has)
    return SentenceBatch(
        torch.from_numpy(tokens),
        torch.arange(width) < length[:, None],
        length,
        dependency=_dependency(sentences, width, vocabulary, has),
        constituency=_constituency(sentences, width, vocabulary, has),
        relations=relations,
        has=has,
        sentences=sentences,
    )


def _sentences(items: Sequence[Sentence | Example | str]) -> tuple[Sentence, ...]:
    if isinstance(items, Sentence | Example | str):
        raise TypeError(f"collate expects a list of sentences, got one {type(items).__name__}; write [{shown(items)}]")
    sentences: list[Sentence] = []
    for index, item in enumerate(items):
        parts = sentences_of(item)
        if len(parts) != 1:
            raise ValueError(
                f"collate expects one sentence for each row, got a pair at {index}; collate the first and the second "
                "sentences apart"
            )
        sentences += parts
    if not sentences:
        raise ValueError("collate expects at least one sentence, got none")
    return tuple(sentences)


def _dependency(
    sentences: Sequence[Sentence], width: int, vocabulary: Vocabulary, has: dict[str, Tensor]
) -> TreeBatch | None:
    present = _present(sentences, [sentence.dependency is not None for sentence in sentences])
    if all(sentence.dependency is None for sentence in sentences) and not present.all():
        return None
    parents, mask, labels = _empty(len(sentences), width)
    for row, sentence in enumerate(sentences):
        length, tree = len(sentence.words), sentence.dependency
        mask[row, :length] = True
        if tree is not None and length:
            heads = np.asarray(tree.heads) - 1
            parents[row, :length] = np.where(heads < 0, np.arange(length), heads)
            if tree.labels is not None:
                labels[row, :length] = vocabulary.encode_labels(tree.labels)
    has["dependency"] = present
    return TreeBatch(*map(torch.from_numpy, (parents, mask, labels)), num_leaves=width)


def _constituency(
    sentences: Sequence[Sentence], width: int, vocabulary: Vocabulary, has: dict[str, Tensor]
) -> TreeBatch | None:
    trees = [sentence.constituency for sentence in sentences]
    present = _present(sentences, [tree is not None for tree in trees])
    if all(tree is None for tree in trees) and not present.all():
        return None
    phrases = max((len(tree.spans) for tree in trees if tree is not None), default=0)
    parents, mask, labels = _empty(len(sentences), width + phrases)
    for row, (sentence, tree) in enumerate(zip(sentences, trees, strict=True)):
        length = len(sentence.words)
        mask[row, :length] = True
        if tree is None or not length:
            continue
        end = width + len(tree.spans)
        mask[row, width:end] = True
        # Spans know their parents as span numbers, -1 above the top; here they are columns and a root is its own.
        for start, above in ((0, tree.leaf_parents), (width, tree.parents)):
            numbers = np.asarray(above, dtype=np.int64)
            own = np.arange(start, start + len(numbers))
            parents[row, start : start + len(numbers)] = np.where(numbers < 0, own, numbers + width)
        labels[row, :length] = vocabulary.encode_labels(tree.tags)
        labels[row, width:end] = vocabulary.encode_labels(label for label, _, _ in tree.spans)
    has["constituency"] = present
    return TreeBatch(*map(torch.from_numpy, (parents, mask, labels)), num_leaves=width)


def _relations(sentences: Sequence[Sentence], width: int, has: dict[str, Tensor]) -> dict[str, Tensor]:
    relations: dict[str, Tensor] = {}
    for name in sorted({name for sentence in sentences for name in sentence.relations}):
        if name in _TREES:
            raise ValueError(f"collate expects relations not to be named like a tree, got {name!r}")
        matrices = np.zeros((len(sentences), width, width), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            if name in sentence.relations and len(sentence.words):
                length = len(sentence.words)
                matrices[row, :length, :length] = np.asarray(sentence.relations[name], dtype=np.float32)
        relations[name] = torch.from_numpy(matrices)
        has[name] = _present(sentences, [name in sentence.relations for sentence in sentences])
    return relations


def _empty(batch: int, nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parents (each node its own), mask and labels of a batch without any node."""
    parents = np.tile(np.arange(nodes, dtype=np.int64), (batch, 1))
    return parents, np.zeros((batch, nodes), dtype=np.bool_), np.zeros((batch, nodes), dtype=np.int64)


def _present(sentences: Sequence[Sentence], found: Sequence[bool]) -> Tensor:
    return torch.tensor([there or not sentence.words for sentence, there in zip(sentences, found, strict=True)])
