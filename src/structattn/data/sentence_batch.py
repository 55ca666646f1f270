"""A batch of sentences as tensors, padded on the right: everything that a model needs to know about them.

``collate`` builds it from sentences, see ``collation.py``; layers and priors never look at a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from structattn.data.tree_batch import TreeBatch, assemble, register_batch, take_part
from structattn.errors import MissingStructure

if TYPE_CHECKING:
    from structattn.data.subword_batch import SubwordBatch
    from structattn.syntax.sentence import Sentence

TREES = ("dependency", "constituency")
"""The structures of a batch that are trees; all others are relations."""


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """A batch of sentences as tensors; ``True`` means real everywhere.

    A tree field is set as soon as one sentence has such a tree. In a sentence without one, every word is then its own
    root, and ``has`` is ``False``. A relation that a sentence lacks is a matrix of zeros. A sentence without words
    counts as having every structure.

    Attributes:
        tokens: word ids, 0 at padding.
        mask: ``True`` at words.
        lengths: number of words of each sentence; may be 0.
        dependency: dependency trees, or ``None`` if no sentence has one.
        constituency: phrase trees (words first, then phrases), or ``None`` if no sentence has one.
        relations: matrices carried by the sentences, ``(query, key)``, by name.
        has: for each structure of the batch (``"dependency"``, ``"constituency"``, a relation's name), which sentences
            have it.
        complete: the structures that every sentence has; computed by ``collate``, so that no forward pass has to
            inspect a tensor.
        is_empty: whether no sentence has a word.
        sentences: the sentences themselves, so that pictures can name the words.
        subwords: the subword tokens of the texts that begin with these sentences, for encoders with a backbone; see
            ``SentenceEncoder.prepare``.

    Example:
        >>> from structattn.data import Vocabulary, collate
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
        structattn.errors.MissingStructure: DependencyDistance needs dependency of every sentence, but sentence 1
        ('hush') has none; parse the sentence (--parser en, sa.parse), or train without (--options.missing_trees word)
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
    sentences: "tuple[Sentence, ...]" = ()
    subwords: "SubwordBatch | None" = None

    @property
    def sides(self) -> tuple["SentenceBatch", ...]:
        """The batches that an encoder reads: this one; batches of a task have one for each sentence of an example."""
        return (self,)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
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
        """Whether every sentence has a structure.

        Args:
            structure: ``"dependency"``, ``"constituency"``, or the name of a relation.
        """
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
            structure: the name of the structure.
            wanted_by: what needs it; named in the error.

        Returns:
            The trees of the batch, or the relation as a matrix ``(batch, query, key)``; zeros if no sentence has words.

        Raises:
            MissingStructure: if a sentence lacks it; the message names the first such sentence and ``wanted_by``.
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
        parts = ("tokens", "mask", "lengths", "dependency", "constituency", "subwords")
        moved = {name: part.to(device) for name in parts if (part := getattr(self, name)) is not None}
        relations = {name: matrix.to(device) for name, matrix in self.relations.items()}
        has = {name: present.to(device) for name, present in self.has.items()}
        return replace(self, **moved, relations=relations, has=has)

    def in_graph(self) -> "SentenceBatch":
        """The same batch, without its sentences, for one pass through a graph; see ``TreeBatch.in_graph``."""
        dependency = None if self.dependency is None else self.dependency.in_graph()
        constituency = None if self.constituency is None else self.constituency.in_graph()
        return replace(self, sentences=(), dependency=dependency, constituency=constituency)

    def tensors(self) -> dict[str, Any]:
        """All tensors by name, such as ``tokens``, ``dependency.parents`` or ``relations.coref``.

        Example:
            >>> from structattn.data import Vocabulary, collate
            >>> from structattn.syntax import Sentence
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
        named = {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
        return {"tokens": self.tokens, "mask": self.mask, "lengths": self.lengths, **named}

    def facts(self) -> dict[str, Any]:
        """Everything else that a computation may depend on, as JSON values; the sentences themselves are left out."""
        subwords = {} if self.subwords is None else {"subwords": self.subwords.facts()}
        return {"complete": sorted(self.complete), "is_empty": self.is_empty, **subwords}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "SentenceBatch":
        """The batch of these tensors, with no sentences.

        Args:
            tensors: by the names of ``tensors()``; they are not checked.
            facts: what ``facts()`` returned.
        """
        from structattn.data.subword_batch import SubwordBatch

        tokens = tensors["tokens"]
        # Words come first in every tree, so it has as many leaves as there are tokens.
        leaves = {"num_leaves": tokens.shape[1] if isinstance(tokens, Tensor) else 0}
        trees = {name: take_part(f"{name}.", tensors) for name in TREES}
        subwords = take_part("subwords.", tensors)
        return assemble(
            cls,
            tokens=tokens,
            mask=tensors["mask"],
            lengths=tensors["lengths"],
            **{name: TreeBatch.from_tensors(tree, leaves) if tree else None for name, tree in trees.items()},
            relations=take_part("relations.", tensors),
            has=take_part("has.", tensors),
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
        kind = structure if structure in TREES else f"relation {structure!r}"
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


register_batch(SentenceBatch)
