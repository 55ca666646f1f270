"""``structattn.explore``: the explorer in a notebook."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from torch import nn

from structattn.explorer.answers import Answers
from structattn.explorer.explorer_page import frozen_page
from structattn.inspection.attention_maps import list_items
from structattn.parsing.missing_trees import MissingTrees
from structattn.tasks.answering import Item


def explore(
    model: nn.Module | Mapping[str, nn.Module], items: Item | Sequence[Item], *, parser: str | None = None
) -> Any:
    """Edit the trees of a sentence and watch the attention and the answer of a model, in a notebook.

    With the extra ``notebook`` (anywidget) this is a widget: trees can be edited and sentences typed. Without it, it is
    a page that shows these items and their attention, and cannot answer anything new.

    Args:
        model: a model of a task, as ``structattn.load`` returns it; or several, by the names that are shown.
        items: an example, a sentence, a text, or a pair of these; or a list.
        parser: name of the parser of texts, as ``load_parser`` takes it; by default the one that a model names,
            or else ``en`` where a model needs a tree.

    Returns:
        An object that a notebook displays: the widget or, without anywidget, the page as a string of HTML.

    Raises:
        ConfigError: for a model that has no task or no sentence encoder; for an unknown parser.
        RequestError: for a sentence of more than 256 words.
        ValueError: for an item with another number of sentences.
        TypeError: for an item that is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("ms_san", vocab_size=len(vocabulary), dim=12)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> shown = sa.explore(model, "A fine film.", parser="en")
    """
    models = dict(model) if isinstance(model, Mapping) else {"model": model}
    answers = Answers(models, None if parser is None else MissingTrees(parser))
    examples = list_items(items)
    frozen = answers.boot(examples, host="frozen", title=", ".join(models), influence=True)
    if find_spec("anywidget") is None:
        return frozen_page(frozen)
    from structattn.explorer.widget import ExplorerWidget

    return ExplorerWidget(answers, answers.boot(examples, host="widget", title=", ".join(models)), frozen=frozen)
