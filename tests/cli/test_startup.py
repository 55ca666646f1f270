"""What a command line answers before torch is imported, and the packages and outlines that make it possible."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import structattn as sa
from structattn.backbones import BackboneEmbedding
from structattn.data.model_config import make_header
from structattn.encoders.encoder_table import BUILDERS, EMBEDDERS, needs_backbone
from structattn.files.json_yaml import write_json
from structattn.lazy import first_type, imported, outline
from structattn.options.checking import list_options
from structattn.tasks import DECODERS

PACKAGE = Path(sa.__file__).parent
LAZY = sorted(
    f"structattn.{path.parent.relative_to(PACKAGE)}"
    for path in PACKAGE.glob("*/__init__.py")
    if "load_lazily(__name__)" in path.read_text(encoding="utf-8")
)
ADDRESSES = sorted(str(table.address(name)) for table in (BUILDERS, EMBEDDERS, DECODERS) for name in table)
TRAIN = ["train", "--task", "trec", "--encoder", "disan", "--data.train", "{data}"]
TRANSLATE = ["train", "--task", "translation", "--encoder", "lstm", "--data.train", "{data}"]
PARSER = ["parser", "train", "--out", "{here}/run"]
HEADS = ["hydra", "pretrain", "--out", "{here}/run"]
WRONG = {
    "unknown command": (["trian"], "unknown command 'trian' (did you mean 'train'?)"),
    "unknown command of a group": (
        ["parser", "trian"],
        "unknown command 'parser trian' (did you mean 'parser train'?)",
    ),
    "no word after list": (["list"], "missing KIND; known: encoders, embedders, decoders, tasks, formats"),
    "a wrong word after list": (["list", "task"], "expected one of 'encoders'"),
    "option of a group": ([*TRAIN, "--epochs", "3"], "--epochs (did you mean --optimization.epochs?)"),
    "option of another group": ([*TRAIN, "--data.epoch", "3"], "--data.epoch (did you mean --optimization.epochs?)"),
    "removed option": ([*TRAIN, "--print_shtab", "bash"], "unknown option --print_shtab"),
    "no option": (["train", "trec", "disan"], "unexpected 'trec': names of options begin with --"),
    "missing option": (["train", "--task", "trec"], "missing --encoder"),
    "type of an option": ([*TRAIN, "--optimization.epochs", "many"], "--optimization.epochs: expected int, got many"),
    "bound of an option": ([*TRAIN, "--optimization.epochs", "0"], "optimization.epochs: expected at least 1, got 0"),
    "choice": ([*TRAIN, "--optimization.optimizer", "adma"], "expected one of 'adam'"),
    "task": ([*TRAIN, "--task", "trecc"], "unknown task 'trecc' (did you mean 'trec'?)"),
    "encoder": ([*TRAIN, "--encoder", "disna"], "unknown encoder 'disna' (did you mean 'disan'?)"),
    "option of an encoder": ([*TRAIN, "--options.dims", "3"], "unknown option 'dims' for encoder 'disan'"),
    "type of an encoder's option": ([*TRAIN, "--options.dim", "wide"], "expected int | None, got 'wide'"),
    "bound of an encoder's option": ([*TRAIN, "--options.dim", "0"], "expected at least 1, got 0"),
    "group of an encoder's options": (
        [*TRAIN, "--encoder", "tree_transformer", "--options.accumulation.mode", "fast"],
        "option 'accumulation.mode' of encoder 'tree_transformer': expected one of 'paper', 'ref'",
    ),
    "encoder of a higher-level package": (
        [*TRAIN, "--encoder", "hydra", "--options.heads", "all"],
        "one of 'trained', 'random'",
    ),
    "embedder": ([*TRAIN, "--embedder.name", "glove"], "unknown embedder 'glove'"),
    "option of an embedder": ([*TRAIN, "--embedder.dim", "wide"], "option 'dim' of embedder 'words': expected int"),
    "decoder": (
        [*TRANSLATE, "--decoder.name", "gru"],
        "unknown decoder 'gru'",
    ),
    "option of a decoder": (
        [*TRANSLATE, "--decoder.options.heads", "3"],
        "unknown option 'heads' for decoder 'lstm'",
    ),
    "format": ([*TRAIN, "--data.format", "cvs"], "unknown data format 'cvs' (did you mean 'csv'?)"),
    "training file": ([*TRAIN, "--data.train", "nowhere.txt"], "nowhere.txt: cannot read this file"),
    "development file": ([*TRAIN, "--data.dev", "nowhere.txt"], "nowhere.txt: cannot read this file"),
    "parses": ([*TRAIN, "--data.parses", "nowhere.conllu"], "nowhere.conllu: cannot read this file"),
    "vectors": ([*TRAIN, "--data.vectors", "nowhere.vec"], "nowhere.vec: cannot read this file"),
    "backbone": ([*TRAIN, "--encoder", "backbone", "--backbone", "{here}"], "has no config.json"),
    "adapter": (
        [*TRAIN, "--encoder", "hydra", "--backbone", "{model}", "--adapter", "{here}"],
        "adapter_config.json: cannot read this file",
    ),
    "misspelt group": ([*TRAIN, "--opitons.dim", "3"], "--opitons.dim (did you mean --options.dim?)"),
    "misspelt group and option": (
        [*TRAIN, "--optimisation.epoch", "3"],
        "--optimisation.epoch (did you mean --optimization.epochs?)",
    ),
    "first run": ([*TRAIN, "--init", "nowhere"], "nowhere/config.json: cannot read this file"),
    "configuration": (["train", "--config", "nowhere.yaml"], "nowhere.yaml"),
    "folder in use": ([*TRAIN, "--out", "{here}"], "is not empty and not a run folder"),
    "no data": (["train", "--task", "trec", "--encoder", "disan"], "task 'trec' needs a training file"),
    "run to predict with": (["predict", "nowhere", "--data", "{data}"], "nowhere/config.json: cannot read this file"),
    "run to evaluate": (["eval", "nowhere", "--data", "{data}"], "nowhere/config.json: cannot read this file"),
    "run to draw": (["plot", "nowhere", "--text", "so"], "nowhere/config.json: cannot read this file"),
    "state to draw": (["plot", "{model}", "--state", "nowhere.json"], "nowhere.json: cannot read this file"),
    "file that is no state": (
        ["plot", "{model}", "--state", "{data}"],
        "expected a state of the explorer: expected JSON",
    ),
    "run to explore": (["explore", "nowhere"], "; expected the folder of a model, or of a run"),
    "one of the runs to explore": (["explore", "{model}", "nowhere"], "nowhere/config.json: cannot read this file"),
    "the same run twice": (["explore", "{model}", "{model}"], "expected different runs, got"),
    "parser to explore with": (["explore", "{model}", "--parser", "malt:swedish"], "unknown parser 'malt:swedish'"),
    "examples to explore": (["explore", "{model}", "--data", "nowhere.txt"], "nowhere.txt: cannot read this file"),
    "a text and an example": (
        ["explore", "{model}", "--text", "a", "--example", "1"],
        "explore: expected at most one of --example, --text and --state",
    ),
    "nothing to explore": (["explore", "{model}", "--text", " "], "--text: expected at least one word, got ' '"),
    "a second text alone": (["explore", "{model}", "--second", "a"], "--second a needs --text TEXT"),
    "a split of a file": (
        ["explore", "{model}", "--data", __file__, "--split", "dev"],
        "--split: expected none with --data, got dev",
    ),
    "no state to explore": (["explore", "{model}", "--state", "nowhere"], "nowhere: cannot read this file"),
    "port": (["explore", "{model}", "--port", "70000"], "--port: expected a number from 0 to 65535, got 70000"),
    "run to serve": (["serve", "nowhere"], "nowhere/config.json: cannot read this file"),
    "port of a server": (["serve", "{model}", "--port", "70000"], "--port: expected a number from 0 to 65535"),
    "batch of a server": (["serve", "{model}", "--max_batch", "0"], "--max_batch: expected at least 1, got 0"),
    "parser of a server": (["serve", "{model}", "--parser", "malt:swedish"], "unknown parser 'malt:swedish'"),
    "run to export": (["export", "nowhere", "model.pt2"], "nowhere/config.json: cannot read this file"),
    "phrases of a run": (["phrases", "nowhere"], "nowhere/config.json: cannot read this file"),
    "runs to compare": (["compare", "nowhere", "elsewhere"], "nowhere is not a run folder and contains none"),
    "page of flips": (["compare", "nowhere", "--flips", "flips.txt"], "expected a file that ends in .html"),
    "text to parse": (["parse", "nowhere.txt"], "nowhere.txt: cannot read this file"),
    "format to parse": (["parse", "{data}", "--format", "cvs"], "unknown data format 'cvs' (did you mean 'csv'?)"),
    "parser": (
        ["parse", "{data}", "--parser", "malt:swedish"],
        "unknown parser 'malt:swedish'; known: en, en:rules, spacy:MODEL",
    ),
    "parser's folder": (["parse", "{data}", "--parser", "structattn:nowhere"], "nowhere/config.json: cannot read"),
    "trees as a parser": (["parse", "{data}", "--parser", "nowhere.conllu"], "nowhere.conllu: cannot read this file"),
    "numbers of texts": (["parse", "{data}", "--skip", "-1"], "--skip: expected at least 0, got -1"),
    "treebank to learn from": ([*PARSER, "nowhere.conllu", "--dev", "{data}"], "nowhere.conllu: cannot read this file"),
    "treebank that chooses": ([*PARSER, "{data}", "--dev", "nowhere.conllu"], "nowhere.conllu: cannot read this file"),
    "folder of a parser": ([*PARSER, "{data}", "--dev", "{data}", "--out", "{here}"], "not a run folder"),
    "trees of a parser": (
        [*PARSER, "{data}", "--dev", "{data}", "--trees", "some"],
        "expected one of 'all', 'projective'",
    ),
    "treebank to evaluate on": (["parser", "eval", "nowhere.conllu", "--parser", "en"], "nowhere.conllu: cannot read"),
    "parser to evaluate": (["parser", "eval", "{data}", "--parser", "malt:x"], "unknown parser 'malt:x'"),
    "treebank of heads": ([*HEADS, "nowhere.conllu", "--backbone", "{model}"], "nowhere.conllu: cannot read this file"),
    "backbone of heads": ([*HEADS, "{data}", "--backbone", "nowhere"], "'nowhere' has no config.json"),
    "relation of heads": (
        [*HEADS, "{data}", "--backbone", "{model}", "--heads.relation", "haed"],
        "unknown relation 'haed'",
    ),
    "folder of heads": ([*HEADS, "{data}", "--backbone", "{model}", "--out", "{here}"], "not a run folder"),
    "heads to evaluate": (
        ["hydra", "eval", "{data}", "--run", "nowhere"],
        "nowhere/config.json: cannot read this file",
    ),
    "adapter to evaluate": (
        ["hydra", "eval", "{data}", "--backbone", "{model}", "--adapter", "nowhere"],
        "nowhere/adapter_config.json: cannot read this file",
    ),
    "backbone to evaluate": (
        ["hydra", "eval", "{data}", "--backbone", "nowhere", "--adapter", "nowhere"],
        "'nowhere' has no config.json",
    ),
    "space of a sweep": (["sweep", "nowhere.yaml", *TRAIN[1:]], "nowhere.yaml"),
    "option of a space": (
        ["sweep", "{space}", *TRAIN[1:], "--out", "{here}/study"],
        "unknown option 'optimization.rate'",
    ),
    "folder of a sweep": (["sweep", "{space}", *TRAIN[1:]], "out: expected a folder for the study"),
    "minutes of the demonstration": (["demo", "--minutes", "0"], "--minutes: expected a number above 0, got 0.0"),
    "folder of the demonstration": (
        ["demo", "--out", "{data}"],
        "and the page index.html, got the file ",
    ),
    "page of the demonstration": (
        ["demo", "--out", "demo.html"],
        "and the page index.html, got the file demo.html",
    ),
    "data to predict": (["predict", "{model}", "--data", "nothing.txt"], "nothing.txt: cannot read this file"),
    "format to predict": (["predict", "{model}", "--data", "{data}", "--format", "cvs"], "(did you mean 'csv'?)"),
}
RIGHT = [
    ["--version"],
    ["--help"],
    ["train", "--help"],
    *(["list", what] for what in ("encoders", "embedders", "tasks")),
]
PROGRAM = """
import contextlib, io, json, sys
from structattn.cli import main
answers = []
for arguments in json.load(sys.stdin):
    log, out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(log), contextlib.redirect_stdout(out):
        code = main(arguments)
    heavy = sorted({"torch", "transformers", "scipy"} & set(sys.modules))
    answers.append([code, log.getvalue(), out.getvalue(), heavy])
json.dump(answers, sys.stdout)
"""


def answers(commands: list[list[str]], folder: Path) -> list[tuple[int, str, str, list[str]]]:
    """Code, log, results and heavy packages that were imported, of one process that carries out all commands."""
    data = folder / "train.txt"
    data.write_text("1 a fine film\n0 a dull film\n", encoding="utf-8")
    model = folder / "model"
    model.mkdir()
    write_json(model / "config.json", make_header("sentence"))
    space = folder / "space.yaml"
    space.write_text("optimization.rate: [1, 2]\n", encoding="utf-8")
    files = {"data": data, "here": folder, "model": model, "space": space}
    filled = [[word.format(**files) for word in words] for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(filled), capture_output=True, text=True, check=True
    )
    return [tuple(answer) for answer in json.loads(done.stdout)]


def test_mistakes_are_found_without_torch(tmp_path: Path) -> None:
    found = answers([words for words, _ in WRONG.values()], tmp_path)
    for (name, (_, message)), (code, log, out, heavy) in zip(WRONG.items(), found, strict=True):
        assert not heavy, f"{name}: imports {heavy}"
        assert (code, out) == (2, ""), (name, log)
        assert message in log, name
        assert log.startswith("structattn: error: "), name
        assert log.count("\n") == 1, name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "space.yaml", "train.txt"]


def test_what_is_only_listed_needs_no_torch(tmp_path: Path) -> None:
    for words, (code, log, out, heavy) in zip(RIGHT, answers(RIGHT, tmp_path), strict=True):
        assert (code, log, heavy) == (0, "", []), words
        assert out, words


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_outline_has_the_options_of_the_function(address: str) -> None:
    function, drawn = imported(address), outline(address)
    hints = get_type_hints(function)
    assert list_options(drawn) == list_options(function)
    for name, hint in get_type_hints(drawn).items():
        # A group of options is a class of its own in the outline.
        assert hint == hints[name] or (hint.__name__, hint.__module__) == (hints[name].__name__, hints[name].__module__)
    assert inspect.getdoc(drawn) == inspect.getdoc(function)
    assert first_type(drawn) == first_type(function)


def test_encoders_on_a_backbone_are_known_by_their_first_parameter() -> None:
    for name in BUILDERS:
        function = BUILDERS.find(name)
        first = next(iter(inspect.signature(function).parameters))
        assert needs_backbone(name) == (get_type_hints(function)[first] is BackboneEmbedding)


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_has_the_names_that_it_lists(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    listed = {
        (one.asname or one.name): (node.module, one.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    assert set(listed) <= set(module.__all__) & set(dir(module))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    for name, (source, original) in listed.items():
        value = getattr(importlib.import_module(str(source)), original)
        # Also where a file has the name of a function in it, and has been imported since.
        assert getattr(module, name) is value, name
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = module.no_such_name


def test_lazy_packages_are_those_above_the_readers() -> None:
    assert {"structattn.data", "structattn.encoders", "structattn.tasks", "structattn.training"} <= set(LAZY)
