"""``structattn hydra eval``: heads evaluated on a treebank, and their drift in fine-tuning."""

import json as jsonlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from structattn import backbones, training
from structattn.cli.inputs import check_goes_with, check_inputs, check_sources
from structattn.cli.relations import relation_table, relation_values
from structattn.errors import ConfigError
from structattn.options.hardware import Hardware
from structattn.syntax import read_conllu

if TYPE_CHECKING:
    from structattn.cli.heads_measured import Measured


def command(
    treebank: str,
    *,
    backbone: str | None = None,
    adapter: str | None = None,
    run: str | None = None,
    batch_size: int = 32,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Measure HYDRA heads on a treebank: those of an adapter, those of a fine-tuned model, or both and their drift.

    Args:
        treebank: a CoNLL-U file.
        backbone: the folder of the backbone that the adapter was pretrained on.
        adapter: the adapter folder.
        run: a run folder, or the folder of a saved model, with HYDRA heads.
        batch_size: sentences per batch.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    if (backbone is None) != (adapter is None) or (adapter is None and run is None):
        raise ConfigError("hydra eval: expected --backbone BACKBONE --adapter ADAPTER, or --run RUN, or all three")
    if batch_size < 1:
        raise ConfigError(f"--batch_size: expected at least 1, got {batch_size}")
    if run is None:
        check_goes_with("run", trust_code=trust_code)
    check_sources(treebank, backbone=backbone, adapter=adapter)
    check_inputs(run, trust_code=trust_code)
    sentences = list(read_conllu(treebank))
    from structattn.backbones.hydra_encoder import find_heads
    from structattn.cli.heads_measured import drift_between, measure

    # The drift needs the states of both backbones for every sentence.
    keep = adapter is not None and run is not None
    measured: dict[str, Measured] = {}
    if backbone is not None and adapter is not None:
        source = backbones.PretrainedBackbone.from_folder(backbone, is_frozen=True)
        layer = hardware.move(backbones.add_heads(source.model, adapter)).hydra
        with hardware.autocast():
            measured["adapter"] = measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    if run is not None:
        source, layer = find_heads(hardware.move(training.load_task_model(run, trust_code=trust_code)).encoder)
        with hardware.autocast():
            measured["run"] = measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    with hardware.autocast():
        drift = drift_between(measured["adapter"], measured["run"]) if len(measured) == 2 else None
    if json:
        values: dict[str, Any] = {
            name: {"loss": found.loss, "relations": relation_values(found.reports)} for name, found in measured.items()
        }
        yield jsonlib.dumps({**values, "drift": drift, "sentences": len(sentences), "treebank": treebank})
        return
    for name, found in measured.items():
        yield f"{adapter if name == 'adapter' else run}: {len(found.batches)} of {len(sentences)} sentences"
        yield from relation_table(found.reports)
        yield ""
    if drift is not None:
        yield "drift of each head by fine-tuning, |M after - M before| / |M before|:"
        yield "  ".join(f"{share:.2f}" for share in drift)
