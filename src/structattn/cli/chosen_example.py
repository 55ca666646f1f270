"""The example that a command is about: one of the data, or texts that were typed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from structattn.cli.command_inputs import refuse_without
from structattn.data import Example
from structattn.errors import ConfigError
from structattn.syntax import Sentence

if TYPE_CHECKING:
    from structattn.tasks import Task


def check_chosen(
    command: str, *, example: str | None, text: str | None, second: str | None, state: str | None, least: int
) -> None:
    """Refuse more than one of an example, texts and a state, fewer than ``least``, and texts without a word."""
    if not least <= 3 - [example, text, state].count(None) <= 1:
        raise ConfigError(f"{command}: expected {'one' if least else 'at most one'} of --example, --text and --state")
    for name, value in (("text", text), ("second", second)):
        if value is not None and not value.strip():
            raise ConfigError(f"--{name}: expected at least one word, got {value!r}")
    if text is None:
        refuse_without("--text TEXT", second=second)


def type_example(task: "Task", *texts: str | None) -> Example:
    """The example of some texts, as the task prepares those of its data."""
    sentences = [Sentence.from_text(text) for text in texts if text is not None]
    return next(iter(task.prepare([Example(sentences, id="text")])))


def find_example(examples: Sequence[Example], name: str, source: str) -> Example:
    """The example with an id, or else with this number, counted from 0."""
    matches = [candidate for candidate in examples if candidate.id == name]
    if not matches and name.isdigit():
        matches = list(examples[int(name) :][:1])
    if not matches:
        raise ConfigError(f"--example: no example {name!r} among the {len(examples)} of {source}")
    return matches[0]
