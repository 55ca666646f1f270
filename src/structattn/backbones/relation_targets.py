"""Relations between words as targets over subwords: trees become the matrices that HYDRA's heads learn.

HYDRA (arXiv 2109.05349), section on the relation matrix; SG-Net's published code for ``span`` and the ``sgnet`` rule.
Rows are queries, columns are keys, and the target is ``M*_ab = R[word(a), word(b)]``.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.backbones.hydra_config import HydraConfig
from structattn.data import SentenceBatch, SubwordBatch, parse_relation, word_relation


@dataclass(frozen=True, eq=False)
class RelationTargets:
    """The targets of the heads' scores.

    ``over_words`` says whether nodes are words, each the mean of its subwords, rather than subwords.
    """

    relation: Float[Tensor, "batch relation node node"]
    mask: Bool[Tensor, "batch node"]
    over_words: bool = False


def relation_targets(subwords: SubwordBatch, config: HydraConfig) -> RelationTargets:
    """The targets of a tokenised batch of sentences or pairs; the sentences of a pair are not related to each other.

    A word without subwords is removed from its tree: its children are attached to its head. In a truncated text the
    arcs of the missing words are missing too. With ``root_to_cls`` a root is attached to the first special token by an
    arc labelled ``root``, so a relation that names labels has this arc only if it names ``root``.

    Args:
        subwords: the texts as the backbone's subwords, with their sentences.
        config: the relations, and the rules for subwords and special tokens.

    Returns:
        ``relation``, a matrix for each relation; ``mask``, the nodes that count; and ``over_words``, whether nodes are
        words, each the mean of its subwords, rather than subwords.

    Raises:
        MissingStructure: if a sentence lacks the tree or the matrix that a relation needs.

    Example:
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> words = torch.tensor([[0, 0, 1, 1, 0]])  # [CLS] kids wash ##ing [SEP]
        >>> is_word, yes = torch.tensor([[False, True, True, True, False]]), torch.ones(1, 5, dtype=torch.bool)
        >>> sentence = Sentence(["kids", "washing"], dependency=DependencyTree([2, 0]))
        >>> two, no = yes[:, :2], torch.tensor([False])
        >>> subwords = SubwordBatch(words, yes, words, is_word, words * 0, two, no, ((sentence,),))
        >>> relation_targets(subwords, HydraConfig(num_heads=1)).relation[0, 0, 1].tolist()
        [0.0, 0.0, 1.0, 1.0, 0.0]
    """
    batch = collate_words(subwords) if subwords.text is None else subwords.text
    words = torch.stack([word_relation(name, batch) for name in config.relations], dim=1) * config.target_scale
    if config.subword == "mean":
        return RelationTargets(words, subwords.has_subwords, over_words=True)
    relation = _over_subwords(words, subwords, config)
    if config.root_to_cls:
        relation = relation + config.target_scale * _root_to_cls(subwords, batch, config)
    return RelationTargets(relation, subwords.mask if config.special == "zero" else subwords.is_word)


def collate_words(subwords: SubwordBatch) -> SentenceBatch:
    """The words of each text as one sentence; those without subwords are removed from its tree."""
    from structattn.data import Vocabulary, collate, join_sentences
    from structattn.syntax import DependencyTree
    from structattn.syntax.word_alignment import contract_heads

    present, is_cut = subwords.has_subwords.tolist(), subwords.is_cut.tolist()
    sentences = []
    for row, parts in enumerate(subwords.sentences):
        sentence = join_sentences(parts)
        tree = sentence.dependency
        words = {word for word in range(len(sentence)) if present[row][word]}
        if tree is not None and not is_cut[row] and len(words) < len(sentence):
            tree = DependencyTree(contract_heads(tree.heads, words), tree.labels)
            sentence = replace(sentence, dependency=tree)
        sentences.append(sentence)
    return collate(sentences, Vocabulary([])).to(subwords.device)


def _over_subwords(
    words: Float[Tensor, "batch relation word word"], subwords: SubwordBatch, config: HydraConfig
) -> Float[Tensor, "batch relation subword subword"]:
    """``M*_ab = R[word(a), word(b)]`` under the subword rule."""
    row = torch.arange(subwords.ids.shape[0], device=subwords.device)[:, None, None]
    spread = words[row, :, subwords.words[:, :, None], subwords.words[:, None, :]].permute(0, 3, 1, 2)
    queries = subwords.is_first if config.subword == "first" else subwords.is_word
    keys = subwords.is_word if config.subword == "all" else subwords.is_first
    diagonal = torch.eye(subwords.ids.shape[1], dtype=torch.bool, device=subwords.device)
    allowed = queries[:, :, None] & keys[:, None, :]
    if config.subword == "sgnet":
        # A later subword of a word is a key for itself only; a word's relation with itself holds between its later
        # subwords and its first.
        alone = diagonal & (subwords.is_word & ~subwords.is_first)[:, :, None]
        return torch.where(alone[:, None], config.target_scale, spread * allowed[:, None])
    same_word = subwords.words[:, :, None] == subwords.words[:, None, :]
    return spread * (allowed & (~same_word | diagonal))[:, None]


def _root_to_cls(
    subwords: SubwordBatch, batch: SentenceBatch, config: HydraConfig
) -> Float[Tensor, "batch relation subword subword"]:
    """An arc between the subwords of roots and the first special token, in the direction of each relation with it."""
    tree = batch.require("dependency", wanted_by="root_to_cls")
    columns = torch.arange(tree.parents.shape[1], device=subwords.device)
    is_root = ((tree.parents == columns) & tree.mask).gather(1, subwords.words)
    roots = is_root & (subwords.is_first if config.subword == "first" else subwords.is_word)
    special = subwords.mask & ~subwords.is_word
    first_special = special & (special.long().cumsum(1) == 1)
    upward = (roots[:, :, None] & first_special[:, None, :]).float()
    kinds = {"head": upward, "child": upward.mT, "arc": upward + upward.mT, "ancestor": upward}
    none = torch.zeros_like(upward)
    names = [parse_relation(name) for name in config.relations]
    has_root = [not name.labels or "root" in name.labels for name in names]
    arcs = [kinds.get(name.kind, none) if has else none for name, has in zip(names, has_root, strict=True)]
    return torch.stack(arcs, dim=1)
