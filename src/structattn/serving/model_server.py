"""``structattn serve``: a model behind four HTTP endpoints, under the rules of the explorer's server.

Input is checked, and output is plain JSON: predictions, trees and attention.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from structattn import __version__
from structattn.data import Example
from structattn.data.tensors import checksum
from structattn.errors import ConfigError, StructAttnError, shown
from structattn.explorer.protocol import MOST_CHARACTERS, check_length, sentence_to_json
from structattn.explorer.reply_records import answer_to_json, look_to_json
from structattn.http.connections import Limits
from structattn.http.request_checks import RequestError, check_list, check_object, is_text, read_body
from structattn.http.token_server import HOST, Reply, TokenServer, as_json, client_has_left
from structattn.inspection import look, structures_read
from structattn.options.hardware import Hardware
from structattn.parsing import Parser
from structattn.serving.dynamic_batching import Batcher, OverloadError, Work
from structattn.syntax import Sentence
from structattn.syntax.tokenisation import split_words
from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.serving")
MOST_TEXTS = 64
"""Maximum number of texts, or pairs of texts, in one request."""
MOST_WORDS_OF_A_REQUEST = 8_192
"""Maximum number of words in the texts of one request."""
MOST_SECONDS = 60.0
"""Maximum number of seconds until a request is answered; later it is dropped."""
# What Prometheus escapes in a label, and nothing else: JSON would escape letters, too.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


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
        max_wait: seconds that the first text of a batch waits for others. Texts that arrive while a batch is computed
            form the next one in any case.
        capacity: maximum number of waiting texts.
        max_words: maximum number of words in one request.
        name: name of the model in answers.
        max_seconds: a request that is not answered within these seconds is dropped, with an ``OverloadError``.

    Raises:
        ConfigError: for sizes below 1, or a wait that is negative or longer than a thread can wait.

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
        max_words: int = MOST_WORDS_OF_A_REQUEST,
        max_seconds: float = MOST_SECONDS,
        name: str = "model",
    ) -> None:
        if max_words < 1 or not 0 < max_seconds <= threading.TIMEOUT_MAX:
            raise ConfigError(f"expected at least one word and some seconds, got {max_words} and {max_seconds}")
        self.max_words, self.max_seconds = max_words, max_seconds
        self.model = model
        self.name, self.version = name, checksum(model.state_dict())[:12]
        self.parser = parser
        self.hardware = Hardware("cpu") if hardware is None else hardware
        self._questions = {
            "/predict": _Question(self._read_example, self._predict, "predictions"),
            "/parse": _Question(_check_text, self._parse, "texts"),
            "/attention": _Question(self._read_short_example, self._attend, "looks"),
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
        names = {"model": self.name, "version": self.version, "structattn": __version__}
        return {"status": "ok", "task": self.model.task.name, "parser": self.parser.name, **names}

    @property
    def waiting(self) -> int:
        """The number of texts that wait for a batch."""
        return len(self._batches)

    def answer(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Args:
            path: one of ``paths``.
            request: ``texts``, a list of texts or, for tasks on pairs, of lists of two texts; and ``strict``, whether
                one that cannot be answered is an error of the whole request.

        Returns:
            An answer for each text; ``error`` alone for one that cannot be answered beside others that can.

        Raises:
            RequestError: for an invalid request, or one without any text that can be answered.
            OverloadError: immediately, if too many texts are waiting; or if there was no answer in time, or the client
                has left.
            StructAttnError: if the model can answer none of the texts.
        """
        question = self._questions[path]
        values = check_object(request, "request", ("texts", "strict"))
        texts = check_list(values.get("texts"), "texts", most=MOST_TEXTS)
        if not isinstance(values.get("strict", False), bool):
            raise RequestError(f"strict: expected true or false, got {shown(values['strict'])}")
        results: list[Any] = [_read(question, text, index) for index, text in enumerate(texts)]
        items = [result for result in results if not isinstance(result, StructAttnError)]
        self._check_words(items)
        answers = iter(self._batches.submit(path, items, seconds=self.max_seconds, is_unwanted=client_has_left))
        results = [result if isinstance(result, StructAttnError) else next(answers) for result in results]
        errors = [result for result in results if isinstance(result, StructAttnError)]
        if len(errors) == len(results) or (errors and values.get("strict")):
            raise errors[0]
        return {question.answers: [_shown_error(result) for result in results]}

    def close(self) -> None:
        """Accept no more requests, and answer those already accepted."""
        self._batches.close()

    def _check_words(self, items: Sequence[Example | str]) -> None:
        count = sum(
            len(split_words(item)) if isinstance(item, str) else sum(map(len, item.sentences)) for item in items
        )
        if count > self.max_words:
            raise RequestError(f"texts: expected at most {self.max_words:,} words in a request, got {count:,}")

    def _read_example(self, value: Any, index: int) -> Example:
        arity = self.model.task.arity
        texts = [value] if arity == 1 else check_list(value, f"texts {index}", least=arity, most=arity)
        return Example(tuple(Sentence.from_text(_check_text(text, index)) for text in texts), id=str(index))

    def _read_short_example(self, value: Any, index: int) -> Example:
        example = self._read_example(value, index)
        check_length(example.sentences)
        return example

    def _predict(self, examples: list[Example]) -> list[dict[str, Any]]:
        with self.hardware.autocast():
            return [answer_to_json(answer) for answer in self.model.predict(examples, batch_size=len(examples))]

    def _parse(self, texts: list[str]) -> list[list[dict[str, Any]]]:
        return [[sentence_to_json(sentence) for sentence in parsed] for parsed in self.parser.parse_texts(texts)]

    def _attend(self, examples: list[Example]) -> list[dict[str, Any]]:
        name, reads = self.model.task.name, structures_read(self.model)
        with self.hardware.autocast():
            looks = [look(self.model, example) for example in examples]
        return [
            {
                "sentences": [sentence_to_json(sentence) for sentence in seen.example.sentences],
                **look_to_json(seen, name, self.model, reads),
            }
            for seen in looks
        ]


def _read(question: _Question, value: Any, index: int) -> Any:
    """A text as the question takes it, or the error that says why not."""
    try:
        return question.read(value, index)
    except StructAttnError as error:
        return error


def _shown_error(result: Any) -> Any:
    return {"error": " ".join(str(result).split())} if isinstance(result, StructAttnError) else result


def _check_text(value: Any, index: int) -> str:
    if not is_text(value) or len(value) > MOST_CHARACTERS or not value.strip():
        raise RequestError(f"texts {index}: expected a text of 1 to {MOST_CHARACTERS:,} characters, got {shown(value)}")
    return str(value)


class ModelServer(TokenServer):
    """An HTTP server for one service; ``/health`` and ``/metrics`` need no token.

    An invalid request is answered with 400, one that the service has no room for with 503, a failure of the service
    with 500; the body then contains ``error``.

    Args:
        service: the service that answers.
        host: the address to listen on.
        port: the port to listen on; 0 picks a free one.
        token: the token that clients send; a random one by default.
        limits: of connections and of the seconds for what clients send (``structattn.http.connections.Limits``).

    Raises:
        ConfigError: if the address is not one of this machine, or the port is in use or not permitted.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> with ModelServer(ModelService(model, sa.parsing.load_parser("en"))) as server:
        ...     server.url.startswith("http://127.0.0.1:"), len(server.token)  # server.serve_forever()
        (True, 32)
        >>> server.stop()
    """

    def __init__(
        self,
        service: ModelService,
        *,
        host: str = HOST,
        port: int = 0,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        methods = {"/health": "GET", "/metrics": "GET", **dict.fromkeys(service.paths, "POST")}
        headers = {"X-Model": quote(f"{service.name}@{service.version}", safe="@")}
        super().__init__(methods, host=host, port=port, token=token, limits=limits, headers=headers)
        self.service = service
        self._requests = Counter[tuple[str, int]]()
        self._seconds = dict.fromkeys(service.paths, 0.0)
        self._counting = threading.Lock()

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://{self.host}:{self.server_port}"

    def get(self, path: str, token: str) -> Reply:
        """The state of the service, or its counts as Prometheus reads them.

        Args:
            path: ``/health`` or ``/metrics``.
            token: not needed.
        """
        if path == "/metrics":
            return Reply(HTTPStatus.OK, self._describe_counts().encode(), "text/plain; version=0.0.4; charset=utf-8")
        return Reply(HTTPStatus.OK, as_json(self.service.about))

    def post(self, path: str, body: bytes) -> Reply:
        """The answer of the service, or an error.

        Args:
            path: one of the service's ``paths``.
            body: JSON.
        """
        begun = time.monotonic()
        reply = reply_to(self.service, path, body)
        with self._counting:
            self._requests[path, int(reply.status)] += 1
            self._seconds[path] += time.monotonic() - begun
        return reply

    def _describe_counts(self) -> str:
        with self._counting:
            requests = [f'{{path="{path}",status="{status}"}} {n}' for (path, status), n in self._requests.items()]
            seconds = [f'{{path="{path}"}} {total:.6f}' for path, total in self._seconds.items()]
        about = self.service.about
        names = ",".join(f'{key}="{about[key].translate(_ESCAPES)}"' for key in ("model", "version", "task"))
        families = {
            ("requests_total", "counter"): requests,
            ("request_seconds_total", "counter"): seconds,
            ("waiting_texts", "gauge"): [f" {self.service.waiting}"],
            ("model_info", "gauge"): [f"{{{names}}} 1"],
        }
        return "".join(
            f"# TYPE structattn_{name} {kind}\n" + "".join(f"structattn_{name}{sample}\n" for sample in samples)
            for (name, kind), samples in families.items()
        )

    def stop(self) -> None:
        """Answer the requests already received and refuse others; call it when ``serve_forever`` has returned."""
        self.refuse_connections()
        self.service.close()
        self.finish()


def reply_to(service: ModelService, path: str, body: bytes) -> Reply:
    """The answer of a service to the body of a request, or an error.

    Args:
        service: the service that answers.
        path: one of the service's ``paths``.
        body: JSON.

    Returns:
        The response: 200 with the answer, 400 for an invalid request, 503 if too many texts are waiting, 500 for a
        failure of the model.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> service = ModelService(model, sa.parsing.load_parser("en"))
        >>> reply = reply_to(service, "/predict", b'{"texts": []}')
        >>> int(reply.status), reply.content
        (400, b'{"error":"texts: expected 1 to 64, got 0"}')
        >>> service.close()
    """
    try:
        return Reply(HTTPStatus.OK, as_json(service.answer(path, read_body(body))))
    except OverloadError as error:
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except (RequestError, StructAttnError, ValueError) as error:
        return _error(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
    except Exception:  # the client learns that the request was not at fault; the log has the cause
        LOGGER.exception("a request to %s failed", path)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the model failed; the server's log has the reason")


def _error(status: HTTPStatus, message: str) -> Reply:
    return Reply(status, as_json({"error": message}))
