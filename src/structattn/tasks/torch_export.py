"""A trained classifier as one ``torch.export`` program, or as ONNX, which needs torch or onnxruntime alone.

The program takes the tensors of one batch by name, a mapping for each sentence of an example, and returns the
probabilities of the labels. The file also contains the names, the labels and the words.
"""

import contextlib
import dataclasses
import inspect
import io
import itertools
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from structattn.data import Example, SentenceBatch
from structattn.data.generated import agreement_treebank
from structattn.data.sentence_batch import TREES
from structattn.errors import ConfigError, MissingStructure, StructAttnError, require
from structattn.files.replacing import replace_bytes, replace_text
from structattn.functional.token2token import write_out
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import tokenisation
from structattn.tasks import load_exported
from structattn.tasks.calibration import Calibration
from structattn.tasks.sentence_model import SentenceModel
from structattn.tasks.task_batch import TaskBatch

#: The file within the program file that describes it.
DESCRIPTION = "description.json"
# How far the program's probabilities may be from the model's: other kernels add up in another order.
_TOLERANCE = 1e-5
# Size of the first batch, different from its other sizes: torch treats equal sizes as the same.
_BATCH = 3


def export_program(
    model: nn.Module, path: str | os.PathLike[str], *, examples: Sequence[Example] | None = None, check: bool = False
) -> float | None:
    """Write a model as a program for batches of any size and length, as ONNX if the name of the file ends in ``.onnx``.

    Sizes are read off ``examples``; the result is the largest difference of a probability if the file is to be checked.
    """
    if not isinstance(model, SentenceModel) or model.nodes or model.vocabulary is None:
        raise ConfigError(
            f"export writes models that classify sentences or pairs, got {type(model).__name__}; "
            "other models need this package to read their answers"
        )
    is_onnx = os.fspath(path).endswith(".onnx")
    for module in ["onnxscript"] * is_onnx + ["onnxruntime"] * (is_onnx and check):
        require(module, "onnx")
    samples: Sequence[Example] = _generated(model.task.arity) if examples is None else list(examples)
    if not samples:
        raise ConfigError("export reads its sizes off a few examples, got none")
    with evaluating(model), torch.no_grad():
        samples = _without_unread_trees(model, samples)
        batches = [_batch(model, samples[:_BATCH])]
        program = _without_package(_exported(_Classifier(model, batches[0]), batches[0]))
        program.example_inputs = None  # only pickle could write them
        content = {
            "labels": list(model.labels),
            "inputs": [list(batch.tensors()) for batch in batches[0]],
            "words": list(model.vocabulary.words),
            "lowercase": model.vocabulary.lowercase,
            "max_length": model.task.max_length,
            "calibration": dataclasses.asdict(model.calibration or Calibration()),
            "torch": torch.__version__,
        }
        # In memory first: torch aborts the process if the disk is full while it writes to a file.
        whole = io.BytesIO()
        write, read = (_write_onnx, load_exported.open_onnx) if is_onnx else (_write_torch, load_exported.open_torch)
        write(program, json.dumps(content, ensure_ascii=False), whole)
        with replace_bytes(path) as stream:
            stream.write(whole.getbuffer())
        _write_loader(Path(path).parent)
        if not check:
            return None
        sizes = (1, 2, 5)
        batches += [
            _batch(model, samples[start : start + size]) for size in sizes for start in range(0, 3 * size, size)
        ]
        _, run, _ = read(os.fspath(path))
        return _difference(model, run, [batch for batch in batches if batch])


def _write_torch(program: ExportedProgram, content: str, stream: io.BytesIO) -> None:
    torch.export.save(program, stream, extra_files={DESCRIPTION: content})


def _write_onnx(program: ExportedProgram, content: str, stream: io.BytesIO) -> None:
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")  # says that torchvision is not installed
    logger.addFilter(_refuse)
    try:
        with warnings.catch_warnings():  # torch warns of its own code
            warnings.simplefilter("ignore")
            written = torch.onnx.export(program, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().split("\n")[0]
        raise ConfigError(f"torch cannot write this model as ONNX; write FILE.pt2, for torch ({reason})") from None
    finally:
        logger.removeFilter(_refuse)
    assert written is not None
    written.model.metadata_props[DESCRIPTION] = content
    stream.write(written.model_proto.SerializeToString())


def _refuse(_: logging.LogRecord) -> bool:
    return False


def _without_unread_trees(model: SentenceModel, samples: Sequence[Example]) -> Sequence[Example]:
    """The examples without the trees that make no difference, so that the program does not ask for them."""

    def answer(examples: Sequence[Example]) -> Tensor | None:
        with contextlib.suppress(MissingStructure):
            logits: Tensor = model(model.collate(examples[:_BATCH]).to(model.device))
            return logits
        return None

    expected = answer(samples)
    for name in TREES if expected is not None else ():
        without: dict[str, Any] = {name: None}
        bare = [replace(each, sentences=tuple(replace(part, **without) for part in each.sentences)) for each in samples]
        logits = answer(bare)
        is_read = logits is None or expected is None or not torch.equal(logits, expected)
        samples = samples if is_read else bare
    return samples


def _write_loader(folder: Path) -> None:
    """Write the module that loads programs, with the splitting of texts that it needs, beside a program."""
    parts = {load_exported: "load_exported.py", tokenisation: "split_words.py"}
    for module, name in parts.items():
        source = inspect.getsource(module)
        with replace_text(folder / name) as stream:
            stream.write(source.replace("from structattn.syntax.tokenisation import", "from split_words import"))


class _Classifier(nn.Module):
    """From tensors by name to probabilities."""

    def __init__(self, model: SentenceModel, batches: Sequence[SentenceBatch]) -> None:
        super().__init__()
        self.model = model
        self.facts = [batch.facts() for batch in batches]

    def forward(self, *sentences: dict[str, Tensor]) -> Float[Tensor, "batch label"]:
        batches = [SentenceBatch.from_tensors(*tensors) for tensors in zip(sentences, self.facts, strict=True)]
        nothing = sentences[0]["mask"].new_zeros(sentences[0]["mask"].shape[0], 1, dtype=torch.float32)
        logits: Tensor = self.model(TaskBatch(tuple(batches), nothing, nothing[:, 0]))
        return self.model.probabilities(logits)


def _exported(classifier: _Classifier, batches: Sequence[SentenceBatch]) -> ExportedProgram:
    inputs = tuple(batch.tensors() for batch in batches)
    shapes = [
        {name: dict.fromkeys(range(tensor.dim()), Dim.AUTO) for name, tensor in tensors.items()} for tensors in inputs
    ]
    return torch.export.export(classifier, inputs, dynamic_shapes=(tuple(shapes),))


def _without_package(program: ExportedProgram) -> ExportedProgram:
    ours = _operators(program)
    if "token2token" in ours:
        with warnings.catch_warnings():  # torch warns of its own code
            warnings.simplefilter("ignore", FutureWarning)
            program = program.run_decompositions({torch.ops.structattn.token2token.default: _token2token})
        ours = _operators(program)
    if ours:
        raise ConfigError(
            f"this model computes with compiled operators of this package ({', '.join(sorted(ours))}), as latent "
            "structure does; a program without the package cannot run them: use an encoder without latent structure"
        )
    return program


def _token2token(*inputs: Any) -> tuple[Tensor, Tensor]:
    # The second result of the kernel is for the gradient only.
    return write_out(*inputs), torch.zeros_like(inputs[0])


def _operators(program: ExportedProgram) -> set[str]:
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    names = [str(node.target).split(".") for graph in graphs for node in graph.nodes if node.op == "call_function"]
    return {name[1] for name in names if name[0] == "structattn"}


def _batch(model: SentenceModel, examples: Sequence[Example]) -> tuple[SentenceBatch, ...]:
    if not examples:
        return ()
    try:
        batch = model.collate(examples).to(next(model.parameters()).device)
        model(batch)
    except MissingStructure as error:
        raise ConfigError(f"{error.message}; give examples that have it (--data, --parses)") from None
    return batch.sides


def _generated(arity: int) -> list[Example]:
    """Sentences of different lengths with both kinds of trees."""
    sentences = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=0), 16)]
    return [Example(tuple(sentences[(row + 3 * side) % 16] for side in range(arity)), id=str(row)) for row in range(16)]


def _difference(model: SentenceModel, program: Any, batches: Sequence[tuple[SentenceBatch, ...]]) -> float:
    largest = 0.0
    for batch in batches:
        tensors: list[Mapping[str, Tensor]] = [side.tensors() for side in batch]
        expected = _Classifier(model, batch)(*tensors)
        largest = max(largest, float((torch.as_tensor(program(*tensors)) - expected).abs().max()))
    if not largest <= _TOLERANCE:
        raise StructAttnError(f"the program's probabilities differ from the model's by up to {largest:.2g}")
    return largest
