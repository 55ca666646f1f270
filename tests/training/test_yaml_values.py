"""Every kind of value at every key of a configuration and a space: accepted, or one error that names the file."""

import contextlib
import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from structattn.cli import train_command
from structattn.cli.arguments import parse
from structattn.errors import ConfigError, StructAttnError
from structattn.files.json_yaml import read_yaml, write_yaml
from structattn.training.plan import plan_run
from structattn.training.run_config import DataConfig, RunConfig, load_config
from structattn.training.study import read_space, with_values

VALUES: list[Any] = [
    None,
    "",
    "x",
    True,
    -1,
    3,
    2**70,
    0.5,
    1e-320,
    math.nan,
    math.inf,
    [],
    [1],
    [[None]],
    {},
    {"a": 1},
]
RANGES: list[Any] = [
    *({"low": low, "high": 9} for low in (1, 0.1, -math.inf, math.nan, 1e-320, None, "x", True)),
    *({"low": 1, "high": 9, "step": step} for step in (None, 0, 0.5, math.inf, 1e-300, "x")),
    *({"low": 1, "high": 9, "log": log} for log in (True, 3, None)),
]
BASE = RunConfig("classification", "disan", DataConfig(), options={"dim": 8}, embedder={"dim": 8}).to_dict()


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for key in value if isinstance(value, dict) else ():
        yield from places(value[key], (*path, key))


@pytest.mark.parametrize("third", [0, *(pytest.param(third, marks=pytest.mark.slow) for third in (1, 2))])
@pytest.mark.parametrize(("number", "path"), list(enumerate(places(BASE))), ids=str)
def test_every_value_of_a_configuration(number: int, path: tuple[str, ...], third: int, tmp_path: Path) -> None:
    data, file = tmp_path / "data.csv", tmp_path / "config.yaml"
    data.write_text("text,label\na,x\nb,y\n", encoding="utf-8")
    for value in VALUES[(number + third) % 3 :: 3]:
        content: Any = copy.deepcopy(BASE)
        content["data"]["train"] = str(data)
        if not path:
            content = value
        section = content
        for key in path[:-1]:
            section = section[key]
        if path:
            section[path[-1]] = value
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        try:
            config = load_config(file)
        except ConfigError as error:
            assert str(error).startswith(f"{file}: ")  # noqa: PT017 - there need not be an error
            assert "\n" not in str(error)  # noqa: PT017
            continue
        with contextlib.suppress(StructAttnError):
            plan_run(config)


@pytest.mark.parametrize(
    "name", ["optimization.epochs", "options.dim", "seed", "data", "options", "", ".", "x.y", 3, None]
)
def test_every_value_of_a_space(name: Any, tmp_path: Path) -> None:
    study = pytest.importorskip("structattn.training.study")
    pytest.importorskip("optuna", reason="needs the extra sweep")
    file = tmp_path / "space.yaml"
    accepted = 0
    for value in (*VALUES, *RANGES):
        file.write_text(yaml.safe_dump({name: value}), encoding="utf-8")
        try:
            space = read_space(file)
        except ConfigError as error:
            assert str(error).startswith(f"{file}: ")  # noqa: PT017
            continue
        accepted += 1
        study._make_distributions(space)
        with contextlib.suppress(ConfigError):
            with_values(RunConfig("classification", "disan"), {name: 1})
    assert accepted >= 4 or not isinstance(name, str)


def test_numbers_without_a_meaning_are_refused(tmp_path: Path) -> None:
    for text, message in (
        ("epochs:", "optimization.epochs: expected int, got null"),
        ("weight_decay: .inf", "optimization.weight_decay: expected at least 0, got inf"),
        (
            "evaluations_per_epoch: 1.0e-320",
            "optimization.evaluations_per_epoch: expected a whole number, or 1 divided",
        ),
    ):
        file = tmp_path / "config.yaml"
        file.write_text(f"task: trec\nencoder: disan\noptimization:\n  {text}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            load_config(file)
    file.write_text("task: trec\nencoder: disan\noptions:\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="options: expected keys and values, got 'null'"):
        load_config(file)


@pytest.mark.parametrize("text", ["[", "{", "{a: ", "- "])
def test_deep_values_end_at_the_first_level_too_many(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    original = yaml.SafeLoader.fetch_flow_collection_start
    monkeypatch.setattr(
        yaml.SafeLoader, "fetch_flow_collection_start", lambda *given: (opened.append(1), original(*given))[1]
    )
    file = tmp_path / "a.yaml"
    file.write_text("a:\n " + text * 5_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_yaml(file)
    assert len(opened) <= 101


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--config", "optimization: {epochs: }", "optimization.epochs: expected int, got null"),
        ("--config", "optimization: {weight_decay: .inf}", "optimization.weight_decay: expected at least 0"),
        ("--config", "seed: x", "seed: expected int"),
        ("--optimization", "epochs: -3", "optimization.epochs: expected at least 1, got -3"),
    ],
)
def test_the_command_line_names_the_file(option: str, content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(content, encoding="utf-8")
    words = ["--task", "trec", "--encoder", "disan", "--data.train", "x", option, str(file)]
    with pytest.raises(ConfigError, match=f"^{file}: {message}"):
        parse(train_command.command, words, name="train")
    name = message.partition(":")[0]
    with pytest.raises(ConfigError, match=f"^--{name}: expected"):
        parse(train_command.command, [*words, f"--{name}", "x"], name="train")


@pytest.mark.parametrize("text", ["1e-3", "+1E5", ".5e3", "5.e-1", "-2e0"])
def test_an_exponent_makes_a_number_wherever_yaml_is_read(text: str, tmp_path: Path) -> None:
    """As in YAML 1.2; a word that looks so keeps its quotes when it is written."""
    file = tmp_path / "a.yaml"
    file.write_text(f"a: {text}\nb: [{text}]\nc: '{text}'\nd: {text}x\n", encoding="utf-8")
    values = read_yaml(file)
    assert values == {"a": float(text), "b": [float(text)], "c": text, "d": f"{text}x"}
    write_yaml(file, values)
    assert read_yaml(file) == values
    low, high = sorted([float(text), 7.0])
    file.write_text(f"optimization.learning_rate: {{low: {low:.0e}, high: {high:.0e}}}\n", encoding="utf-8")
    assert read_space(file) == {"optimization.learning_rate": {"low": low, "high": high}}
