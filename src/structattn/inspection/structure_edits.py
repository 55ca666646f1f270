"""The effect of changed structures on an answer: which a model reads, what arcs contribute, which edits flip it."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from structattn.data import Example
from structattn.errors import ConfigError, MissingStructure
from structattn.inspection.inspect_example import look
from structattn.inspection.occlusion import predict_answers, read_value
from structattn.inspection.single_edits import edit_example, list_moves, list_trees, move_word
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import Prediction, TaskModel
from structattn.tasks.answering import Item, to_example

STRUCTURES = ("order", "dependency", "constituency")

_WORDS = ("the", "keys", "near", "a", "cabinet")
_STAR, _TWO_ROOTS, _RIGHT = (3, 3, 0, 3, 3), (0, 1, 2, 0, 4), ((0, 5), (1, 5), (2, 5))
# The labels of Universal Dependencies: a model may read arcs with some of them only.
_LABELS = (
    *("acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop"),
    *("csubj", "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "mark"),
    *("nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root"),
    *("vocative", "xcomp"),
)
_MOST_LABELS = 63
# The sum over words in another order may differ in the last bits.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class ArcAttribution:
    """Attribution of a prediction to the arcs of a dependency tree.

    Attributes:
        sentence: the sentence, with its tree.
        answer: the class whose probability is attributed, or the predicted score.
        changes: for each word the drop in probability (or score) when its arc is lifted; ``None`` for roots, which have
            no arc to lift. Positive: the arc is evidence for the answer.
    """

    sentence: Sentence
    answer: str | float
    changes: tuple[float | None, ...]


@dataclass(frozen=True)
class TreeEdit:
    """One edit of a tree, and the answer to the sentence with the new tree.

    Attributes:
        sentence: the index of the sentence within its example.
        word: the word that was moved or made the root, from 0.
        head: CoNLL id of its new head; 0 for a new root.
        tree: the new tree.
        prediction: the answer.
    """

    sentence: int
    word: int
    head: int
    tree: DependencyTree
    prediction: Prediction


def arc_influence(
    model: TaskModel, item: Item, *, part: range | None = None, batch_size: int = 64
) -> tuple[ArcAttribution, ...]:
    r"""Attribute a prediction to dependency arcs: the drop in probability when an arc is lifted to the grandparent.

    .. math:: I_i = p(y \mid w, h_1 \ldots h_n) - p(y \mid w, h_1 \ldots h_{h_i} \ldots h_n)

    Word *i*, with all words below it, is attached to the head of its head instead; a word below the root becomes a
    second root. Lifting is the operation of Nivre and Nilsson (2005), section 2. This takes one prediction per arc.

    Args:
        model: predicts a label or a score.
        item: example, sentence, text, or a pair of these.
        part: the words whose arcs are lifted, counted over all sentences; all by default. The changes of others are
            NaN.
        batch_size: predictions per batch.

    Returns:
        One for each sentence of the example.

    Raises:
        ConfigError: if the model answers with texts or trees.
        MissingStructure: if a sentence has no dependency tree, and the model has no parser.
        TypeError: if the item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dogs", "loud"])
        >>> encoder = sa.encoders.build("dependency_tree_lstm", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> sentence = sa.Sentence(["loud", "dogs"], dependency=sa.DependencyTree([2, 0]))
        >>> (attribution,) = arc_influence(model, sentence)
        >>> attribution.changes[0] != 0, attribution.changes[1]
        (True, None)
    """
    example = _add_trees(model, item)
    arcs = [(number, word, head) for number, tree in list_trees(example) for word, head in enumerate(tree.heads)]
    chosen = [word for word in (range(len(arcs)) if part is None else part) if arcs[word][2]]
    lifted = [_lift(example, *arcs[word]) for word in chosen]
    prediction, *changed = predict_answers(model, [example, *lifted], batch_size)
    target = prediction.judged_class
    value = read_value(prediction, target)
    drops = {word: value - read_value(answer, target) for word, answer in zip(chosen, changed, strict=True)}
    changes = iter([drops.get(word, math.nan) if head else None for word, (_, _, head) in enumerate(arcs)])
    return tuple(
        ArcAttribution(sentence, prediction.answer, tuple(next(changes) for _ in tree.heads))
        for sentence, (_, tree) in zip(example.sentences, list_trees(example), strict=True)
    )


def _lift(example: Example, number: int, word: int, head: int) -> Example:
    """The example with a word of a sentence attached to the head of its head."""
    tree = example.sentences[number].dependency
    assert tree is not None
    return edit_example(example, number, tree.moved(word, tree.heads[head - 1]))


def flipping_edits(
    model: TaskModel, item: Item, *, part: range | None = None, batch_size: int = 64
) -> tuple[TreeEdit, ...]:
    """The single edits of dependency trees that change the predicted label, the most probable new answer first.

    Every word but the roots is tried below every other head that makes a tree, see ``DependencyTree.moved``, and every
    word as the root, see ``DependencyTree.rerooted``. Their number grows with the square of the length; those of a long
    text can be tried in parts.

    Args:
        model: predicts a label or a score.
        item: example, sentence, text, or a pair of these.
        part: which of the edits are tried, as indices below their number; all by default.
        batch_size: predictions per batch.

    Returns:
        The edits that flip the label; for a score all edits, the largest change first.

    Raises:
        ConfigError: if the model answers with texts or trees.
        MissingStructure: if a sentence has no dependency tree, and the model has no parser.
        TypeError: if the item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dogs", "loud"])
        >>> encoder = sa.encoders.build("transformer", vocab_size=len(vocabulary), dim=4, num_heads=2)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> flipping_edits(model, sa.Sentence(["loud", "dogs"], dependency=sa.DependencyTree([2, 0])))  # reads no tree
        ()
    """
    example = _add_trees(model, item)
    moves = [(number, tree, move) for number, tree in list_trees(example) for move in list_moves(tree)]
    moves = moves if part is None else [moves[index] for index in part]
    edits = [(number, *move, move_word(tree, *move)) for number, tree, move in moves]
    edited = [edit_example(example, number, tree) for number, _, _, tree in edits]
    prediction, *changed = predict_answers(model, [example, *edited], batch_size)
    results = [TreeEdit(*edit, prediction=new) for edit, new in zip(edits, changed, strict=True)]
    if prediction.label is None:
        score = float(prediction.answer)
        return tuple(sorted(results, key=lambda edit: -abs(float(edit.prediction.answer) - score)))
    flipped = [edit for edit in results if edit.prediction.label != prediction.label]
    return tuple(sorted(flipped, key=lambda edit: -read_value(edit.prediction, edit.prediction.judged_class)))


def structures_read(model: TaskModel) -> tuple[str, ...]:
    """Which structures of a sentence, besides its words, the answer or the attention of a model depends on.

    The model answers sentences whose words are the same and whose trees differ: trees that have little in common, trees
    with one root and with two, and arcs with all labels of Universal Dependencies and of the model's vocabulary. If
    nothing differs, it does not read them. It reads the order if the answer to a reversed sentence, with the same
    trees, differs.

    Args:
        model: a model of a task.

    Returns:
        Any of ``"order"``, ``"dependency"`` and ``"constituency"``.

    Raises:
        ConfigError: if the model needs a relation between words that no tree has, or has no sentence encoder.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["a", "cabinet", "keys", "near", "the"])
        >>> encoder = sa.encoders.build("dependency_tree_lstm", vocab_size=len(vocabulary), dim=4)
        >>> structures_read(sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary))
        ('dependency',)
    """
    known_words = () if model.vocabulary is None else model.vocabulary.words[2 : 2 + len(_WORDS)]
    words = known_words if len(known_words) == len(_WORDS) else _WORDS
    sentence = _chain(words, ["dep"] * len(words))
    backwards = Sentence(
        words[::-1],
        sentence.tags,
        DependencyTree([2, 3, 4, 5, 0], ["dep"] * len(words)),
        _phrases(words, [(len(words) - end, len(words)) for end in range(len(words), 1, -1)]),
    )
    changes = {
        "dependency": _changed_dependencies(model, sentence),
        "constituency": [(sentence, replace(sentence, constituency=_phrases(words, _RIGHT)))],
    }
    (answer, _), (reversed_answer, _) = _answer_and_weights(model, sentence), _answer_and_weights(model, backwards)
    structures = ["order"] if bool((reversed_answer - answer).abs().max() > _ROUNDING) else []
    structures += [name for name, pairs in changes.items() if any(_differs(model, *pair) for pair in pairs)]
    return tuple(structures)


def _changed_dependencies(model: TaskModel, sentence: Sentence) -> Iterator[tuple[Sentence, Sentence]]:
    """Pairs of sentences that differ in their dependency tree alone: in heads, in roots, and in the labels of arcs."""
    for heads in (_STAR, _TWO_ROOTS):
        yield sentence, replace(sentence, dependency=DependencyTree(heads, ["dep"] * len(heads)))
    known_labels = () if model.vocabulary is None else model.vocabulary.labels
    labels = list(dict.fromkeys((*_LABELS, *known_labels)))
    size = max(1, min(_MOST_LABELS, model.task.max_length - 1))
    for start in range(0, len(labels), size):
        part = labels[start : start + size]
        words = list(itertools.islice(itertools.cycle(sentence.words), len(part) + 1))
        yield _chain(words, ["dep"] * len(words)), _chain(words, ["root", *part])


def _differs(model: TaskModel, first: Sentence, second: Sentence) -> bool:
    """Whether the model answers two sentences of the same length differently, or attends differently."""
    (answer, weights), (changed_answer, changed_weights) = (
        _answer_and_weights(model, sentence) for sentence in (first, second)
    )
    equal = all(torch.equal(*pair) for pair in zip(weights, changed_weights, strict=True))
    return not (equal and torch.equal(answer, changed_answer))


def _add_trees(model: TaskModel, item: Item) -> Example:
    (example,) = model.with_trees([to_example(item, 0, model.task)])
    for number, sentence in enumerate(example.sentences):
        if sentence.dependency is None:
            raise MissingStructure(
                f"edits of a dependency tree need one of every sentence, but sentence {number} "
                f"({' '.join(sentence.words[:6])!r}) has none",
                index=number,
                structure="dependency",
            )
    return example


def _answer_and_weights(model: TaskModel, sentence: Sentence) -> tuple[Tensor, list[Tensor]]:
    """The answer as numbers, and all attention weights."""
    try:
        result = look(model, Example([sentence] * model.task.arity))
    except MissingStructure as error:
        raise ConfigError(f"expected a model of trees or of words only, got one that needs more: {error}") from None
    answer = result.answer
    numbers = [*answer.probabilities.values(), answer.score or 0.0, answer.log_probability or 0.0]
    return torch.tensor(numbers), [attention_map.weights for attention_map in result.maps]


def _chain(words: Sequence[str], labels: Sequence[str]) -> Sentence:
    """A sentence in which each word hangs on the word before it, under left-branching phrases."""
    spans = [(0, end) for end in range(len(words), 1, -1)]
    return Sentence(words, ["X"] * len(words), DependencyTree(range(len(words)), labels), _phrases(words, spans))


def _phrases(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> ConstituencyTree:
    return ConstituencyTree(words, [("X", *span) for span in spans], tags=["X"] * len(words))
