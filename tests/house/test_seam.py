"""The seam for additions: everything that a user adds, in Python, as ``module:name``, and from an installed package."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import structattn as sa
from structattn.cli import main
from structattn.data import RELATIONS
from structattn.data.readers.formats import FORMATS, recognise_format
from structattn.encoders import BUILDERS, EMBEDDERS
from structattn.errors import ConfigError
from structattn.priors.relation import mask_prior
from structattn.tables import Table
from structattn.tasks import ANSWERS, DECODERS, METRICS, TASKS

TABLES = (ANSWERS, BUILDERS, DECODERS, EMBEDDERS, FORMATS, METRICS, RELATIONS, TASKS)

# One file of a user: a relation, a prior, a metric, a task, a data format, an encoder and a command.
MINE = '''
"""What one researcher adds."""

import dataclasses

import structattn as sa
from structattn.data.readers import recognised_by
from structattn.data import RelationKind
from structattn.layers import MeanPooling
from structattn.encoders import NoContext, SentenceEncoder
from structattn.priors import AttentionBias, Prior
from structattn.tasks import Metric, Task, metric


def same_initial(batch):
    """Words that begin alike, by their ids here."""
    return batch.tokens[:, :, None] == batch.tokens[:, None, :]


class NearEnds(Prior):
    """Prefers the first word."""

    name = "near ends"

    def cache_key(self):
        return type(self)

    def forward(self, batch):
        bias = -batch.mask.cumsum(1).float()
        return AttentionBias(None, bias[:, None, None, :].expand(-1, 1, batch.mask.shape[1], -1))


always_one = Metric("one", is_numeric=False, greater_is_better=True, function=metric("accuracy").function)
MOOD = Task("mood", labels=("bad", "good"), metrics=("mine:always_one", "accuracy"))
ALIKE = RelationKind(same_initial)


@recognised_by(lambda name, line: line.startswith("mood: "))
def read_moods(path):
    """Lines such as ``mood: good so fine``."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            _, label, text = line.rstrip().split(" ", 2)
            yield sa.Example([sa.Sentence.from_text(text)], label, id=str(number))


def bag(embedder, *, scale: float = 1.0):
    """The mean of the words."""
    return SentenceEncoder(embedder, NoContext(), pooler=MeanPooling(), output_dim=embedder.output_dim)


def greet(name: str, *, loud: bool = False):
    """Greet somebody.

    Args:
        name: who.
        loud: shout.
    """
    yield f"hello {name}{'!' * loud}"
'''
LINES = "mood: good so fine\nmood: bad so dull\n" * 8
ENTRY_POINTS = """[console_scripts]
other = mine:greet

[structattn.commands]
greet = mine:greet
[structattn.tasks]
mood = mine_installed:MOOD
[structattn.formats]
moods = mine:read_moods
[structattn.encoders]
bag = mine:bag
[structattn.relations]
alike = mine:ALIKE
[structattn.metrics]
broken = mine:nothing
one = mine:always_one
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module, on the path of this process only."""
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "train.txt").write_text(LINES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.fixture
def installed(mine: Path) -> Path:
    """The same as an installed package."""
    text = 'import dataclasses\n\nimport mine\n\nMOOD = dataclasses.replace(mine.MOOD, metrics=("one",))\n'
    (mine / "mine_installed.py").write_text(text, encoding="utf-8")
    information = mine / "my_structures-0.3.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    sys.path.append("")  # a path of another name, so that what was found on the old one is not remembered
    yield mine
    sys.path.remove("")
    sys.modules.pop("mine_installed", None)


OPTIONS = {"options": {"dim": 8, "heads": ["mine:same_initial/word", "mine:NearEnds", "mine:same_initial+self/none"]}}
SHORT = {"optimization": {"epochs": 2}, "device": "cpu"}


def test_a_run_of_which_everything_is_the_users(mine: Path) -> None:
    options = {**OPTIONS, **SHORT, "format": "mine:read_moods", "out": mine / "run"}
    options["options"] = {**OPTIONS["options"], "dim": 9}
    result = sa.train("train.txt", "train.txt", encoder="ms_san", task="mine:MOOD", **options)
    assert set(result.metrics) == {"mine:always_one", "accuracy"}
    assert result.metrics["mine:always_one"] == result.metrics["accuracy"]
    with pytest.raises(ConfigError, match="its prior or relation 'mine:same_initial' is code that would be imported"):
        sa.load(result.folder)
    model = sa.load(result.folder, trust_code=True)
    assert model.predict(["so fine"])[0].label in ("bad", "good")
    names = ("mine:same_initial/word", "mine:NearEnds", "mine:same_initial+self/none")
    assert model.encoder.contextualizer.attention.head_names == names
    resumed = sa.train("train.txt", "train.txt", encoder="ms_san", task="mine:MOOD", resume=True, **options)
    assert resumed.metrics == result.metrics


def test_a_task_that_is_given_as_a_value(mine: Path) -> None:
    import mine as module  # type: ignore[import-not-found]

    rows = [("so fine", "good"), ("so dull", "bad")] * 8
    for data in (rows, "train.txt"):
        out = mine / f"{type(data).__name__}-run"
        format = {} if data is rows else {"format": "mine:read_moods"}
        result = sa.train(
            data, data, encoder="emb_s2t", task=module.MOOD, out=out, options={"dim": 4}, **format, **SHORT
        )
        assert set(result.metrics) == {"mine:always_one", "accuracy"}
        assert sa.load(result.folder, trust_code=True).task == module.MOOD


def test_a_run_on_the_command_line(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", "mine:MOOD", "--encoder", "mine:bag", "--data.train", "train.txt", "--data.dev", "train.txt"]
    words += ["--data.format", "mine:read_moods", "--options.scale", "2", "--optimization.epochs", "1"]
    assert main(["train", *words, "--out", "run", "--device", "cpu"]) == 0
    assert "mine:always_one" in capsys.readouterr().out
    assert main(["eval", "run", "--data", "train.txt", "--trust-code"]) == 0
    assert main(["eval", "run", "--data", "train.txt"]) == 2
    assert "'mine:bag' is code that would be imported and run" in capsys.readouterr().err


def test_an_installed_package_brings_rows(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "mood" in TASKS
    assert TASKS.source("mood") == "my-structures"
    assert "mine" not in sys.modules, "a name is known without importing what is behind it"
    assert main(["--help"]) == 0
    assert re.search(r"^  greet +\(of my-structures\)$", capsys.readouterr().out, flags=re.MULTILINE)
    assert "mine" not in sys.modules
    assert main(["greet", "you", "--loud"]) == 0
    assert capsys.readouterr().out == "hello you!\n"
    words = ["--encoder", "bag", "--data.train", "train.txt", "--data.dev", "train.txt", "--optimization.epochs", "1"]
    assert main(["train", "--task", "mood", *words, "--out", "run", "--device", "cpu"]) == 0, "its format is recognised"
    assert recognise_format("train.txt") == "moods"
    assert sa.load("run").predict(["so fine"])[0].label in ("bad", "good"), "what is installed is trusted"
    prior = sa.priors.Relation("alike", as_mask=True)
    batch = sa.collate([sa.Sentence(["a", "b", "a"])], sa.Vocabulary(["a", "b"]))
    assert prior(batch).allowed[0, 0].int().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_an_unknown_name_says_what_there_is_and_who_brought_it(installed: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown task 'mod' \(did you mean 'mood'\?\); known: .*mood \(of my-struct"
    ):
        TASKS.find("mod")
    with pytest.raises(ConfigError, match="metric 'broken' of my-structures: cannot import mine:nothing"):
        METRICS.find("broken")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_are_added_in_python(table: Table[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_rows", dict(table._rows))
    value = object()
    table.add("one_of_mine", value)  # type: ignore[arg-type]
    assert table.find("one_of_mine") is value
    assert "one_of_mine" in table.added()
    with pytest.raises(ConfigError, match="'one_of_mine' exists; choose another name"):
        table.add("one_of_mine", value)
    with pytest.raises(ConfigError, match=f"unknown {table.what} 'one_of_min' \\(did you mean 'one_of_mine'\\?\\)"):
        table.find("one_of_min")


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no module": (lambda: sa.tasks.get_task("mine_not:MOOD"), "task 'mine_not:MOOD': expected module:name, where the"),
    "another kind": (lambda: sa.tasks.get_task("mine:same_initial"), "expected a Task, got function"),
    "metric": (lambda: sa.tasks.metric("mine:MOOD"), "metric 'mine:MOOD': expected a Metric, got Task"),
    "format": (
        lambda: list(sa.read_examples("train.txt", "mine:MOOD")),
        "format 'mine:MOOD': expected a function",
    ),
    "prior": (lambda: sa.encoders.heads_prior(["mine:MOOD"]), "expected a function of a batch, or a RelationKind"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_addresses(name: str, mine: Path) -> None:
    call, message = WRONG[name]
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_relation_of_the_wrong_shape_is_refused(mine: Path) -> None:
    (mine / "wrong.py").write_text("def mask(batch):\n    return batch.mask\n", encoding="utf-8")
    prior = mask_prior("wrong:mask")
    with pytest.raises(ValueError, match=r"relation 'wrong:mask': expected a matrix of shape \(1, 2, 2\)"):
        prior(sa.collate([sa.Sentence(["a", "b"])], sa.Vocabulary([])))
