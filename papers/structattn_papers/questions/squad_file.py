"""The files of SQuAD (Rajpurkar et al. 2016, 2018): JSON of articles, their paragraphs, and the questions of these."""

import collections
import os
from collections.abc import Iterator
from typing import Any

from structattn.errors import ParseError
from structattn.files.text import parse_json, read_text
from structattn_papers.questions.question_answering import Question


def read_squad(path: str | os.PathLike[str]) -> list[Question]:
    r"""All questions of a file in the layout of SQuAD 1.1 or 2.0; the file may be gzipped (``.gz``).

    A question whose ``is_impossible`` is true has no answers, whatever ``plausible_answers`` say.

    Raises:
        ParseError: if the file is missing, is not JSON, or has another layout or no questions; if two questions have
            the same id; or if an answer is not at its ``answer_start``; the message names the question.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.json"
        >>> asked = {"id": "7", "question": "who?", "answers": [{"text": "kids", "answer_start": 4}]}
        >>> _ = path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "The kids.", "qas": [asked]}]}]}))
        >>> read_squad(path)[0].answers
        ('kids',)
    """
    try:
        content = parse_json(read_text(path))
    except ParseError:
        raise
    except ValueError as error:
        raise ParseError(f"expected SQuAD's JSON, the file is damaged: {error}", file=path) from None
    found = list(_questions(content, path))
    if not found:
        raise ParseError("expected at least one question, there is none", file=path)
    counts = collections.Counter(one.id for one in found if one.id)
    if counts and (most := counts.most_common(1)[0])[1] > 1:
        raise ParseError(f"expected an id of its own for each question, {most[1]} have the id {most[0]!r}", file=path)
    return found


def _questions(content: Any, path: str | os.PathLike[str]) -> Iterator[Question]:
    for article in _part(content, "data", path, "the file"):
        for paragraph in _part(article, "paragraphs", path, "an article"):
            context = _text(paragraph, "context", path, "a paragraph")
            for asked in _part(paragraph, "qas", path, "a paragraph"):
                name = str(asked.get("id", "")) if isinstance(asked, dict) else ""
                what = f"question {name!r}"
                text = _text(asked, "question", path, what)
                given = [] if asked.get("is_impossible") else _part(asked, "answers", path, what)
                answers = tuple(_text(answer, "text", path, what) for answer in given)
                starts = tuple(answer.get("answer_start") for answer in given)
                if not all(isinstance(start, int) for start in starts):
                    raise ParseError(f"{what}: expected a whole number under 'answer_start'", file=path)
                try:
                    yield Question(text, context, answers, starts, id=name)
                except ValueError as error:
                    raise ParseError(str(error), file=path) from None


def _part(owner: Any, key: str, path: str | os.PathLike[str], what: str) -> list[Any]:
    found = owner.get(key) if isinstance(owner, dict) else None
    if not isinstance(found, list):
        raise ParseError(f"expected a list under {key!r} of {what}, as SQuAD has it", file=path)
    return found


def _text(owner: Any, key: str, path: str | os.PathLike[str], what: str) -> str:
    found = owner.get(key) if isinstance(owner, dict) else None
    if not isinstance(found, str):
        raise ParseError(f"expected text under {key!r} of {what}, as SQuAD has it", file=path)
    return found
