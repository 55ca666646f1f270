"""Leave-one-out (occlusion) attribution: replace each word in turn by an unknown one, and compare the predictions.

Only the predictions of the model are used. Erasure is due to Li, Monroe and Jurafsky (2016, arXiv 1612.08220).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.inspection.attention_maps import find_module_with, find_vocabulary
from structattn.pictures import Limits, Names, Panel, heatmap_grid
from structattn.syntax import ConstituencyTree, Sentence, align_words
from structattn.tasks import Prediction
from structattn.tasks.answering import Item, to_sentences

# Longer sentences are drawn in smaller cells, which have no room for numbers.
_MOST_NUMBERS = 40


@dataclass(frozen=True)
class WordAttribution:
    """Leave-one-out attribution of a prediction to the words of a sentence.

    Attributes:
        sentence: the sentence.
        answer: the class whose probability is attributed, or the predicted score.
        changes: for each word the drop in probability (or score) when the word is occluded. Positive: the word is
            evidence for the answer.
    """

    sentence: Sentence
    answer: str | float
    changes: tuple[float, ...]


def leave_one_out(
    model: nn.Module,
    item: Item,
    *,
    label: str | None = None,
    replacement: str | None = None,
    part: range | None = None,
    batch_size: int = 64,
) -> tuple[WordAttribution, ...]:
    r"""Attribute a prediction to words: the drop in probability when a word is occluded (leave-one-out).

    .. math:: I_i = p(y \mid w_1 \ldots w_n) - p(y \mid w_1 \ldots w_{i-1} \, u \, w_{i+1} \ldots w_n)

    with *u* an unknown word; for scores the difference of the scores (Li, Monroe and Jurafsky 2016, arXiv 1612.08220,
    divide differences of log-likelihoods instead). Words are replaced rather than deleted, so trees, tags and
    distances stay as they are, including those from the model's own parser. This takes one prediction per word.

    Args:
        model: predicts a label or a score; a loaded model, or any module with such a ``predict``.
        item: example, sentence, text, or a pair of these.
        label: the class whose probability is attributed; the predicted one by default.
        replacement: stands for an occluded word. By default the mask of a pretrained backbone's tokenizer (or
            its unknown token), and otherwise a word that the model's vocabulary does not have.
        part: the words to occlude, counted over all sentences; all by default. The changes of others are NaN.
        batch_size: predictions per batch.

    Returns:
        One for each sentence of the example.

    Raises:
        ConfigError: if the model generates text, does not know the label, or needs a replacement and has none.
        TypeError: if the item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> (attribution,) = leave_one_out(model, "fine film")
        >>> attribution.sentence.words, attribution.changes[1]  # the model does not know "film" anyway
        (('fine', 'film'), 0.0)
    """
    replacement = _choose_unknown_word(model) if replacement is None else replacement
    example = _add_trees(model, item if isinstance(item, Example) else Example(to_sentences(item)))
    occluded = [
        replace_sentence(example, number, occlude(sentence, position, replacement))
        for number, sentence in enumerate(example.sentences)
        for position in range(len(sentence))
    ]
    chosen = range(len(occluded)) if part is None else part
    prediction, *changed = predict_answers(model, [example, *(occluded[word] for word in chosen)], batch_size)
    target = prediction.judged_class if label is None else label
    if target is not None and target not in prediction.probabilities:
        raise ConfigError(f"unknown label {target!r}; expected one of {', '.join(prediction.probabilities)}")
    value = read_value(prediction, target)
    drops = {word: value - read_value(answer, target) for word, answer in zip(chosen, changed, strict=True)}
    changes = iter([drops.get(word, math.nan) for word in range(len(occluded))])
    answer = prediction.answer if target is None else target
    return tuple(
        WordAttribution(sentence, answer, tuple(next(changes) for _ in sentence.words))
        for sentence in example.sentences
    )


def occlude(sentence: Sentence, position: int, replacement: str) -> Sentence:
    """The same sentence with another word at a position, in its text and its phrase tree too."""
    words = (*sentence.words[:position], replacement, *sentence.words[position + 1 :])
    phrases, metadata = sentence.constituency, dict(sentence.metadata)
    text = metadata.pop("text", None)
    if text is not None:
        try:
            start, end = align_words(sentence.words, text)[position]
        except ValueError:
            pass  # Models do not read a text that lacks some of its words, such as those of contractions.
        else:
            metadata["text"] = text[:start] + replacement + text[end:]
    if phrases is not None:
        phrases = ConstituencyTree(words, phrases.spans, tags=phrases.tags)
    # The lines of a CoNLL-U sentence would still have the old word.
    return replace(sentence, words=words, constituency=phrases, metadata=metadata, rows=(), comments=())


def replace_sentence(example: Example, number: int, sentence: Sentence) -> Example:
    """The same example with another sentence at a position."""
    return replace(example, sentences=(*example.sentences[:number], sentence, *example.sentences[number + 1 :]))


def attribution_figure(attributions: Sequence[WordAttribution], *, title: str | None = None) -> str:
    """One coloured row for each sentence, labelled with the answer; the colours are symmetric around 0.

    Args:
        attributions: the result of ``leave_one_out``.
        title: a heading.

    Returns:
        An SVG text, with the numbers unless a sentence has more than 40 words.

    Raises:
        ValueError: if there is no sentence.

    Example:
        >>> svg = attribution_figure([WordAttribution(Sentence(["not", "bad"]), "positive", (0.5, -0.25))])
        >>> "not" in svg and "0.5" in svg
        True
    """
    panels = [
        Panel((_format_answer(part.answer),), part.sentence.words, [part.changes], title="") for part in attributions
    ]
    return heatmap_grid(
        panels,
        columns=1,
        title=title,
        limits=Limits(diverging=True),
        names=Names(rows="prediction", columns="word", values="attribution"),
        show_values=max((len(part.changes) for part in attributions), default=0) <= _MOST_NUMBERS,
    )


def predict_answers(model: nn.Module, examples: list[Example], batch_size: int) -> list[Prediction]:
    """The predicted labels or scores; an error if the model answers with texts, or has no ``predict``."""
    predict = getattr(model, "predict", None)
    answers: list[Prediction] = [] if predict is None else predict(examples, batch_size=batch_size)
    if not answers or answers[0].text is not None:
        raise ConfigError(f"expected a model that predicts labels or scores, got {type(model).__name__}")
    return answers


def read_value(prediction: Prediction, target: str | None) -> float:
    """The probability of a class, or the score if there are no classes."""
    return float(prediction.score or 0.0) if target is None else prediction.probabilities[target]


def _add_trees(model: nn.Module, example: Example) -> Example:
    """The example as the model encodes it: a parser must not see the unknown word."""
    task_model = find_module_with("with_trees", model)
    return example if task_model is None else task_model.with_trees([example])[0]


def _choose_unknown_word(model: nn.Module) -> str:
    backbone = find_module_with("unknown_word", model)
    if backbone is not None:
        return str(backbone.unknown_word)
    word, vocabulary = "<unk>", find_vocabulary(model)
    while vocabulary is not None and word in vocabulary:
        word = f"<{word}>"
    return word


def _format_answer(answer: str | float) -> str:
    return answer if isinstance(answer, str) else f"{answer:.2f}"
