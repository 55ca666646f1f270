"""Relations between words as targets over subwords: trees become the matrices that HYDRA's heads learn.

HYDRA (arXiv 2109.05349), section on the relation matrix; SG-Net's published code for ``span`` and the ``sgnet`` rule.
Rows are queries, columns are keys, and the target is
``M*_ab = R[word(a), word(b)]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.data import SentenceBatch, SubwordBatch, TreeBatch, Vocabulary, collate, dependency_distance
from structattn.pretrained.config import HydraConfig
from structattn.pretrained.relation_names import parse_relation
from structattn.syntax import DependencyTree, Sentence, contract_heads


@dataclass(frozen=True, eq=False)
class RelationTargets:
    """The targets of the heads' scores.

    Attributes:
        relation: one matrix for each relation of the configuration.
        mask: the nodes that count: subwords, or words where ``over_words``.
        over_words: whether nodes are words, each the mean of its subwords.
    """

    relation: Float[Tensor, "batch relation node node"]
    mask: Bool[Tensor, "batch node"]
    over_words: bool = False


def relation_targets(subwords: SubwordBatch, config: HydraConfig) -> RelationTargets:
    """The targets of a tokenised batch of sentences, or of pairs, whose sentences are not related to each other.

    A word without subwords is taken out of its tree: its children hang from its head. In a truncated text the arcs
    of the missing words are missing too.

    Raises:
        MissingStructure: if a sentence lacks the tree or the matrix that a relation is about.

    Example:
        >>> words = torch.tensor([[0, 0, 1, 1, 0]])  # [CLS] kids wash ##ing [SEP]
        >>> is_word, yes = torch.tensor([[False, True, True, True, False]]), torch.ones(1, 5, dtype=torch.bool)
        >>> sentence = Sentence(["kids", "washing"], dependency=DependencyTree([2, 0]))
        >>> two, no = torch.tensor([2]), torch.tensor([False])
        >>> subwords = SubwordBatch(words, yes, words, is_word, words * 0, two, no, ((sentence,),))
        >>> relation_targets(subwords, HydraConfig(num_heads=1)).relation[0, 0, 1].tolist()
        [0.0, 0.0, 1.0, 1.0, 0.0]
    """
    batch = _words(subwords).to(subwords.device)
    words = torch.stack([word_relation(name, batch) for name in config.relations], dim=1) * config.target_scale
    if config.subword == "mean":
        return RelationTargets(words, subwords.has_subwords, over_words=True)
    relation = _over_subwords(words, subwords, config)
    if config.root_to_cls:
        relation = relation + config.target_scale * _root_to_cls(subwords, batch, config)
    return RelationTargets(relation, subwords.mask if config.special == "zero" else subwords.is_word)


def word_relation(name: str, batch: SentenceBatch) -> Float[Tensor, "batch word word"]:
    """One relation between the words of a batch; zero at padding. See ``parse_relation`` for the names.

    Raises:
        ConfigError: for an unknown relation.
        MissingStructure: if a sentence lacks the tree or the matrix.

    Example:
        >>> tree = DependencyTree([2, 0, 2], ["nsubj", "root", "obj"])
        >>> batch = collate([Sentence(["kids", "wash", "hands"], dependency=tree)], Vocabulary([]))
        >>> word_relation("head:nsubj", batch)[0].int().tolist()
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    relation = parse_relation(name)
    wanted_by = f"relation {name!r}"
    if relation.kind == "matrix":
        found = batch.require(relation.matrix, wanted_by=wanted_by).float()
    elif relation.kind == "distance":
        found = -dependency_distance(batch).float()
    else:
        tree = batch.require("dependency", wanted_by=wanted_by)
        if relation.kind == "ancestor":
            found = tree.ancestors().float()
        elif relation.kind == "span":
            found = _spans(tree).float()
        else:
            upward = _arcs(tree) & _labelled(batch, relation.labels)[:, :, None]
            found = {"head": upward, "child": upward.mT, "arc": upward | upward.mT}[relation.kind].float()
    if relation.with_self:
        own = torch.eye(batch.mask.shape[1], dtype=torch.bool, device=found.device) & batch.mask[:, :, None]
        found = torch.where(own, 1.0, found)
    return found


def joined(sentences: Sequence[Sentence]) -> Sentence:
    """Several sentences as one whose parts are not related: one tree with several roots, matrices along the diagonal.

    Example:
        >>> one = Sentence(["a"], dependency=DependencyTree([0]))
        >>> joined([one, Sentence(["b", "c"], dependency=DependencyTree([2, 0]))]).dependency.heads
        (0, 3, 0)
    """
    if len(sentences) == 1:
        return sentences[0]
    words = [word for sentence in sentences for word in sentence.words]
    starts = [sum(map(len, sentences[:number])) for number in range(len(sentences))]
    # A sentence without words lacks nothing.
    real = [(sentence, start) for sentence, start in zip(sentences, starts, strict=True) if len(sentence)]
    tree = None
    if all(sentence.dependency is not None for sentence, _ in real):
        trees = [(sentence.dependency, start) for sentence, start in real if sentence.dependency is not None]
        heads = [head and head + start for tree, start in trees for head in tree.heads]
        labels = [label for tree, _ in trees for label in tree.labels or ("",) * len(tree)]
        tree = DependencyTree(heads, labels)
    names = set.intersection(*(set(sentence.relations) for sentence, _ in real)) if real else set()
    matrices = {}
    for name in names:
        matrix: list[list[float | int]] = [[0] * len(words) for _ in words]
        for sentence, start in real:
            for row, values in enumerate(sentence.relations[name]):
                matrix[start + row][start : start + len(values)] = values
        matrices[name] = matrix
    return Sentence(words, dependency=tree, relations=matrices)


def _words(subwords: SubwordBatch) -> SentenceBatch:
    """The words of each text as one sentence, those without subwords taken out of its tree."""
    present, is_cut = subwords.has_subwords.tolist(), subwords.is_cut.tolist()
    sentences = []
    for row, parts in enumerate(subwords.sentences):
        sentence = joined(parts)
        tree = sentence.dependency
        there = {word for word in range(len(sentence)) if present[row][word]}
        if tree is not None and not is_cut[row] and len(there) < len(sentence):
            tree = DependencyTree(contract_heads(tree.heads, there), tree.labels)
            sentence = Sentence(sentence.words, dependency=tree, relations=sentence.relations)
        sentences.append(sentence)
    return collate(sentences, Vocabulary([]))


def _arcs(tree: TreeBatch) -> Bool[Tensor, "batch word word"]:
    """Whether the column is the head of the row; a root has none."""
    columns = torch.arange(tree.parents.shape[1], device=tree.parents.device)
    return (tree.parents[:, :, None] == columns) & (tree.parents != columns)[:, :, None]


def _spans(tree: TreeBatch) -> Bool[Tensor, "batch word word"]:
    """Whether the row lies between the first and the last word below the column, both and the column itself included.

    For a projective tree that is the same as lying below it.
    """
    below = tree.subtrees()
    columns = torch.arange(below.shape[1], device=below.device)
    first = torch.where(below, columns, below.shape[1]).amin(-1)
    last = torch.where(below, columns, -1).amax(-1)
    inside = (columns >= first[..., None]) & (columns <= last[..., None])
    return (inside & tree.mask[:, :, None]).mT


def _labelled(batch: SentenceBatch, labels: Sequence[str]) -> Bool[Tensor, "batch word"]:
    """Words whose arc has one of these labels, with or without what follows a colon; all words if there are none."""
    if not labels:
        return batch.mask
    found = torch.zeros(batch.mask.shape, dtype=torch.bool)
    for row, sentence in enumerate(batch.sentences):
        own = () if sentence.dependency is None else sentence.dependency.labels or ()
        for word, label in enumerate(own):
            found[row, word] = label in labels or label.partition(":")[0] in labels
    return found.to(batch.device)


def _over_subwords(
    words: Float[Tensor, "batch relation word word"], subwords: SubwordBatch, config: HydraConfig
) -> Float[Tensor, "batch relation subword subword"]:
    """``M*_ab = R[word(a), word(b)]`` as the subword rule has it."""
    row = torch.arange(len(subwords), device=subwords.device)[:, None, None]
    spread = words[row, :, subwords.words[:, :, None], subwords.words[:, None, :]].permute(0, 3, 1, 2)
    queries = subwords.is_first if config.subword == "first" else subwords.is_word
    keys = subwords.is_word if config.subword == "all" else subwords.is_first
    own = torch.eye(subwords.ids.shape[1], dtype=torch.bool, device=subwords.device)
    allowed = queries[:, :, None] & keys[:, None, :]
    if config.subword == "sgnet":
        # A later subword of a word is a key for itself only; what a word has with itself, its later subwords have
        # with its first.
        alone = own & (subwords.is_word & ~subwords.is_first)[:, :, None]
        return torch.where(alone[:, None], config.target_scale, spread * allowed[:, None])
    same_word = subwords.words[:, :, None] == subwords.words[:, None, :]
    return spread * (allowed & (~same_word | own))[:, None]


def _root_to_cls(
    subwords: SubwordBatch, batch: SentenceBatch, config: HydraConfig
) -> Float[Tensor, "batch relation subword subword"]:
    """An arc between the subwords of roots and the first special token, in the direction of each relation."""
    tree = batch.require("dependency", wanted_by="root_to_cls")
    columns = torch.arange(tree.parents.shape[1], device=subwords.device)
    is_root = ((tree.parents == columns) & tree.mask).gather(1, subwords.words)
    roots = is_root & (subwords.is_first if config.subword == "first" else subwords.is_word)
    special = subwords.mask & ~subwords.is_word
    first_special = special & (special.long().cumsum(1) == 1)
    upward = (roots[:, :, None] & first_special[:, None, :]).float()
    kinds = {"head": upward, "child": upward.mT, "arc": upward + upward.mT, "ancestor": upward}
    none = torch.zeros_like(upward)
    return torch.stack([kinds.get(parse_relation(name).kind, none) for name in config.relations], dim=1)
