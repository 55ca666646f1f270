"""Questions about texts longer than a backbone reads: overlapping windows, and the best answer among all of them.

SQuAD (Rajpurkar et al. 2016, 2018) as BERT reads it (Devlin et al. 2019, section 4.2): ``[CLS] question [SEP] window
[SEP]``, each window ``stride`` tokens into the one before it; the answer is the span with the largest sum of its two
ends' logits, and no answer where the first token's sum is larger.
"""

import collections
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from structattn.data.subword_batch import check_tokenizer
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating


@dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        question: the question.
        context: the text.
        answers: gold answers; empty if the text has none.
        starts: where each answer begins in the text, in characters.
        id: its id in the data set.
    """

    question: str
    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        if len(self.answers) != len(self.starts):
            raise ValueError(f"expected a start for each of {len(self.answers)} answers, got {len(self.starts)}")
        for answer, start in zip(self.answers, self.starts, strict=True):
            if self.context[start : start + len(answer)] != answer:
                found = self.context[start : start + len(answer)]
                raise ValueError(f"question {self.id!r}: expected {answer!r} at character {start}, got {found!r}")


@dataclass(frozen=True, eq=False)
class Windows:
    """Questions as windows of tokens.

    Attributes:
        inputs: the model's inputs: ``input_ids``, ``attention_mask`` and whatever else its tokenizer returns.
        question: for each window, the index of its question.
        offsets: for each window and token, its characters in the text; ``None`` outside the text.
        starts: the first token of the answer; 0 (the window's first token) if the window does not contain all of it.
        ends: the last token of the answer; likewise.
    """

    inputs: dict[str, Tensor]
    question: tuple[int, ...]
    offsets: tuple[tuple[tuple[int, int] | None, ...], ...]
    starts: Int64[Tensor, " window"]
    ends: Int64[Tensor, " window"]


def make_windows(questions: Sequence[Question], tokenizer: Any, *, max_length: int = 384, stride: int = 128) -> Windows:
    """Cut questions and their texts into windows; the first answer of each question is the training target.

    Args:
        questions: at least one.
        tokenizer: a fast tokenizer with a padding token.
        max_length: number of tokens of a window, question and special tokens included.
        stride: number of tokens that neighbouring windows share.

    Raises:
        ConfigError: for a slow tokenizer, one without a padding token, or a length that leaves no room for the text
            beside question and stride.
    """
    check_tokenizer(tokenizer)
    if tokenizer.pad_token_id is None:
        raise ConfigError("windows are padded, but this tokenizer has no padding token; set its pad_token")
    texts = [question.question.strip() for question in questions], [question.context for question in questions]
    try:
        read = tokenizer(
            *texts,
            truncation="only_second",
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            padding_side="right",  # whatever the tokenizer's own side, as windows are cut at their end
        )
    # The Rust tokenizer raises no specific exception for this.
    except Exception as error:
        raise ConfigError(
            f"a window of {max_length} tokens with {stride} shared leaves no room beside the longest question: {error}"
        ) from None
    owner = tuple(read["overflow_to_sample_mapping"])
    offsets, starts, ends = [], [], []
    for window, number in enumerate(owner):
        sequence = read.sequence_ids(window)
        places = [
            tuple(place) if part == 1 else None
            for part, place in zip(sequence, read["offset_mapping"][window], strict=True)
        ]
        start, end = _answer_tokens(questions[number], places)
        offsets.append(tuple(places))
        starts.append(start)
        ends.append(end)
    kept = [name for name in tokenizer.model_input_names if name in read]
    inputs = {name: torch.tensor(read[name]) for name in kept}
    return Windows(inputs, owner, tuple(offsets), torch.tensor(starts), torch.tensor(ends))


def answer_questions(
    model: nn.Module,
    questions: Sequence[Question],
    tokenizer: Any,
    *,
    max_length: int = 384,
    stride: int = 128,
    max_answer_length: int = 30,
    may_be_none: bool = False,
    batch_size: int = 32,
) -> list[str]:
    """The best answer span of each text; the empty string for no answer.

    Args:
        model: returns the logits of both ends, such as ``HydraModelForQuestionAnswering`` or a transformers model.
        questions: the questions.
        tokenizer: as in ``make_windows``.
        max_length: as in ``make_windows``.
        stride: as in ``make_windows``.
        max_answer_length: maximum length of an answer, in tokens.
        may_be_none: whether texts may have no answer, as in SQuAD 2.
        batch_size: number of windows in a batch.
    """
    if not questions:
        return []
    windows = make_windows(questions, tokenizer, max_length=max_length, stride=stride)
    best: dict[int, tuple[float, str]] = {}
    none: dict[int, float] = {}
    with evaluating(model):
        lengths = windows.inputs["attention_mask"].sum(1)
        # Short windows are batched together, without the padding that longer ones need.
        for rows in lengths.argsort(stable=True).split(batch_size):
            width, device = int(lengths[rows].max()), next((one.device for one in model.parameters()), None)
            output = model(**{name: tensor[rows, :width].to(device) for name, tensor in windows.inputs.items()})
            ends = (output.start_logits.float().cpu(), output.end_logits.float().cpu())
            logits = zip(rows.tolist(), *ends, strict=True)
            for window, start, end in logits:
                number = windows.question[window]
                none[number] = min(none.get(number, float("inf")), (start[0] + end[0]).item())
                found = best_span(start, end, windows.offsets[window][:width], max_length=max_answer_length)
                if found is not None and found[0] > best.get(number, (-float("inf"), ""))[0]:
                    # Some tokenizers count the blank before a word among its characters.
                    best[number] = found[0], questions[number].context[found[1] : found[2]].strip()
    answers = []
    for number in range(len(questions)):
        score, text = best.get(number, (-float("inf"), ""))
        answers.append("" if may_be_none and none[number] > score else text)
    return answers


def best_span(
    start: Tensor, end: Tensor, offsets: Sequence[tuple[int, int] | None], *, max_length: int
) -> tuple[float, int, int] | None:
    """The span of a window with the largest sum of logits: its score and its characters; ``None`` without text.

    Example:
        >>> start, end = torch.tensor([9.0, 1.0, 0.0]), torch.tensor([9.0, 0.0, 2.0])
        >>> best_span(start, end, [None, (0, 2), (3, 5)], max_length=2)
        (3.0, 0, 5)
    """
    count = len(offsets)
    real = torch.tensor([place is not None for place in offsets], device=start.device)
    sums = start[:count, None] + end[None, :count]
    ordered = torch.ones(count, count, dtype=torch.bool, device=start.device).triu().tril(max_length - 1)
    sums = sums.masked_fill(~(ordered & real[:, None] & real), -torch.inf)
    place = int(sums.argmax())
    first, last = offsets[place // count], offsets[place % count]
    if not bool(real.any()) or first is None or last is None:
        return None
    return sums.flatten()[place].item(), first[0], last[1]


def squad_scores(predicted: Sequence[str], questions: Sequence[Question]) -> dict[str, float]:
    """Exact match and F1 of SQuAD, each the best over the gold answers, averaged over questions.

    Raises:
        ValueError: if there are no questions, or not as many answers as questions.

    Example:
        >>> asked = Question("who", "the two kids", ("two kids",), (4,))
        >>> squad_scores(["The kids"], [asked])
        {'exact_match': 0.0, 'f1': 0.6666666666666666}
    """
    if len(predicted) != len(questions) or not questions:
        raise ValueError(
            f"expected an answer for each of at least one question, got {len(predicted)} for {len(questions)}"
        )
    scores = [answer_scores(answer, question) for answer, question in zip(predicted, questions, strict=True)]
    return {name: sum(one[name] for one in scores) / len(scores) for name in scores[0]}


def answer_scores(answer: str, question: Question) -> dict[str, float]:
    """Exact match and F1 of one answer, each the best over the gold answers.

    Example:
        >>> answer_scores("The kids", Question("who", "the two kids", ("two kids", "kids"), (4, 8)))
        {'exact_match': 1.0, 'f1': 1.0}
    """
    given, gold = _plain(answer), [_plain(right) for right in question.answers or ("",)]
    return {
        "exact_match": max(float(given == right) for right in gold),
        "f1": max(_f1(given.split(), right.split()) for right in gold),
    }


def _answer_tokens(question: Question, places: Sequence[tuple[int, int] | None]) -> tuple[int, int]:
    if not question.answers:
        return 0, 0
    begin = question.starts[0]
    stop = begin + len(question.answers[0])
    inside = [index for index, place in enumerate(places) if place and place[1] > begin and place[0] < stop]
    text = [place for place in places if place is not None]
    if not inside or not text or text[0][0] > begin or text[-1][1] < stop:
        return 0, 0
    return inside[0], inside[-1]


def _plain(answer: str) -> str:
    """Lower case, without punctuation, articles and double spaces, as in SQuAD's evaluation."""
    letters = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def _f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    common = sum((collections.Counter(predicted) & collections.Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold))
