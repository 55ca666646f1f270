"""The configuration of a training run, as one frozen value; a run folder's ``config.yaml`` is exactly this.

The command line can read and print it without importing torch's training machinery.
"""

import dataclasses
import os
import re
from argparse import ArgumentError
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

import yaml

from structattn.syntax.errors import ConfigError, shown
from structattn.syntax.folders import read_yaml
from structattn.training.config_parts import (
    ClassifierConfig,
    DataConfig,
    DecoderConfig,
    OptimizationConfig,
    Option,
    check,
    check_choices,
)

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Attributes:
        task: name of a task.
        encoder: name of an encoder, or ``module:function`` for one of your own, see ``structattn.encoders.builder``.
        data: the examples; tasks that generate their own need none.
        options: keyword arguments of the encoder's builder.
        classifier: the layers above the encoder.
        decoder: in place of the classifier, for tasks whose answer is a text.
        optimization: optimiser and schedule.
        init: folder of a run or model, of any task, from whose encoder this one starts.
        seed: of parameters, dropout and order of the examples.
        out: the run folder; ``runs/<task>/<encoder>/seed<k>-<time>`` if ``None``.
        folds: number of folds of cross-validation; the training file is then all the data.
        fold: train this fold only, counted from 1.
        device: ``"cpu"`` or ``"cuda"``; CUDA where available if ``None``.

    Raises:
        ConfigError: if a value is out of its range or two contradict each other.

    Example:
        >>> config = RunConfig("trec", "ms_san", DataConfig("TREC.train.all"), options={"dim": 100})
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
    """

    task: str
    encoder: str
    data: DataConfig = field(default_factory=DataConfig)
    options: dict[str, Option] = field(default_factory=dict)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    init: str | None = None
    seed: int = 1
    out: str | None = None
    folds: int | None = None
    fold: int | None = None
    device: Device | None = None

    def __post_init__(self) -> None:
        check_choices(self, "")
        check(0 <= self.seed < 2**32, "seed", "at least 0 and below 2**32", self.seed)
        check(self.folds is None or self.folds >= 2, "folds", "at least 2", self.folds)
        if self.fold is not None:
            check(self.folds is not None, "folds", "a number, as fold is given", self.folds)
            check(1 <= self.fold <= (self.folds or 0), "fold", f"1 to {self.folds}", self.fold)
        if self.folds is not None and (self.data.dev is not None or self.data.test is not None):
            raise ConfigError("folds: cross-validation makes its own dev and test parts; leave out data.dev, data.test")
        if self.device == "cpu" and self.optimization.mixed_precision == "fp16":
            raise ConfigError("optimization.mixed_precision: fp16 needs a GPU; on a CPU take bf16 or no")

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, for YAML."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunConfig":
        """The inverse of ``to_dict``.

        Raises:
            ConfigError: for an unknown or missing key, or a value of the wrong type.
        """
        import jsonargparse

        # Also because jsonargparse imports whatever class stands where a section is expected.
        _check_keys(values, cls)
        parser = jsonargparse.ArgumentParser(exit_on_error=False)
        parser.add_class_arguments(cls, as_group=False)
        try:
            found = parser.instantiate(parser.parse_object(dict(values)))
        except ArgumentError as error:
            raise ConfigError(_in_one_line(str(error))) from None
        return cls(**{item.name: found[item.name] for item in dataclasses.fields(cls)})


def load_config(path: str | os.PathLike[str]) -> RunConfig:
    """Read a YAML file, such as the ``config.yaml`` of a run folder.

    Raises:
        ConfigError: if the file is missing or malformed; the message names the file and the key.
    """
    values = read_yaml(path)
    try:
        return RunConfig.from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def dump_config(config: RunConfig) -> str:
    """The YAML text that ``load_config`` reads."""
    return yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)


def _check_keys(values: Mapping[str, Any], kind: type, section: str = "") -> None:
    known = {f"{section}{name}": hint for name, hint in get_type_hints(kind).items()}
    for key, value in values.items():
        name = f"{section}{key}"
        if name not in known:
            raise ConfigError(f"unknown key {name!r}; known: {', '.join(known)}")
        if dataclasses.is_dataclass(known[name]):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name}: expected keys and values, got {shown(value)}")
            _check_keys(value, known[name], f"{name}.")


def _in_one_line(message: str) -> str:
    message = " ".join(message.split())
    message = re.sub(r"<class '(\w+)'>", r"\1", message).replace("typing.", "")
    union = r'Parser key "([\w.]+)": Does not validate against .* Subtypes: \[(.*)\] Errors: .* Given value: (.*)'
    message = re.sub(union, r"\1: expected one of \2, got \3", message)
    return re.sub(r'Parser key "([\w.]+)": Expected an? (.*)\. Got value: ', r"\1: expected \2, got ", message)
