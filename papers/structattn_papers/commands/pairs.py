"""``structattn pairs``: a trained language model on minimal pairs."""

from collections.abc import Iterator

from structattn import training
from structattn.cli import check_sources
from structattn.training.run_folder import RunFolder
from structattn_papers import minimal_pairs
from structattn_papers.minimal_pairs import PairsRun


def command(config: PairsRun, *, resume: bool = False, overwrite: bool = False) -> Iterator[str]:
    """Measure how often a trained language model finds the grammatical sentence of a pair the more probable one.

    Args:
        config: the configuration.
        resume: only read a finished measurement.
        overwrite: replace the measurement in --out.
    """
    check_sources(config.pairs)
    RunFolder(config.out).check_free(config, resume=resume, overwrite=overwrite)
    result = minimal_pairs.run_pairs(config, resume=resume, overwrite=overwrite)
    if training.is_first_process():
        yield f"{result.folder}  mean of templates {100 * result.metrics['macro_accuracy']:.1f}  {result.seconds:.1f} s"
