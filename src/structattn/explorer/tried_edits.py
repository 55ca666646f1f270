"""What changes of words and trees do to an answer, as replies: influence, edits that flip, moves of an arc."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from structattn.data import Example
from structattn.explorer.reply_records import answer_to_json, edit_to_json
from structattn.http.request_checks import RequestError
from structattn.inspection import arc_influence, flipping_edits, leave_one_out
from structattn.inspection.gradient_input import gradient_times_input, has_gradient
from structattn.inspection.occlusion import predict_answers
from structattn.inspection.single_edits import count_edits, edit_example, move_word
from structattn.tasks import TaskModel

MOST_FLIPS = 50
"""How many edits that flip an answer are listed in a reply; further ones are only counted."""

# Total pairs of words in the edits tried for one reply: they take part of a second, as nothing else is answered
# meanwhile.
_PAIRS_OF_A_REPLY = 5_000_000


def attribute(
    do: str, model: TaskModel, reads: Collection[str], example: Example, *, start: int | None = None
) -> dict[str, Any]:
    """Influence of words or arcs, of all or of a part from ``start`` on; ``None`` where it is not defined, or later.

    The gradient is that of all words at once.
    """
    is_defined = _is_attributed(do, model, reads)
    of = sum(map(len, example.sentences))
    part = range(of) if start is None or not is_defined else _choose_part(example, start, of=of)
    if not is_defined:
        return {"values": [None] * len(example.sentences), "tried": of, "of": of}
    rows: list[Sequence[float | None]]
    if do == "gradient":
        rows, part = [each.changes for each in gradient_times_input(model, example)], range(of)
    else:
        attribution = leave_one_out if do == "influence" else arc_influence
        rows = [each.changes for each in attribution(model, example, part=part)]
    values = [[_unless_nan(change) for change in changes] for changes in rows]
    return {"values": values, "tried": part.stop, "of": of}


def find_flips(model: TaskModel, reads: Collection[str], example: Example, start: int) -> dict[str, Any]:
    """Edits that flip the answer, among those from number ``start`` on, up to a fixed number of pairs of words."""
    of = count_edits(example) if _judges_trees(model, reads) else 0
    part = _choose_part(example, start, of=of)
    edits = flipping_edits(model, example, part=part) if part else ()
    return {"edits": list(map(edit_to_json, edits[:MOST_FLIPS])), "found": len(edits), "tried": part.stop, "of": of}


def predict_moves(
    model: TaskModel, example: Example, number: int, moves: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """The predictions after each of some moves of an arc of one sentence, in one batch or few."""
    tree = example.sentences[number].dependency
    if tree is None:
        raise RequestError("moves: expected a sentence with a dependency tree, got one without", sentence=number)
    edits = [edit_example(example, number, move_word(tree, *move)) for move in moves]
    return list(map(answer_to_json, predict_answers(model, edits, 64)))


def _is_attributed(do: str, model: TaskModel, reads: Collection[str]) -> bool:
    if do == "gradient":
        return has_gradient(model)
    return model.task.judges_texts if do == "influence" else _judges_trees(model, reads)


def _judges_trees(model: TaskModel, reads: Collection[str]) -> bool:
    return model.task.judges_texts and "dependency" in reads


def _choose_part(example: Example, start: int, *, of: int) -> range:
    """The numbers of the edits that one reply tries, from ``start`` on."""
    count = max(1, _PAIRS_OF_A_REPLY // max(len(sentence) for sentence in example.sentences) ** 2)
    return range(start, max(start, min(of, start + count)))


def _unless_nan(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
