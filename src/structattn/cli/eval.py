"""``structattn eval``: the metrics of a trained run on a file."""

import json as jsonlib
from collections.abc import Iterator

from structattn.cli.lines import figures
from structattn.data.parses import with_parses
from structattn.syntax.errors import ConfigError
from structattn.training import load


def command(
    run: str,
    *,
    data: str,
    format: str | None = None,
    parses: str | None = None,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Metrics of a trained run on a file.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file with labels.
        format: its data format; recognised from the file by default.
        parses: a CoNLL-U file with the trees of sentences that come without.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    model = load(run, trust_code=trust_code)
    examples = list(with_parses(model.task.read(data, format=format), parses))
    unlabelled = [example.id for example in examples if example.label is None]
    if unlabelled:
        raise ConfigError(f"{data}: example {unlabelled[0]!r} has no label to compare with; predict needs none")
    metrics = dict(model.evaluate(examples).metrics)
    yield jsonlib.dumps({**metrics, "examples": len(examples)}) if json else figures(metrics)
