"""The requests that a served model answers with predictions, trees and attention: checked input, plain JSON output."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from structattn.data import Example
from structattn.errors import shown
from structattn.explorer.records import answer_record, look_record
from structattn.explorer.sentences import MOST_CHARACTERS, check_length, record_of
from structattn.http.requests import RequestError, is_text, list_of, object_of
from structattn.inspection import look, structures_read
from structattn.options.hardware import Hardware
from structattn.parsing import Parser
from structattn.serving.batching import Batcher, Work
from structattn.syntax import Sentence
from structattn.tasks import TaskModel

MOST_TEXTS = 64
"""Maximum number of texts, or pairs of texts, in one request."""


class _Question(NamedTuple):
    """One endpoint: how to read a text, how to answer a batch of texts, and the key of the answers."""

    read: Callable[[Any, int], Any]
    work: Work
    answers: str


class ModelService:
    """A model and a parser that answer requests in dynamic batches.

    Args:
        model: the model that answers ``/predict`` and ``/attention``.
        parser: the parser that answers ``/parse``.
        hardware: where the model was placed, and its precision; the CPU if ``None``.
        max_batch: maximum number of texts per batch; 1 turns batching off.
        max_wait: seconds that a text waits for others; see ``Batcher``.
        capacity: maximum number of waiting texts.

    Raises:
        ConfigError: for sizes that ``Batcher`` refuses.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> service = ModelService(model, sa.parsing.load_parser("en"))
        >>> sorted(service.answer("/predict", {"texts": ["fine film"]})["predictions"][0]["probabilities"])
        ['negative', 'positive']
        >>> service.answer("/parse", {"texts": ["Kids wash."]})["texts"][0][0]["heads"]
        [2, 0, 2]
        >>> service.close()
    """

    def __init__(
        self,
        model: TaskModel,
        parser: Parser,
        *,
        hardware: Hardware | None = None,
        max_batch: int = 32,
        max_wait: float = 0.0,
        capacity: int = 256,
    ) -> None:
        self.model = model
        self.parser = parser
        self.hardware = Hardware("cpu") if hardware is None else hardware
        self._questions = {
            "/predict": _Question(self._example, self._predict, "predictions"),
            "/parse": _Question(_text, self._parse, "texts"),
            "/attention": _Question(self._short_example, self._attention, "looks"),
        }
        work = {path: question.work for path, question in self._questions.items()}
        self._batches = Batcher(work, max_batch=max_batch, max_wait=max_wait, capacity=capacity)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the endpoints."""
        return tuple(self._questions)

    @property
    def about(self) -> dict[str, Any]:
        """The state of the service."""
        return {"status": "ok", "task": self.model.task.name, "parser": self.parser.name}

    def answer(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Args:
            path: one of ``paths``.
            request: ``texts``, a list of texts or, for tasks on pairs, of lists of two texts.

        Raises:
            RequestError: for an invalid request.
            OverloadError: immediately, if too many texts are waiting.
            StructAttnError: if the model cannot answer a text.
        """
        question = self._questions[path]
        texts = _texts(object_of(request, "request", ("texts",)).get("texts"))
        items = [question.read(text, place) for place, text in enumerate(texts)]
        return {question.answers: self._batches.submit(path, items)}

    def close(self) -> None:
        """Accept no more requests, and answer those already accepted."""
        self._batches.close()

    def _example(self, given: Any, place: int) -> Example:
        arity = self.model.task.arity
        texts = [given] if arity == 1 else list_of(given, f"texts {place}", least=arity, most=arity)
        return Example(tuple(Sentence.from_text(_text(text, place)) for text in texts), id=str(place))

    def _short_example(self, given: Any, place: int) -> Example:
        example = self._example(given, place)
        check_length(example.sentences)
        return example

    def _predict(self, examples: list[Example]) -> list[dict[str, Any]]:
        with self.hardware.autocast():
            return [answer_record(one) for one in self.model.predict(examples, batch_size=len(examples))]

    def _parse(self, texts: list[str]) -> list[list[dict[str, Any]]]:
        return [[record_of(sentence) for sentence in found] for found in self.parser.parse_texts(texts)]

    def _attention(self, examples: list[Example]) -> list[dict[str, Any]]:
        name, reads = self.model.task.name, structures_read(self.model)
        with self.hardware.autocast():
            looks = [look(self.model, example) for example in examples]
        return [
            {
                "sentences": [record_of(one) for one in found.example.sentences],
                **look_record(found, name, self.model, reads),
            }
            for found in looks
        ]


def _texts(value: Any) -> Sequence[Any]:
    return list_of(value, "texts", most=MOST_TEXTS)


def _text(value: Any, place: int) -> str:
    if not is_text(value) or len(value) > MOST_CHARACTERS or not value.strip():
        raise RequestError(f"texts {place}: expected a text of 1 to {MOST_CHARACTERS:,} characters, got {shown(value)}")
    text: str = value
    return text
