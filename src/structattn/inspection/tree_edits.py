"""The effect of edits of a dependency tree on an answer: the influence of arcs, and the single edits that flip it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from structattn.data import Example
from structattn.errors import MissingStructure
from structattn.inspection.occlusion import answers_to, replace_sentence, value_of
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import Prediction, TaskModel
from structattn.tasks.items import Item, example_of


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


def arc_influence(model: TaskModel, item: Item, *, batch_size: int = 64) -> tuple[ArcAttribution, ...]:
    r"""Attribute a prediction to dependency arcs: the drop in probability when an arc is lifted to the grandparent.

    .. math:: I_i = p(y \mid w, h_1 \ldots h_n) - p(y \mid w, h_1 \ldots h_{h_i} \ldots h_n)

    Word *i*, with all words below it, is attached to the head of its head instead; a word below the root becomes a
    second root. Lifting is the operation of Nivre and Nilsson (2005), section 2. This takes one prediction per arc.

    Args:
        model: predicts a label or a score.
        item: example, sentence, text, or a pair of these.
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
        >>> (found,) = arc_influence(model, sentence)
        >>> found.changes[0] != 0, found.changes[1]
        (True, None)
    """
    example = _with_trees(model, item)
    lifted = [
        _edited(example, number, tree.moved(word, tree.heads[head - 1]))
        for number, tree in _trees(example)
        for word, head in enumerate(tree.heads)
        if head
    ]
    first, *others = answers_to(model, [example, *lifted], batch_size)
    changes = (value_of(first, first.label) - value_of(other, first.label) for other in others)
    return tuple(
        ArcAttribution(sentence, first.answer, tuple(next(changes) if head else None for head in tree.heads))
        for sentence, (_, tree) in zip(example.sentences, _trees(example), strict=True)
    )


def flipping_edits(
    model: TaskModel, item: Item, *, part: range | None = None, batch_size: int = 64
) -> tuple[TreeEdit, ...]:
    """The single edits of dependency trees that change the predicted label, the most probable new answer first.

    Every word but the roots is tried below every other head that makes a tree, see ``DependencyTree.moved``, and every
    word as the root, see ``DependencyTree.rerooted``. For a score all edits are returned, the largest change first.
    Their number grows with the square of the length; those of a long text can be tried in parts.

    Args:
        model: predicts a label or a score.
        item: example, sentence, text, or a pair of these.
        part: which of the edits are tried, as indices below ``count_edits(example)``; all by default.
        batch_size: predictions per batch.

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
    example = _with_trees(model, item)
    places = [(number, tree, place) for number, tree in _trees(example) for place in _edit_places(tree)]
    chosen = places if part is None else [places[number] for number in part]
    edits = [(number, *place, _edited_tree(tree, *place)) for number, tree, place in chosen]
    edited = [_edited(example, number, tree) for number, _, _, tree in edits]
    first, *others = answers_to(model, [example, *edited], batch_size)
    found = [TreeEdit(*edit, prediction=other) for edit, other in zip(edits, others, strict=True)]
    if first.label is None:
        return tuple(sorted(found, key=lambda edit: -abs(float(edit.prediction.answer) - float(first.answer))))
    flipped = [edit for edit in found if edit.prediction.label != first.label]
    return tuple(sorted(flipped, key=lambda edit: -value_of(edit.prediction, edit.prediction.label)))


def single_edits(tree: DependencyTree) -> Iterator[tuple[int, int, DependencyTree]]:
    """Every tree that is one edit away: the word, its new head, and the tree.

    Example:
        >>> [(word, head, tree.heads) for word, head, tree in single_edits(DependencyTree([2, 0, 2]))]
        [(0, 3, (3, 0, 2)), (2, 1, (2, 0, 1)), (0, 0, (0, 1, 2)), (2, 0, (2, 3, 0))]
    """
    for word, head in _edit_places(tree):
        yield word, head, _edited_tree(tree, word, head)


def count_edits(example: Example) -> int:
    """How many trees of an example are one edit away.

    Example:
        >>> count_edits(Example((Sentence(["a", "loud", "dog"], dependency=DependencyTree([2, 0, 2])),)))
        4
    """
    return sum(1 for _, tree in _trees(example) for _ in _edit_places(tree))


def _edit_places(tree: DependencyTree) -> Iterator[tuple[int, int]]:
    """The word and the new head of every single edit; head 0 makes the word the root."""
    above = [set(tree.path_to_root(word)) for word in range(len(tree))]
    for word, old in enumerate(tree.heads):
        if old:
            for head in range(1, len(tree) + 1):
                if head != old and word + 1 not in above[head - 1]:
                    yield word, head
    yield from ((word, 0) for word, old in enumerate(tree.heads) if old)


def _edited_tree(tree: DependencyTree, word: int, head: int) -> DependencyTree:
    return tree.moved(word, head) if head else tree.rerooted(word)


def with_tree(sentence: Sentence, tree: DependencyTree) -> Sentence:
    """The same sentence with another dependency tree.

    Example:
        >>> with_tree(Sentence(["loud", "dogs"]), DependencyTree([2, 0])).dependency.heads
        (2, 0)
    """
    # The lines of a CoNLL-U sentence would still have the old tree.
    return replace(sentence, dependency=tree, rows=(), comments=())


def _with_trees(model: TaskModel, item: Item) -> Example:
    (example,) = model.with_trees([example_of(item, 0, model.task)])
    for number, sentence in enumerate(example.sentences):
        if sentence.dependency is None:
            raise MissingStructure(
                f"edits of a dependency tree need one of every sentence, but sentence {number} "
                f"({' '.join(sentence.words[:6])!r}) has none",
                index=number,
                structure="dependency",
            )
    return example


def _trees(example: Example) -> Iterator[tuple[int, DependencyTree]]:
    for number, sentence in enumerate(example.sentences):
        if sentence.dependency is not None:
            yield number, sentence.dependency


def _edited(example: Example, number: int, tree: DependencyTree) -> Example:
    return replace_sentence(example, number, with_tree(example.sentences[number], tree))
