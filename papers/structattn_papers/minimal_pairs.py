"""Minimal pairs as a run: how often a trained language model finds the grammatical sentence the more probable one.

Reference: Marvin and Linzen (2018), Targeted syntactic evaluation of language models; the mean over templates, which
differ in size by a factor of 160.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structattn.data import read_examples
from structattn.errors import ConfigError
from structattn.files.json_yaml import write_json_lines
from structattn.options.checking import check
from structattn.training.optimization_config import RunSettings

if TYPE_CHECKING:
    from structattn.training import RunResult
    from structattn.training.run_folder import RunFolder

_COLUMNS: dict[str, Any] = {"text_column": ["grammatical", "ungrammatical"], "label_column": "template"}


@dataclass(frozen=True)
class PairsRun(RunSettings):
    """The configuration of a measurement on minimal pairs.

    Attributes:
        run: the run folder of a language model.
        pairs: a table with the columns template, grammatical and ungrammatical.
        out: the folder of the measurement.
        sample: maximum number of pairs of each template, drawn with the seed.
        seed: random seed of the sample.
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
        report_to: tracker of the result: ``tensorboard`` or ``wandb``.

    Raises:
        ConfigError: for a sample below 1.
    """

    run: str
    pairs: str
    out: str
    sample: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.sample >= 1, "sample", "at least 1", self.sample)


def run_pairs(config: PairsRun, *, resume: bool = False, overwrite: bool = False) -> "RunResult":
    """Measure a language model on minimal pairs, and write a run folder.

    Args:
        config: the configuration.
        resume: a finished measurement is only read, and an unfinished one begins again.
        overwrite: replace the run in ``config.out``.

    Raises:
        ConfigError: if ``config.run`` is no language model, or the folder contains another run.
        ParseError: with file and line, for malformed pairs.
    """
    from structattn.training.execution import carry_out
    from structattn.training.run_folder import make_result

    def work(folder: "RunFolder", accelerator: Any) -> Mapping[str, Any]:
        return _measure(config, folder)

    files = [config.pairs]
    return carry_out(config, work, make_result, name="pairs", files=files, resume=resume, overwrite=overwrite)


def _measure(config: PairsRun, folder: "RunFolder") -> Mapping[str, Any]:
    from structattn.backbones.word_scoring import pair_accuracies, sample_pairs, word_surprisals
    from structattn.training.models import load_task_model

    begun = time.monotonic()
    model = config.hardware.move(load_task_model(config.run))
    language_model = getattr(model.encoder, "language_model", None)
    if language_model is None:
        raise ConfigError(f"run: expected a language model, {config.run} contains a {type(model).__name__}")
    pairs = list(read_examples(config.pairs, "tsv", **_COLUMNS))
    chosen = [pairs[index] for index in sample_pairs([str(pair.label) for pair in pairs], config.sample, config.seed)]
    sides = (
        list(
            word_surprisals(
                language_model, [pair.sentences[side] for pair in chosen], tokenizer=model.encoder.tokenizer
            )
        )
        for side in (0, 1)
    )
    scores = list(zip(*sides, strict=True))
    rows, mean = pair_accuracies([str(pair.label) for pair in chosen], scores)
    names = {-1: "grammatical", 0: "neither", 1: "ungrammatical"}
    write_json_lines(
        folder.predictions("dev"),
        (
            {
                "id": f"{pair.label}/{pair.id}",
                "gold": "grammatical",
                "predicted": names[(good.total > bad.total) - (good.total < bad.total)],
                "bits": [round(good.total, 3), round(bad.total, 3)],
            }
            for pair, (good, bad) in zip(chosen, scores, strict=True)
        ),
    )
    metrics = {"macro_accuracy": mean, **{row.template: row.accuracy for row in rows}}
    seconds = round(time.monotonic() - begun, 2)
    return {"main_metric": "macro_accuracy", "metrics": metrics, "seconds": seconds, "examples": {"dev": len(chosen)}}
