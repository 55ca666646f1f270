"""``structattn export``: a program that answers as the run does, in a process that knows torch alone."""

import itertools
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

import structattn as sa
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.errors import ConfigError
from structattn.tasks import SENTIMENT, SentenceModel, get_task
from structattn.tasks.calibration import Calibration
from structattn.tasks.load_exported import Exported
from structattn.tasks.torch_export import DESCRIPTION, export_program

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=1), 8)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((sentence,)) for sentence in SENTENCES])
# Where there is torch alone: no line of this package is needed to read the program or to run it.
READER = """
import sys, json, torch, safetensors.torch
program, inputs, outputs = sys.argv[1:]
description = {"description.json": ""}
module = torch.export.load(program, extra_files=description).module()
found = safetensors.torch.load_file(inputs)
names = json.loads(description["description.json"])["inputs"]
given = [{name: found[f"{number}.{name}"] for name in own} for number, own in enumerate(names)]
safetensors.torch.save_file({"answers": module(*given).contiguous()}, outputs)
assert not [name for name in sys.modules if name.startswith("structattn")]
"""


def model_of(encoder: str, task: str = "sentiment") -> SentenceModel:
    torch.manual_seed(0)
    built = build(encoder, vocab_size=len(VOCABULARY), dim=12)
    return SentenceModel(built, get_task(task), ["yes", "no"] if task != "sentiment" else None, vocabulary=VOCABULARY)


def elsewhere(program: Path, model: SentenceModel, examples: list[sa.Example], folder: Path) -> Tensor:
    """The program's answers in a process of its own."""
    batches = model.collate(examples).sides
    tensors = {
        f"{number}.{name}": one.contiguous().clone()
        for number, batch in enumerate(batches)
        for name, one in batch.tensors().items()
    }
    safetensors.torch.save_file(tensors, str(folder / "inputs"))
    command = [sys.executable, "-I", "-c", READER, str(program), str(folder / "inputs"), str(folder / "answers")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return safetensors.torch.load_file(folder / "answers")["answers"]


@pytest.mark.parametrize(
    ("encoder", "task"),
    [
        ("emb_s2t", "sentiment"),
        pytest.param("lstm", "sentiment", marks=pytest.mark.slow),
        pytest.param("ms_san", "sentiment", marks=pytest.mark.slow),
        pytest.param("disan", "sentiment", marks=pytest.mark.slow),
        pytest.param("tree_lstm", "sentiment", marks=pytest.mark.slow),
        pytest.param("emb_s2t", "pair_classification", marks=pytest.mark.slow),
    ],
)
def test_the_program_answers_without_the_package(
    encoder: str, task: str, tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    model = model_of(encoder, task)
    model.save_pretrained(tmp_path / "run")
    file = tmp_path / "new" / "model.pt2"
    code, out, err = call("export", tmp_path / "run", file, "--check")
    assert (code, err) == (0, ""), err
    assert sorted(os.listdir(file.parent)) == ["load_exported.py", file.name, "split_words.py"]
    assert "predictions differ from the run's by at most" in out
    both = [(one, other) for one, other in zip(SENTENCES, SENTENCES[::-1], strict=True)]
    examples = [sa.Example(pair[: model.task.arity]) for pair in both]
    expected = [list(one.probabilities.values()) for one in model.eval().predict(examples)]
    found = elsewhere(file, model, examples, tmp_path)
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=1e-5)


def dtypes(program: torch.export.ExportedProgram) -> set[torch.dtype]:
    values = (node.meta.get("val") for node in program.graph.nodes)
    return {value.dtype for value in values if isinstance(value, Tensor)}


def test_the_program_computes_as_asked(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    model_of("emb_s2t").save_pretrained(tmp_path / "run")
    words = ["export", tmp_path / "run", tmp_path / "model.pt2", "--check", "--device", "cpu"]
    code, _, err = call(*words, "--mixed_precision", "bf16")
    assert code == 0, err
    assert torch.bfloat16 in dtypes(torch.export.load(tmp_path / "model.pt2"))
    code, _, err = call(*words, "--mixed_precision", "fp16")
    assert code == 2
    assert "mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no" in err


def test_what_the_program_reads_stands_beside_it(tmp_path: Path) -> None:
    model = model_of("emb_s2t")
    assert export_program(model, tmp_path / "model.pt2") is None
    content = {DESCRIPTION: ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=content)
    assert torch.bfloat16 not in dtypes(program), "only where it is asked for"
    found = json.loads(content[DESCRIPTION])
    assert found["labels"] == list(SENTIMENT.labels or ())
    assert found["words"] == list(VOCABULARY.words)
    assert found["inputs"][0][:3] == ["tokens", "mask", "lengths"]


def test_latent_structure_and_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"compiled operators of .*dependency_.*without latent structure"):
        export_program(model_of("structured"), tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()
    with pytest.raises(ConfigError, match="export writes models that classify sentences or pairs, got Linear"):
        export_program(torch.nn.Linear(2, 2), tmp_path / "model.pt2")
    bare = [sa.Example((sa.Sentence(["no", "tree"]),), id="first")]
    with pytest.raises(ConfigError, match=r"needs dependency .* of example 'first'; give examples that have it"):
        export_program(model_of("ms_san"), tmp_path / "model.pt2", examples=bare)


def test_a_full_disk_is_one_line_and_what_is_read_stays(
    tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    run = tmp_path / "run"
    model_of("emb_s2t").save_pretrained(run)
    before = {file: file.read_bytes() for file in run.iterdir()}
    assert call("export", run, "/dev/full") == (2, "", "structattn: error: /dev/full: no space left on device\n")
    (tmp_path / "link").symlink_to(run)
    data = tmp_path / "few.txt"
    data.write_text("dogs bark\n")
    cases = {
        run / "model.safetensors": "outside of the model's own folder",
        tmp_path / "link" / "new.pt2": "outside of the model's own folder",
        tmp_path: "expected a file, such as model.pt2, got the folder",
        data: "few.txt: expected another file than",
    }
    for out, said in cases.items():
        code, _, err = call("export", run, out, "--data", data, "--format", "text")
        assert (code, said in err) == (2, True), err
    assert {file: file.read_bytes() for file in run.iterdir()} == before
    assert data.read_text() == "dogs bark\n"


@pytest.mark.parametrize(("name", "unneeded"), [("model.pt2", "onnxruntime"), ("model.onnx", "torch")])
def test_the_loader_beside_a_program_answers_texts_alone(name: str, unneeded: str, tmp_path: Path) -> None:
    if name.endswith(".onnx"):
        pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    model = model_of("emb_s2t").eval()
    model.calibration = Calibration(0.5, {"positive": 0.9}, 0.55)
    export_program(model, tmp_path / name)
    texts = ["The keys don't LIE.", "cabinet", "Mr. Unknown's zebra, at last!", ""]
    loader = str(tmp_path / "load_exported.py")
    script = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = sys.argv[1:]\n"
    script += "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    script += f"assert not [name for name in sys.modules if name.startswith(('structattn', {unneeded!r}))]"
    command = [sys.executable, "-I", "-c", script, loader, str(tmp_path / name), *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer, prediction in zip(answers, model.predict(texts), strict=True):
        assert answer["label"] == prediction.label
        assert answer["abstained"] == bool(prediction.details)
        assert answer["probabilities"] == pytest.approx(dict(prediction.probabilities), abs=1e-5)
    code = [line for line in Path(loader).read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(code) <= 60


@pytest.mark.parametrize(
    ("encoder", "task"),
    [("disan", "sentiment"), ("ms_san", "pair_classification"), ("bilstm", "sentiment"), ("lstm", "sentiment")],
)
def test_onnx_gives_the_same_answers(encoder: str, task: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    difference = export_program(model_of(encoder, task), tmp_path / "model.onnx", check=True)
    assert difference is not None
    assert difference <= 1e-5


def test_onnx_names_its_extra_and_what_torch_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]
) -> None:
    file = tmp_path / "model.onnx"

    def refuse(*_: object, **__: object) -> None:
        raise torch.onnx.OnnxExporterError("steps\nto take") from ValueError("no amax\nin version 18")

    monkeypatch.setitem(sys.modules, "onnxscript", types.ModuleType("onnxscript"))
    monkeypatch.setattr(torch.onnx, "export", refuse)
    with pytest.raises(ConfigError, match=r"cannot write this model as ONNX; write FILE.pt2, for torch \(no amax\)"):
        export_program(model_of("emb_s2t"), file)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    model_of("emb_s2t").save_pretrained(tmp_path / "run")
    code, out, err = call("export", tmp_path / "run", file)
    assert (code, out) == (2, "")
    assert "onnxscript is not installed; run: pip install 'structattn[onnx]'" in err
    assert not file.exists()


def test_the_loader_names_what_it_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_program(model_of("emb_s2t"), tmp_path / "model.pt2")
    assert Exported(str(tmp_path / "model.pt2")).about["inputs"] == [["tokens", "mask", "lengths"]]

    def refuse(*_: object) -> None:
        raise ValueError("schema 99")

    monkeypatch.setattr(torch.export, "load", refuse)
    with pytest.raises(
        RuntimeError, match=rf"made by torch {torch.__version__[:3]}.* cannot read it: schema 99".replace("+", ".")
    ):
        Exported(str(tmp_path / "model.pt2"))


@pytest.mark.slow
def test_the_loader_refuses_programs_that_read_trees(tmp_path: Path) -> None:
    export_program(model_of("ms_san"), tmp_path / "model.pt2")
    with pytest.raises(RuntimeError, match="reads more than words, such as trees: dependency"):
        Exported(str(tmp_path / "model.pt2"))
