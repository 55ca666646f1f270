"""Replies to requests: the only module of the explorer that runs models."""

import base64
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import nn

from structattn.data import Example
from structattn.data.tensors import checksum
from structattn.errors import ConfigError, StructAttnError, shown
from structattn.explorer.carried_edits import CarriedEdits
from structattn.explorer.drawing import draw
from structattn.explorer.explorer_page import frozen_page
from structattn.explorer.protocol import PAGE, VERSION, Request, check_length, check_request, sentence_to_json
from structattn.explorer.reply_records import (
    answer_to_json,
    error_to_json,
    find_completions,
    look_to_json,
    shorten_text,
)
from structattn.explorer.tree_sources import add_needed_trees, parse_example
from structattn.explorer.tried_edits import attribute, find_flips, predict_moves
from structattn.http.request_checks import RequestError
from structattn.inspection import Look, look, structures_read
from structattn.inspection.inspect_example import require_encoder
from structattn.parsing.missing_trees import MissingTrees, find_missing_structures
from structattn.parsing.parsers import DEFAULT_PARSER
from structattn.pictures.picture_files import encode
from structattn.syntax import Sentence
from structattn.tasks import TaskModel
from structattn.tasks.answering import Item, to_example
from structattn.tasks.task_model import TreeFinder

LOGGER = logging.getLogger("structattn.explorer")

# So many examples are searched for one to begin with.
_TRIED_FIRST = 8
_TYPES = {"html": "text/html", "svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}


class Answers:
    """Trained models that answer the requests of a page.

    Args:
        models: models by the names that the page shows, all of tasks with the same number of sentences.
        parser: finds trees for sentences without any. By default that of the first model that names one, or else the
            package's own where a model needs a tree.

    Raises:
        ConfigError: if there are no models, or for one that has no task or no sentence encoder, needs structures that
            no tree has, or reads another number of sentences than the others.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> answers = Answers({"mine": sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)})
        >>> request = {"v": 1, "id": 1, "do": "look", "models": ["mine"], "sentences": [{"words": ["fine", "film"]}]}
        >>> reply = answers.ask(request)
        >>> reply["looks"][0]["unknown"], sorted(reply["looks"][0]["answer"]["probabilities"])
        ([[1]], ['negative', 'positive'])
        >>> answers.ask({**request, "do": "jump"})["error"]["message"]
        "do: expected one of look, parse, influence, gradient, arcs, flip, moves, draw, got 'jump'"
    """

    def __init__(self, models: Mapping[str, nn.Module], parser: TreeFinder | None = None) -> None:
        if not models:
            raise ConfigError("expected at least one model to explore, got none")
        self.models = {name: _check_model(name, model) for name, model in models.items()}
        arities = {name: model.task.arity for name, model in self.models.items()}
        if len(set(arities.values())) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in arities.items())
            raise ConfigError(f"expected models that read the same number of sentences, got {counts}")
        self.reads = {name: structures_read(model) for name, model in self.models.items()}
        finders = [model.find_trees for model in self.models.values() if model.find_trees is not None]
        self.parser = parser if parser is not None else next(iter(finders), None)
        self._package_parser = MissingTrees(DEFAULT_PARSER)
        self._items: dict[tuple[tuple[str, ...], ...], Example] = {}

    @property
    def arity(self) -> int:
        """How many sentences each model reads."""
        return next(iter(self.models.values())).task.arity

    def ask(self, request: Any) -> dict[str, Any]:
        """The reply to a request; errors are reported in the reply.

        Args:
            request: the JSON of the request, of any kind: ``v``, ``id``, ``do`` and what that needs.
        """
        number = request.get("id") if isinstance(request, dict) else None
        begun = time.perf_counter()
        try:
            content = self._reply(check_request(request))
        except Exception as error:  # every error becomes a reply here, and nowhere else
            if not isinstance(error, StructAttnError | ValueError):
                LOGGER.exception("request %s failed", shown(number))
            return {"v": VERSION, "id": number if isinstance(number, int) else None, "error": error_to_json(error)}
        return {"v": VERSION, "id": number, "ms": round(1000 * (time.perf_counter() - begun), 1), **content}

    def boot(
        self,
        items: Sequence[Item],
        *,
        host: str,
        title: str = "structattn explorer",
        command: str | None = None,
        names: Sequence[str] | None = None,
        influence: bool = False,
        opened: int | None = None,
    ) -> dict[str, Any]:
        """The initial data of a page: the models, some items, and replies computed in advance.

        Args:
            items: the items to choose from in the page; examples, sentences, texts or pairs.
            host: ``server`` or ``widget``, which can ask; or ``frozen``: all replies about all items are included,
                and those to all single edits of them, see ``carried_edits.py``.
            title: the heading.
            command: the command that opens a live explorer of these models.
            names: names of the items; their text by default.
            influence: for frozen pages, also include the influence of words and arcs.
            opened: the index of the item to open with; by default the first of which an edit flips the answer of the
                first model, else the first.

        Returns:
            Plain JSON, for ``frozen_page``.

        Raises:
            RequestError: for a sentence that is too long.
            ValueError: for an item with another number of sentences.
            TypeError: for an item that is none of the above.
        """
        examples = [to_example(item, number, self._first.task) for number, item in enumerate(items)]
        for example in examples:
            check_length(example.sentences)
        examples = [self._complete(example, list(self.models)) for example in examples]
        names = [shorten_text(example) for example in examples] if names is None else names
        entries = [
            {
                "name": name,
                "sentences": list(map(sentence_to_json, example.sentences)),
                "expected": example.label,
                "completions": find_completions(example, self._first.labels),
            }
            for name, example in zip(names, examples, strict=True)
        ]
        self._items = {_words(example): example for example in reversed(examples)}
        if host == "frozen":
            carried = [self._carry(example, influence=influence) for example in examples]
            if opened is None:
                opened = next((number for number, (_, flips) in enumerate(carried) if flips), 0)
        else:
            if opened is None:
                opened = self._first_that_flips(examples) if host == "server" else 0
            look = {"v": VERSION, "id": 0, **self._look(examples[opened], self._shown)} if examples else None
            answers = self._answers(examples)
            carried = [
                ({"replies": {"look": look} if number == opened else {}, "answers": answers[number]}, False)
                for number in range(len(examples))
            ]
        items_of_page = [{**entry, **content} for entry, (content, _) in zip(entries, carried, strict=True)]
        return {
            "v": VERSION,
            "title": title,
            "host": host,
            "models": [self._model_record(name) for name in self.models],
            "items": items_of_page,
            "view": {"item": opened, "models": self._shown},
            "command": command,
        }

    def looks(self, names: Sequence[str], sentences: Sequence[Sentence]) -> dict[str, Look]:
        """Run models on sentences, which get the trees that they lack.

        Args:
            names: names of the models.
            sentences: as many as each model reads.

        Raises:
            RequestError: for another number of sentences.
        """
        return self._run(self._example(sentences, names), names)

    @property
    def _first(self) -> TaskModel:
        return next(iter(self.models.values()))

    @property
    def _shown(self) -> list[str]:
        """The models that are shown at first: both, if there are two."""
        names = list(self.models)
        return names if len(names) == 2 else names[:1]

    def _model_record(self, name: str) -> dict[str, Any]:
        model = self.models[name]
        return {
            "name": name,
            "task": model.task.name,
            "labels": list(model.labels) or None,
            "reads": list(self.reads[name]),
            "parser": None if self.parser is None else getattr(self.parser, "name", type(self.parser).__name__),
            # Whether the phrases that it was trained on were made from the trees of a parser.
            "parsed_phrases": "constituency" in getattr(model.find_trees, "structures", ()),
            "arity": model.task.arity,
            "sha256": checksum(model.state_dict()),
        }

    def _reply(self, request: Request) -> dict[str, Any]:
        if request.do == "parse":
            example = Example(request.texts)
            check_length(example.sentences)
            parsed = self._complete(example, list(self.models))
            return {"sentences": [sentence_to_json(sentence) for sentence in parsed.sentences]}
        for name in request.models:
            if name not in self.models:
                raise RequestError(f"models: expected some of {', '.join(self.models)}, got {shown(name)}")
        example = self._example(request.sentences, request.models)
        if request.do == "look":
            return self._look(example, request.models)
        if request.do == "draw":
            return self._draw(request, example)
        (name,) = request.models
        model = self.models[name]
        if request.do == "moves":
            return {"model": name, "answers": predict_moves(model, example, request.number, request.moves)}
        if request.do == "flip":
            return {"model": name, **find_flips(model, self.reads[name], example, request.start)}
        return {"model": name, **attribute(request.do, model, self.reads[name], example, start=request.start)}

    def _example(self, sentences: Sequence[Sentence], names: Sequence[str]) -> Example:
        if len(sentences) != self.arity:
            raise RequestError(
                f"sentences: expected {self.arity} for task {self._first.task.name!r}, got {len(sentences)}"
            )
        return self._complete(Example(sentences), names)

    def _look(self, example: Example, names: Sequence[str]) -> dict[str, Any]:
        looks = self._run(example, names)
        return {
            "sentences": [sentence_to_json(sentence) for sentence in example.sentences],
            "looks": [look_to_json(seen, name, self.models[name], self.reads[name]) for name, seen in looks.items()],
        }

    def _run(self, example: Example, names: Sequence[str]) -> dict[str, Look]:
        return {name: look(self.models[name], example) for name in names}

    def _draw(self, request: Request, example: Example) -> dict[str, Any]:
        assert request.figure is not None
        figure = request.figure
        if figure.picture == PAGE:
            content = self._write_page(request.models, example, figure.originals).encode()
            return {"type": _TYPES[figure.format], "data": base64.b64encode(content).decode("ascii")}
        originals = self.looks(request.models, figure.originals) if figure.originals else None
        looks = self._run(example, request.models)
        svg = draw(figure.picture, looks, originals=originals, by_row=figure.by_row, heads=figure.heads)
        content = encode(svg, figure.format)
        return {"type": _TYPES[figure.format], "data": base64.b64encode(content).decode("ascii")}

    def _write_page(self, names: Sequence[str], example: Example, originals: Sequence[Sentence]) -> str:
        """The page, without a server, of an example after an edit and before it."""
        examples = [example, *([self._example(originals, names)] if originals else [])]
        source = self._items.get(_words(example), example)
        sources = [sentence.metadata for sentence in source.sentences]
        recalled = [
            dataclasses.replace(each, label=source.label, sentences=tuple(map(_add_metadata, each.sentences, sources)))
            for each in examples
        ]
        shown = Answers({name: self.models[name] for name in names}, self.parser)
        edited = ["after the edit", "before"] if originals else None
        return frozen_page(shown.boot(recalled, host="frozen", title=", ".join(names), names=edited, opened=0))

    def _carry(self, example: Example, *, influence: bool) -> tuple[dict[str, Any], bool]:
        """What a frozen page holds about an item; and whether an edit flips the answer of the first model."""
        head = {"v": VERSION, "id": 0}
        looks = self._run(example, list(self.models))
        edits = {name: CarriedEdits(self.models[name], seen, self.reads[name]) for name, seen in looks.items()}
        records = [
            look_to_json(seen, name, self.models[name], self.reads[name], edits[name].scales)
            for name, seen in looks.items()
        ]
        sentences = [sentence_to_json(sentence) for sentence in example.sentences]
        replies: dict[str, Any] = {"look": {**head, "sentences": sentences, "looks": records}}
        for do in ("influence", "gradient", "arcs") if influence else ():
            replies[do] = {
                name: {**head, "model": name, **attribute(do, model, self.reads[name], example)}
                for name, model in self.models.items()
            }
        content = {"replies": replies, "edits": {name: carried.to_json() for name, carried in edits.items()}}
        return content, edits[self._shown[0]].flips

    def _answers(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        """What each model answers each example, for a table of them."""
        predicted = {name: model.predict(examples) if examples else [] for name, model in self.models.items()}
        return [{name: answer_to_json(rows[i]) for name, rows in predicted.items()} for i in range(len(examples))]

    def _first_that_flips(self, examples: Sequence[Example]) -> int:
        """The first of some examples of which an edit flips the answer; 0 if there is none, or no tree is read."""
        model, reads = self.models[self._shown[0]], self.reads[self._shown[0]]
        candidates = enumerate(examples[:_TRIED_FIRST])
        return next((number for number, example in candidates if find_flips(model, reads, example, 0)["found"]), 0)

    def _complete(self, example: Example, names: Sequence[str]) -> Example:
        """The example with the trees that the models read; those that are found here carry the name of the parser."""
        needed = {structure for name in names for structure in self.reads[name]}
        parser = self.parser
        if parser is None and any(find_missing_structures(sentence) & needed for sentence in example.sentences):
            parser = self._package_parser
        if parser is not None:
            example = parse_example(parser, example)
        completed = [add_needed_trees(sentence, needed) for sentence in example.sentences]
        return dataclasses.replace(example, sentences=tuple(completed))


def _words(example: Example) -> tuple[tuple[str, ...], ...]:
    return tuple(sentence.words for sentence in example.sentences)


def _add_metadata(sentence: Sentence, metadata: Mapping[str, Any]) -> Sentence:
    return dataclasses.replace(sentence, metadata={**metadata, **sentence.metadata})


def _check_model(name: str, model: nn.Module) -> TaskModel:
    if not hasattr(model, "task"):
        raise ConfigError(
            f"{name}: expected a model that answers a task, such as structattn.load reads, got {type(model).__name__}"
        )
    task_model = cast(TaskModel, model)
    require_encoder(task_model)
    return task_model
