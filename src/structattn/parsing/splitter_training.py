"""Training a splitter of raw text on the texts of a treebank, and measuring it."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from structattn.errors import ConfigError, StructAttnError
from structattn.functional.torch_state import one_thread
from structattn.parsing.text_splitter import INSIDE, SENTENCE, TOKEN, WORD, TextSplitter
from structattn.syntax import Sentence

_CHARACTERS = 6000  # of a batch
_MIN_COUNT = 20
_LONGEST = 10  # sentences of a text
_RATE, _WARM_UP = 3e-3, 100
_NONE = -1

LabelledText = tuple[str, list[int]]
"""A text and what ends after each of its characters; -1 at spaces."""


def label_texts(sentences: Sequence[Sentence]) -> list[LabelledText]:
    """The paragraphs of a treebank, of at most ten sentences, without sentences whose tokens are not in their text.

    A ``ConfigError`` if none is left."""
    texts: list[LabelledText] = []
    size = _LONGEST
    for sentence in sentences:
        text = " ".join(sentence.metadata.get("text", "").split())
        labels = _label(sentence, text)
        is_new = size == _LONGEST or any(key.startswith(("newpar", "newdoc")) for key in sentence.metadata)
        if is_new:
            texts.append(("", []))
        size = 1 if is_new else size + 1
        if labels:
            before, earlier = texts[-1]
            texts[-1] = (f"{before} {text}", [*earlier, _NONE, *labels]) if before else (text, labels)
    texts = [pair for pair in texts if pair[0]]
    if not texts:
        raise ConfigError("a splitter learns from the texts of a treebank; no sentence has '# text' with its words")
    return texts


def train_splitter(texts: Sequence[LabelledText], *, epochs: int, seed: int) -> Iterator[TextSplitter]:
    """Train a splitter, and yield it after each epoch; the caller's random state stays as it was."""
    counts = Counter(character for text, _ in texts for character in text)
    characters = "".join(character for character, count in counts.most_common() if count >= _MIN_COUNT)
    order = random.Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        splitter = TextSplitter(characters)
        state = torch.get_rng_state()
    optimizer = torch.optim.AdamW(splitter.parameters(), _RATE)
    # The batches of all epochs have the same number of characters, but not the same number of texts.
    total = epochs * (1 + sum(len(text) for text, _ in texts) // _CHARACTERS)
    warm_up = min(_WARM_UP, 1 + total // 10)
    decay = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / warm_up) * max(0.01, 1 - step / total)
    )
    for epoch in range(1, epochs + 1):
        with torch.random.fork_rng(devices=[]), one_thread():
            torch.set_rng_state(state)
            splitter.train()
            for batch in _batches(texts, order):
                loss = _compute_loss(splitter, batch)
                if not loss.isfinite():
                    raise StructAttnError(f"the loss of a splitter is {loss.item()} in epoch {epoch}")
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(splitter.parameters(), 1.0)
                optimizer.step()
                decay.step()
            state = torch.get_rng_state()
        yield splitter.eval()


def _compute_loss(splitter: TextSplitter, batch: Sequence[LabelledText]) -> Tensor:
    inputs = splitter.collate([text for text, _ in batch])
    gold = np.full(len(inputs.characters), _NONE)
    for start, (_, labels) in zip(inputs.starts, batch, strict=True):
        gold[start : start + len(labels)] = labels
    return nn.functional.cross_entropy(splitter(inputs), torch.from_numpy(gold), ignore_index=_NONE)


def score_splitting(splitter: TextSplitter, texts: Sequence[LabelledText]) -> dict[str, float]:
    """F1 of sentences and words, as spans of characters, in percent."""
    counts = Counter[str]()
    split = splitter.split([text for text, _ in texts])
    for (_, labels), sentences in zip(texts, split, strict=True):
        predictions = [label for sentence in sentences for label in [*_label(sentence, sentence.text), _NONE]][:-1]
        for name, lowest in (("sentences", SENTENCE), ("words", WORD)):
            gold, predicted = _spans(labels, lowest), _spans(predictions, lowest)
            counts.update({f"{name} right": 2 * len(gold & predicted), name: len(gold) + len(predicted)})
    return {name: 100 * counts[f"{name} right"] / counts[name] for name in ("sentences", "words")}


def _spans(labels: Sequence[int], lowest: int) -> set[tuple[int, int]]:
    """Start and end of each unit that ends with a label of at least ``lowest``."""
    ends = [index + 1 for index, label in enumerate(labels) if label >= lowest]
    return {*zip([0, *ends], ends, strict=False)}


def _label(sentence: Sentence, text: str) -> list[int]:
    """What ends after each character of a sentence; nothing if its tokens are not those of its text."""
    lengths = {int(first): int(last) for first, _, last in (row[0].partition("-") for row in sentence.rows) if last}
    forms = {row[0].partition("-")[0]: row[1] for row in reversed(sentence.rows)}
    labels: list[int] = []
    number = 1
    while number <= len(sentence):
        last = lengths.get(number, number)
        form = "".join(forms.get(str(number), sentence.words[number - 1]).split())
        words = ["".join(word.split()) for word in sentence.words[number - 1 : last]]
        labels += [_NONE] * text.startswith(" ", len(labels))
        if not text.startswith(form, len(labels)):
            return []
        for word in words[:-1] if "".join(words) == form else []:
            labels += [INSIDE] * (len(word) - 1) + [WORD]
            form = form[len(word) :]
        labels += [INSIDE] * (len(form) - 1) + [TOKEN]
        number = last + 1
    is_whole = len(labels) == len(text) > 0
    # Within a chunk the splitter ends no sentence, and the end of the text is one.
    return [*labels[:-1], SENTENCE] if is_whole else []


def _batches(texts: Sequence[LabelledText], order: random.Random) -> Iterator[list[LabelledText]]:
    shuffled = order.sample(texts, len(texts))
    batch: list[LabelledText] = []
    size = 0
    for text in shuffled:
        batch.append(text)
        size += len(text[0])
        if size >= _CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
