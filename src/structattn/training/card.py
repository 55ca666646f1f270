"""The model card of a run's best model: data, scores and configuration, from the run folder."""

from collections.abc import Mapping
from typing import Any

from structattn.data.model_card import Trained, write_card
from structattn.files.json_yaml import read_json
from structattn.training.config import FROM_PYTHON
from structattn.training.folder import RunFolder


def write_run_card(folder: RunFolder, name: str, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Write the card of the best model of a run; a run that keeps no model, such as one over all folds, gets no card.

    Args:
        folder: the run folder, with ``environment.json``.
        name: the command that makes such a run.
        config: the content of ``config.yaml``.
        result: the content of ``result.json``.
    """
    if not folder.best.is_dir():
        return
    environment = read_json(folder.environment)
    data = config.get("data") or {}
    from_python = str(data.get("train")).startswith(FROM_PYTHON)
    counted = [result[name] for name in ("examples", "sentences", "questions") if name in result]
    versions = ("structattn", "python", "torch", "transformers", "device")
    trained = Trained(
        None if from_python else f"structattn {name} --config config.yaml --out again",
        config,
        scores={"dev": result["metrics"], "test": result.get("test", {})},
        counts=counted[0],
        checksums=environment["sha256"],
        environment={name: environment[name] for name in versions if environment[name] is not None},
    )
    write_card(folder.best, trained)
