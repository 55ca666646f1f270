"""Folders of models with other values, other texts or other weights: our own error, or a model that is built."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import structattn as sa
from backbones import save_tiny, tiny
from small_models import attachment_model
from small_models import sentence_model as new_sentence_model
from structattn.backbones import (
    HydraConfig,
    HydraModelForSequenceClassification,
    add_heads,
    inject,
    load_backbone,
    load_injection,
)
from structattn.data import Vocabulary
from structattn.data.tensors import build_and_load, load_tensors, save_tensors
from structattn.data.text_vocabulary import TextVocabulary
from structattn.encoders.build import build
from structattn.encoders.encoder_table import BUILDERS, encoder_options, needs_backbone
from structattn.errors import ParseError, StructAttnError
from structattn.parsing import build_parser
from structattn.parsing.tree_parser import read_parser
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT, SequenceModel, Task, TextProcessor, build_decoder, get_task

VOCABULARY = Vocabulary(["good", "bad", "kids"])
GOLD = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))


def backbone_folder(folder: Path) -> str:
    if not folder.exists():
        save_tiny(folder)
    return str(folder)


def sentence_model(folder: Path) -> None:
    options = {"dim": 8, "num_heads": 2, "num_layers": 1}
    new_sentence_model("transformer", SENTIMENT, vocabulary=VOCABULARY, options=options).save_pretrained(folder)


def backbone_model(folder: Path) -> None:
    embedder = {"folder": backbone_folder(folder.with_name("backbone"))}
    new_sentence_model("backbone", SENTIMENT, vocabulary=VOCABULARY, embedder=embedder).save_pretrained(folder)


def sequence_model(folder: Path) -> None:
    texts = TextVocabulary.from_texts(["good kids"])
    processor = TextProcessor(VOCABULARY, texts, texts.splitter)
    encoder = build("lstm", vocab_size=len(VOCABULARY), dim=4)
    decoder = build_decoder("lstm", encoder, len(texts), dim=4)
    SequenceModel(encoder, decoder, get_task("translation"), texts=processor).save_pretrained(folder)


def tree_model(folder: Path) -> None:
    task = Task("trees", answer="tree")
    attachment_model("structured", task, vocabulary=VOCABULARY, options={"dim": 4}).save_pretrained(folder)


def parser(folder: Path) -> None:
    build_parser([GOLD], encoder={"word_dim": 4, "hidden": 4, "num_layers": 1}).save_pretrained(folder)


def adapter(folder: Path) -> None:
    add_heads(tiny("bert"), HydraConfig(num_heads=2)).save_pretrained(folder)


def task_model(folder: Path) -> None:
    HydraModelForSequenceClassification(add_heads(tiny("bert"), HydraConfig(num_heads=2)), 2).save_pretrained(folder)


def injection(folder: Path) -> None:
    inject(tiny("bert"), ["forward", "word"] * 2).save_pretrained(folder)


# How a folder of each kind is written and read, and the JSON files in it that are ours.
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any], tuple[str, ...]]] = {
    "sentences": (sentence_model, sa.load, ("config.json", "vocabulary.json")),
    "backbone": (backbone_model, sa.load, ("config.json", "backbone/config.json")),
    "texts": (sequence_model, sa.load, ("config.json", "vocabulary.json", "target.json")),
    "trees": (tree_model, sa.load, ("config.json",)),
    "parser": (parser, read_parser, ("config.json", "words.json")),
    "adapter": (adapter, lambda folder: add_heads(tiny("bert"), folder), ("adapter_config.json",)),
    "task": (
        task_model,
        HydraModelForSequenceClassification.from_pretrained,
        ("config.json", "backbone/config.json"),
    ),
    "injection": (injection, lambda folder: load_injection(tiny("bert"), folder), ("adapter_config.json",)),
}
WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 3, 10**6, 10**12, 10**100, 0.5, -1e308, float("nan"), float("inf"), "", "x", "a" * 100_000, "\0",
    "../..", [], [[]], [3], ["x"], {}, {"x": 1}, {"": None}, [None] * 100,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def mutated(content: Any, chance: random.Random) -> Any:
    """One value replaced, removed, or added."""
    content = json.loads(json.dumps(content))
    path = chance.choice(list(places(content)))
    if not path:
        return chance.choice(WRONG)
    owner = content
    for key in path[:-1]:
        owner = owner[key]
    how = chance.random()
    if how < 0.1:
        del owner[path[-1]]
    elif how < 0.2 and isinstance(owner, dict):
        owner[chance.choice(("x", "encoder", "dim", "", "__class__"))] = chance.choice(WRONG)
    else:
        owner[path[-1]] = chance.choice(WRONG)
    return content


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("folders")
    for kind, (write, _, _) in KINDS.items():
        write(root / kind)
    return root


def attempt(folder: Path, read: Callable[[Path], Any]) -> StructAttnError | None:
    """What reading says; an error that is none of ours fails the test."""
    try:
        read(folder)
    except StructAttnError as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore:.*these heads were trained on a backbone with other parameters")
@pytest.mark.parametrize("kind", KINDS)
def test_other_values_give_an_error_of_ours(
    kind: str, folders: Path, tmp_path: Path, mutants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", None)
    _, read, files = KINDS[kind]
    chance = random.Random(kind)
    refused = 0
    for number in range(mutants):
        name = files[number % len(files)]
        folder = tmp_path / str(number)
        shutil.copytree(folders / kind, folder)
        content = mutated(json.loads((folder / name).read_text()), chance)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
        try:
            error = attempt(folder, read)
            refused += error is not None
            assert len(str(error)) < 2000, "values of any length are cut"
        except Exception as foreign:
            raise AssertionError(f"{kind}, mutant {number}, {name}: {json.dumps(content)[:600]}") from foreign
        shutil.rmtree(folder)
    assert refused >= mutants // 4


TEXTS = ("", "{", "[" * 100_000, '{"a":' * 100_000, "3", "null", '"x"', "[]", "\ufeff{}", "\0", "9" * 5000, "{}")


@pytest.mark.parametrize("kind", KINDS)
def test_other_texts_give_an_error_of_ours(kind: str, folders: Path, tmp_path: Path) -> None:
    _, read, files = KINDS[kind]
    for number, (name, text) in enumerate((name, text) for name in files for text in TEXTS):
        folder = tmp_path / str(number)
        shutil.copytree(folders / kind, folder)
        (folder / name).write_text(text, encoding="utf-8")
        error = attempt(folder, read)
        assert error is not None, (name, text[:20])
        assert str(folder) in str(error)
    folder = tmp_path / "bytes"
    shutil.copytree(folders / kind, folder)
    (folder / files[0]).write_bytes(b"\xff\xfe")
    assert str(folder) in str(attempt(folder, read))


# Weights

KIND_OF_NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int32": lambda tensor: tensor.int(),
    "bool": lambda tensor: tensor.bool(),
    "complex64": lambda tensor: tensor.to(torch.complex64),
}
NOT_FINITE = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf}


def weights_of(folder: Path) -> Path:
    (file,) = folder.glob("*.safetensors")
    return file


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "injection"])
@pytest.mark.parametrize("change", [*KIND_OF_NUMBERS, *NOT_FINITE])
def test_weights_that_are_none_are_refused(kind: str, change: str, folders: Path, tmp_path: Path) -> None:
    if change == "complex64":
        pytest.importorskip("safetensors", "0.7.0", reason="writes no complex numbers")
    _, read, _ = KINDS[kind]
    shutil.copytree(folders / kind, tmp_path / "model")
    file = weights_of(tmp_path / "model")
    tensors = safetensors.torch.load_file(file)
    name = max(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.dim() == 2)
    if change in KIND_OF_NUMBERS:
        tensors[name] = KIND_OF_NUMBERS[change](tensors[name])
        message = f"expected tensor '{name}' of type torch.float32, got torch.{change}"
    else:
        tensors[name][0, 0] = NOT_FINITE[change]
        message = f"expected finite numbers in tensor '{name}', got NaN or infinity"
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(ParseError, match=message) as caught:
        read(tmp_path / "model")
    assert caught.value.file == str(file)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floating_point_of_another_precision_is_converted(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    save_tensors({name: tensor.to(dtype) for name, tensor in model.state_dict().items()}, tmp_path / "a.safetensors")
    again = build_and_load(lambda: nn.Linear(3, 2), tmp_path / "a.safetensors")
    assert again.weight.dtype == torch.float32
    assert torch.equal(again.weight, model.weight.to(dtype).float())


@pytest.mark.parametrize("embedder", [5, "words", [], ["a"], {"name": "os:system"}, {"name": "words", "dim": -1}])
def test_an_embedder_that_is_none_is_refused(embedder: Any, tmp_path: Path) -> None:
    sentence_model(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "embedder": embedder}), encoding="utf-8")
    # Tests check types at run time, which comes before the library's own check of what is no mapping.
    with pytest.raises(StructAttnError, match=r"config.json: .*(embedder|Type-check error .*build)"):
        sa.load(tmp_path / "model")


def test_counters_keep_their_type(tmp_path: Path) -> None:
    model = nn.BatchNorm1d(2)
    save_tensors({**model.state_dict(), "num_batches_tracked": torch.tensor(3.0)}, tmp_path / "a.safetensors")
    with pytest.raises(ParseError, match=r"'num_batches_tracked' of type torch.int64, got torch.float32"):
        load_tensors(model, tmp_path / "a.safetensors")
    save_tensors(model.state_dict(), tmp_path / "a.safetensors")
    assert build_and_load(lambda: nn.BatchNorm1d(2), tmp_path / "a.safetensors").num_batches_tracked == 0


def test_a_model_that_its_weights_do_not_fit_gets_no_memory(tmp_path: Path) -> None:
    made = []

    def large() -> nn.Module:
        made.append(torch.empty(0).device.type)
        return nn.Linear(10**6, 10**6)

    save_tensors(nn.Linear(3, 2).state_dict(), tmp_path / "a.safetensors")
    with pytest.raises(ParseError, match=r"expected tensor 'bias' of shape \(1000000,\), got \(2,\)"):
        build_and_load(large, tmp_path / "a.safetensors")
    assert made == ["meta"]


@pytest.mark.parametrize("draw", [nn.init.normal_, torch.Tensor.normal_])
def test_a_planned_model_draws_no_normal_numbers(draw: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    drawn = []

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            if function in (nn.init.normal_, torch.Tensor.normal_):
                drawn.append(found.device.type)
            return found

    def build() -> nn.Linear:
        model = nn.Linear(3, 2)
        with torch.no_grad():
            assert draw(model.weight) is model.weight
        return model

    model = nn.Linear(3, 2)
    save_tensors(model.state_dict(), tmp_path / "a.safetensors")
    with Recorder():
        again = build_and_load(build, tmp_path / "a.safetensors")
    assert drawn == ["cpu"]
    assert torch.equal(again.weight, model.weight)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_every_encoder_can_be_planned_without_memory(name: str, folders: Path) -> None:
    options: dict[str, Any] = {}
    embedder = {"folder": backbone_folder(folders / "backbone" / "backbone")} if needs_backbone(name) else {}
    if "adapter" in encoder_options(name):
        options["adapter"] = str(folders / "adapter")
    if name == "injected":
        options["heads"] = ["forward/word", "backward/word"]
    with torch.device("meta"):
        encoder = build(name, embedder=embedder, vocab_size=5, **options)
    assert {tensor.device.type for tensor in encoder.state_dict().values()} == {"meta"}


# Checkpoints, results, and other files of a run


def test_a_backbone_of_a_name_that_cannot_be_one(tmp_path: Path) -> None:
    for name in ("a" * 100_000, "\0", ""):
        with pytest.raises(StructAttnError, match="expected the folder of a Hugging Face"):
            load_backbone(name)


def test_damaged_vocabularies_name_their_file(tmp_path: Path) -> None:
    file = tmp_path / "vocabulary.json"
    file.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ParseError, match="nested too deeply") as caught:
        Vocabulary.from_file(file)
    assert caught.value.file == str(file)
