"""Batches for pretraining and evaluating heads: sentences with the structure, and the backbone's states for them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.backbones.backbone import PretrainedBackbone
from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.hydra_layer import find_layer_above
from structattn.backbones.relation_targets import relation_targets
from structattn.data import SubwordBatch, collate_subwords, parse_relation
from structattn.errors import ConfigError
from structattn.syntax import ConstituencyTree, Sentence


def backbone_below(backbone: PretrainedBackbone, config: HydraConfig) -> PretrainedBackbone:
    """The same backbone, read at the layer below the heads, whichever layer the caller reads."""
    above = find_layer_above(backbone.model, config.layer)
    return PretrainedBackbone(backbone.model, backbone.tokenizer, layer=-1 if above is None else above)


class RelationBatches:
    """Sentences in batches of similar length, with the backbone's states; unusable ones are left out and counted."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        backbone: PretrainedBackbone,
        config: HydraConfig,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
    ) -> None:
        self.backbone, self.config, self.batch_size = backbone, config, batch_size
        limit = min((size for size in (backbone.max_length, max_length) if size is not None), default=None)
        complete = [sentence for sentence in sentences if _has_structures(sentence, config)]
        #: how many sentences lack a tree or a matrix.
        self.missing = len(sentences) - len(complete)
        self.sentences: list[Sentence] = []
        #: number of subwords of each sentence.
        self.sizes: list[int] = []
        #: number of words of the sentences with the structure, and how many of these have a subword.
        self.words = self.covered = 0
        for start in range(0, len(complete), 256):
            portion = complete[start : start + 256]
            subwords = collate_subwords(portion, backbone.tokenizer, max_length=backbone.max_length, truncation=True)
            self.words += int(subwords.num_words.sum())
            self.covered += int(subwords.has_subwords.sum())
            sizes, is_cut = subwords.mask.sum(1).tolist(), subwords.is_cut.tolist()
            for sentence, size, cut in zip(portion, sizes, is_cut, strict=True):
                if not cut and (limit is None or size <= limit):
                    self.sentences.append(sentence)
                    self.sizes.append(size)
        self.too_long = len(complete) - len(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def require(self, purpose: str) -> None:
        """Raise a ``ConfigError`` if no sentence is left."""
        if not self.sentences:
            raise ConfigError(
                f"heads: no sentence to {purpose}: {self.missing} lack the tree or matrix of "
                f"{', '.join(self.config.relations)}, {self.too_long} are too long"
            )

    def absent_relations(self) -> list[str]:
        """The relations that no two words of any sentence have, for example because a label is misspelt."""
        absent = set(self.config.relations)
        for subwords in self.subwords():
            if not absent:
                break
            occurs = (relation_targets(subwords, self.config).relation != 0).any(-1).any(-1).any(0).tolist()
            absent -= {name for name, occurring in zip(self.config.relations, occurs, strict=True) if occurring}
        return sorted(absent)

    def batches(self) -> Iterator[tuple[SubwordBatch, Tensor]]:
        """All sentences, sorted by length, with their states."""
        for subwords in self.subwords():
            yield subwords, self.states(subwords)

    def subwords(self) -> Iterator[SubwordBatch]:
        """The batches without the states."""
        order = sorted(range(len(self.sizes)), key=self.sizes.__getitem__)
        for start in range(0, len(order), self.batch_size):
            yield self.batch(order[start : start + self.batch_size])

    def batch(self, rows: Sequence[int]) -> SubwordBatch:
        """The sentences with these numbers."""
        return self.backbone.tokenize([self.sentences[row] for row in rows])

    def states(self, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """The backbone's states, which the heads read."""
        with torch.no_grad():
            states: Tensor = self.backbone(subwords)
        return states


def _has_structures(sentence: Sentence, config: HydraConfig) -> bool:
    required = {parse_relation(name).structure for name in config.relations}
    if config.root_to_cls:
        required.add("dependency")
    trees = {"dependency": sentence.dependency, "constituency": sentence.constituency}
    present = {None, *sentence.relations, *(name for name, tree in trees.items() if tree is not None)}
    return bool(sentence.words) and required <= present


def exchange_trees(sentences: Sequence[Sentence], *, seed: int) -> list[Sentence]:
    """Every sentence with the structures of a random other one of the same length: the control for HYDRA's claim.

    A sentence that is the only one of its length keeps its own structures; lines of CoNLL-U files are dropped.
    """
    generator = random.Random(seed)
    by_length: dict[int, list[int]] = {}
    for index, sentence in enumerate(sentences):
        by_length.setdefault(len(sentence), []).append(index)
    donors = list(range(len(sentences)))
    for group in by_length.values():
        order = group[:]
        generator.shuffle(order)
        # Along a random cycle no sentence keeps its own.
        for index, donor in zip(order, order[1:] + order[:1], strict=True):
            donors[index] = donor
    return [_copy_trees(sentence, sentences[donor]) for sentence, donor in zip(sentences, donors, strict=True)]


def _copy_trees(sentence: Sentence, donor: Sentence) -> Sentence:
    """A sentence with the structures of another; the lines of its CoNLL-U file, with its own tree, are dropped."""
    phrases = donor.constituency
    if phrases is not None:
        phrases = ConstituencyTree(sentence.words, phrases.spans, tags=phrases.tags)
    relations = donor.relations
    return replace(
        sentence, dependency=donor.dependency, constituency=phrases, relations=relations, rows=(), comments=()
    )
