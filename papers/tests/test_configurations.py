"""The configurations of published rows: each is read by its command, and says what was published and how to run it."""

from pathlib import Path

import pytest

from repository import ROOT
from structattn.cli import arguments
from structattn.cli.hydra_pretrain_command import command as pretrain_command
from structattn.cli.train_command import command as train_command
from structattn.encoders.encoder_table import EMBEDDERS, encoder_options
from structattn.options.checking import list_options
from structattn.tasks import TASKS
from structattn.training.study import read_space
from structattn_papers.additions import FACT_MODELS, fact_model_options
from structattn_papers.commands.squad import command as squad_command
from structattn_papers.questions.questions_config import question_optimization

pytestmark = pytest.mark.integration

PAPERS = sorted(
    path
    for path in (ROOT / "papers").glob("*/*.yaml")
    if path.name not in ("rows.yaml", "published.yaml", "space.yaml")
)
SPACES = sorted((ROOT / "papers").glob("*/space.yaml"))
QUESTIONS = [path for path in PAPERS if path.stem.startswith("squad")]
HEADS = [path for path in PAPERS if path.stem.startswith("heads")]


def test_there_are_configurations_of_every_paper() -> None:
    assert {path.parent.name for path in PAPERS} >= {"disan", "ms-san", "structured-attention", "tree-transformer"}


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_configurations_of_questions(path: Path) -> None:
    paths = [word for name in ("train", "dev", "backbone", "out") for word in (f"--{name}", "x")]
    values = arguments.parse(squad_command, ["--config", str(path), *paths], name="squad")
    assert values is not None
    assert values["config"].optimization == question_optimization()
    assert f"structattn squad --config papers/hydra/{path.name} " in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", HEADS, ids=lambda path: path.stem)
def test_configurations_of_heads(path: Path) -> None:
    given = ["x", "--config", str(path), "--backbone", "x", "--out", "x"]
    values = arguments.parse(pretrain_command, given, name="hydra pretrain")
    assert values is not None
    config = values["config"]
    assert (config.treebank, config.optimization.clip) == ("x", 1.0)
    assert len(config.heads.relations) in (1, 12)
    text = path.read_text(encoding="utf-8")
    assert "# Published: " in text
    assert f"--config papers/hydra/{path.name} " in text


@pytest.mark.parametrize("encoder", ["transformer", "ms_san", "disan", "bilstm_s2t", "tree_transformer", "tree_lstm"])
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.parent.name)
def test_every_value_of_a_space_is_an_option_of_every_encoder(path: Path, encoder: str) -> None:
    ends = {
        name: values if isinstance(values, list) else [values["low"], values["high"]]
        for name, values in read_space(path).items()
    }
    # Of every option another value at a time, as reading a command line takes long.
    for place in range(max(map(len, ends.values()))):
        chosen = ["--task", "trec", "--encoder", encoder, "--data.train", "x"]
        for name, values in ends.items():
            chosen += [f"--{name}", str(values[place % len(values)])]
        assert arguments.parse(train_command, chosen, name="train") is not None


@pytest.mark.parametrize(
    "path", sorted({*PAPERS} - {*QUESTIONS} - {*HEADS}), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_paper_configurations(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    values = arguments.parse(train_command, ["--config", str(path), "--data.train", "x"], name="train")
    assert values is not None
    config = values["config"]
    known = fact_model_options(config.encoder, {}) if config.encoder in FACT_MODELS else encoder_options(config.encoder)
    assert set(config.options) <= set(known)
    chosen = config.embedder.get("name", "words")
    assert set(config.embedder) <= {"name", *list_options(EMBEDDERS.outline(chosen))}
    assert config.task in TASKS
    assert "# Published: " in text
    assert f"--config papers/{path.parent.name}/{path.name} " in text
