"""Sentences become tensors: everything a model may ask about a batch, padded on the right.

Structures are converted here, once per batch, so that layers and priors never look at a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from structattn.data.example import Example, sentences_of
from structattn.data.pytree import assemble, below, register
from structattn.data.trees import TreeBatch, label_code
from structattn.data.vocabulary import PADDING_ID, Vocabulary
from structattn.syntax import Sentence
from structattn.syntax.errors import MissingStructure, shown

if TYPE_CHECKING:
    from structattn.data.subword_batch import SubwordBatch

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
        complete: the structures that every sentence has. Decided by ``collate``, so that no forward pass looks into a
            tensor for it.
        is_empty: whether no sentence has a word.
        sentences: the sentences themselves, so that pictures can name the words.
        subwords: the subword tokens of the texts that begin with these sentences, for encoders with a backbone; see
            ``SentenceEncoder.prepare``.

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
        ('hush') has none; a parser finds one (--parser en, sa.parse), and missing_trees='word' does without
    """

    tokens: Int64[Tensor, "batch word"]
    mask: Bool[Tensor, "batch word"]
    lengths: Int64[Tensor, " batch"]
    dependency: TreeBatch | None = None
    constituency: TreeBatch | None = None
    relations: Mapping[str, Float[Tensor, "batch word word"]] = field(default_factory=dict)
    has: Mapping[str, Bool[Tensor, " batch"]] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()
    is_empty: bool = False
    sentences: tuple[Sentence, ...] = ()
    subwords: "SubwordBatch | None" = None

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
        return self.is_empty or structure in self.complete

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
            raise self._missing(structure, wanted_by)
        if structure == "dependency" and self.dependency is not None:
            return self.dependency
        if structure == "constituency" and self.constituency is not None:
            return self.constituency
        if structure not in self.relations:  # no sentence has words
            return torch.zeros(*self.tokens.shape, self.tokens.shape[1], device=self.device)
        return self.relations[structure]

    def to(self, device: torch.device | str) -> "SentenceBatch":
        """The same batch on another device."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            mask=self.mask.to(device),
            lengths=self.lengths.to(device),
            dependency=None if self.dependency is None else self.dependency.to(device),
            constituency=None if self.constituency is None else self.constituency.to(device),
            relations={name: matrix.to(device) for name, matrix in self.relations.items()},
            has={name: present.to(device) for name, present in self.has.items()},
            subwords=None if self.subwords is None else self.subwords.to(device),
        )

    def in_graph(self) -> "SentenceBatch":
        """The same batch, without its sentences, for one pass through a graph; see ``TreeBatch.in_graph``."""
        return replace(
            self,
            sentences=(),
            dependency=None if self.dependency is None else self.dependency.in_graph(),
            constituency=None if self.constituency is None else self.constituency.in_graph(),
        )

    def tensors(self) -> dict[str, Any]:
        """All tensors by name, such as ``tokens``, ``dependency.parents`` or ``relations.coref``.

        Example:
            >>> list(collate([Sentence(["a"])], Vocabulary(["a"])).tensors())
            ['tokens', 'mask', 'lengths']
        """
        parts = {
            "dependency": {} if self.dependency is None else self.dependency.tensors(),
            "constituency": {} if self.constituency is None else self.constituency.tensors(),
            "relations": {name: self.relations[name] for name in sorted(self.relations)},
            "has": {name: self.has[name] for name in sorted(self.has)},
            "subwords": {} if self.subwords is None else self.subwords.tensors(),
        }
        below = {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
        return {"tokens": self.tokens, "mask": self.mask, "lengths": self.lengths, **below}

    def facts(self) -> dict[str, Any]:
        """What a computation may depend on beside the tensors; the sentences themselves are left out."""
        subwords = {} if self.subwords is None else {"subwords": self.subwords.facts()}
        return {"complete": sorted(self.complete), "is_empty": self.is_empty, **subwords}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "SentenceBatch":
        """The batch of these tensors, with no sentences.

        Args:
            tensors: as ``tensors()`` names them.
            facts: as ``facts()`` gives them.
        """
        from structattn.data.subword_batch import SubwordBatch

        tokens = tensors["tokens"]
        # Words come first in every tree: their number is that of the tokens, whatever it is.
        leaves = {"num_leaves": tokens.shape[1] if isinstance(tokens, Tensor) else 0}
        trees = {name: below(f"{name}.", tensors) for name in _TREES}
        subwords = below("subwords.", tensors)
        return assemble(
            cls,
            tokens=tokens,
            mask=tensors["mask"],
            lengths=tensors["lengths"],
            **{name: TreeBatch.from_tensors(tree, leaves) if tree else None for name, tree in trees.items()},
            relations=below("relations.", tensors),
            has=below("has.", tensors),
            complete=frozenset(facts["complete"]),
            is_empty=facts["is_empty"],
            sentences=(),
            subwords=SubwordBatch.from_tensors(subwords, facts["subwords"]) if subwords else None,
        )

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def _has(self, structure: str) -> Tensor:
        present = self.has.get(structure)
        return self.lengths == 0 if present is None else present

    def _missing(self, structure: str, wanted_by: str) -> MissingStructure:
        kind = structure if structure in _TREES else f"relation {structure!r}"
        absent = [row for row, has in enumerate(self._has(structure).tolist()) if not has]
        if not self.sentences or not absent:
            return MissingStructure(
                f"{wanted_by} needs {kind} of every sentence, but this batch is a mask or bare tensors; pass a batch "
                "that collate made of sentences with it"
            )
        index = absent[0]
        words = " ".join(self.sentences[index].words[:6])
        return MissingStructure(
            f"{wanted_by} needs {kind} of every sentence, but sentence {index} ({words!r}) has none",
            index=index,
            structure=structure,
        )


register(SentenceBatch)


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
    has: dict[str, list[bool]] = {}
    relations = _relations(sentences, width, has)
    dependency = _dependency(sentences, width, vocabulary, has)
    constituency = _constituency(sentences, width, vocabulary, has)
    return SentenceBatch(
        torch.from_numpy(tokens),
        torch.arange(width) < length[:, None],
        length,
        dependency=dependency,
        constituency=constituency,
        relations=relations,
        has={structure: torch.tensor(present) for structure, present in has.items()},
        complete=frozenset(structure for structure, present in has.items() if all(present)),
        is_empty=not any(lengths),
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
    sentences: Sequence[Sentence], width: int, vocabulary: Vocabulary, has: dict[str, list[bool]]
) -> TreeBatch | None:
    present = _present(sentences, [sentence.dependency is not None for sentence in sentences])
    if all(sentence.dependency is None for sentence in sentences) and not all(present):
        return None
    parents, mask, labels = _empty(len(sentences), width)
    codes = np.zeros_like(labels)
    for row, sentence in enumerate(sentences):
        length, tree = len(sentence.words), sentence.dependency
        mask[row, :length] = True
        if tree is not None and length:
            heads = np.asarray(tree.heads) - 1
            parents[row, :length] = np.where(heads < 0, np.arange(length), heads)
            if tree.labels is not None:
                labels[row, :length] = vocabulary.encode_labels(tree.labels)
                codes[row, :length] = [label_code(label) for label in tree.labels]
    has["dependency"] = present
    return TreeBatch(*map(torch.from_numpy, (parents, mask, labels, codes)), num_leaves=width)


def _constituency(
    sentences: Sequence[Sentence], width: int, vocabulary: Vocabulary, has: dict[str, list[bool]]
) -> TreeBatch | None:
    trees = [sentence.constituency for sentence in sentences]
    present = _present(sentences, [tree is not None for tree in trees])
    if all(tree is None for tree in trees) and not all(present):
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


def _relations(sentences: Sequence[Sentence], width: int, has: dict[str, list[bool]]) -> dict[str, Tensor]:
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


def _present(sentences: Sequence[Sentence], found: Sequence[bool]) -> list[bool]:
    return [there or not sentence.words for sentence, there in zip(sentences, found, strict=True)]
