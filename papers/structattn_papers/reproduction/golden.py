"""The golden output of a row: a few numbers that its model computes without data, and that change with the model.

The encoder, the classifier and the loss of the row are built with a fixed seed for a fixed vocabulary of random
vectors, and applied to two fixed examples with trees. A pretrained backbone is replaced by a small random one, and
heads that another row trains by random ones. A record keeps the numbers of the time when it was made, and the gradients
of one step of training, whose last bits change long before the numbers do.
"""

import contextlib
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from structattn.encoders.encoder_table import needs_backbone
from structattn.errors import ConfigError
from structattn.tasks import Task, get_task, model_class
from structattn.tasks.answer_config import ClassifierConfig, DecoderConfig
from structattn_papers.reproduction.golden_inputs import golden_backbone, golden_examples, golden_treebank
from structattn_papers.reproduction.reading import ROWS, read_rows
from structattn_papers.reproduction.rows import Row

if TYPE_CHECKING:
    from torch import Tensor, nn

_Value = TypeVar("_Value")
Run = Callable[[], "tuple[Tensor, object]"]
Measure = Callable[["nn.Module", Run, "Iterable[nn.Parameter]"], _Value]

DIM = 48
"""Width of the random word vectors that replace those read from a file."""

_SEED = 7
_TOLERANCE = 1e-4
_STEP_TOLERANCE = 1e-6
_SHOWN = 6


def golden_output(row: Row) -> list[float] | None:
    """The loss of the fixed examples, the norm of its gradient, and up to six scores.

    Returns:
        ``None`` if the row has no model of this package: if it writes a file, or names its encoder as
        ``module:function``. For such a row, the configuration alone decides whether a record is up to date.

    Raises:
        ConfigError: if the row names no encoder.
        MissingExtra: if the row has a backbone and transformers is not installed.
    """
    return _measured(row, _numbers)


def golden_step(row: Row) -> dict[str, Any] | None:
    """The gradients of one training step on the fixed examples.

    Returns:
        ``norm``, and ``bits``, a hash that is the same only on the same processor; ``None`` where there is no golden
        output.
    """
    return _measured(row, _step)


def same_step(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, *, same_machine: bool) -> bool:
    """Whether two training steps are the same: to the bit on one machine, elsewhere to 1e-6; unknown ones are.

    Example:
        >>> steps = {"norm": 2.0, "bits": "a1"}, {"norm": 2.0000001, "bits": "b2"}
        >>> same_step(*steps, same_machine=True), same_step(*steps, same_machine=False)
        (False, True)
    """
    if first is None or second is None:
        return True
    if same_machine:
        return bool(first["bits"] == second["bits"])
    return math.isclose(first["norm"], second["norm"], rel_tol=_STEP_TOLERANCE)


def _measured(row: Row, measure: Measure[_Value]) -> _Value | None:
    made = _MAKERS.get(row.command)
    if made is None:
        return None
    encoder = row.config().get("encoder", "")
    if encoder is None:
        raise ConfigError(f"{row}: expected an encoder, got none")
    if ":" in encoder:
        return None
    # The command line is checked before torch is imported.
    import torch

    from structattn.training.checkpoint import preserved_randomness

    with preserved_randomness():
        torch.manual_seed(_SEED)
        value: _Value = made(row, measure)
        return value


def same_output(first: Sequence[float] | None, second: Sequence[float] | None) -> bool:
    """Whether two golden outputs are the same, up to rounding that differs between machines.

    Example:
        >>> same_output([1.0, 2.0], [1.00001, 2.0]), same_output([1.0, 2.0], [1.1, 2.0]), same_output(None, None)
        (True, False, True)
    """
    if first is None or second is None:
        return first is None and second is None
    return len(first) == len(second) and all(
        math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for one, other in zip(first, second, strict=True)
    )


def _of_training(row: Row, measure: Measure[_Value]) -> _Value:
    config = row.config()
    data, embedder = config["data"], config["embedder"]
    has_encoder = get_task(config["task"]).answer not in ("facts", "words")
    is_backbone = embedder.get("name") == "backbone" or (has_encoder and needs_backbone(config["encoder"]))
    made_of = {name: config[name] for name in ("encoder", "options", "classifier", "decoder")}
    made_of["embedder"] = {"dim": DIM} if data["vectors"] is not None and not is_backbone else embedder
    made_of |= {name: data[name] for name in ("trees", "unary", "tree_seed", "phrases", "lowercase")}
    # Rows that differ only in training or data often share one model, whose numbers are computed once.
    heads = json.dumps(_heads_of(row)) if is_backbone else None
    value: _Value = _of_model(config["task"], json.dumps(made_of), heads, measure)
    return value


@functools.cache
def _of_model(task: str, made_of: str, heads: str | None, measure: Measure[_Value]) -> _Value:
    """What is measured of a task's model, on a backbone and with its heads if ``heads`` is not ``None``."""
    described = json.loads(made_of)
    if heads is None:
        return _of_task(get_task(task), described, measure)
    with golden_backbone(json.loads(heads)) as (folder, adapter):
        described["embedder"]["folder"] = folder
        if adapter is not None:
            described["options"]["adapter"] = adapter
        return _of_task(get_task(task), described, measure)


def _of_task(task: Task, made_of: Mapping[str, Any], measure: Measure[_Value]) -> _Value:
    import torch

    from structattn.data import PhraseTrees
    from structattn.tasks import ModelConfig

    model_config = ModelConfig(
        made_of["encoder"],
        made_of["options"],
        made_of["embedder"],
        ClassifierConfig(**made_of["classifier"]),
        DecoderConfig(**made_of["decoder"]),
        PhraseTrees(made_of["trees"], made_of["unary"], made_of["tree_seed"]),
        nodes=(made_of["phrases"] or task.phrases) == "nodes",
        # Every word of the two sentences is in the vocabulary, with a random vector in place of a file's.
        min_count=1,
        lowercase=made_of["lowercase"],
    )
    examples = golden_examples(task, has_syntax=bool(made_of["options"].get("num_labels")))
    torch.manual_seed(_SEED)
    model = model_class(task).from_examples(task, model_config, examples, sentences=examples)
    batch = model.collate(examples)

    def run() -> "tuple[Tensor, object]":
        scores = model(batch)
        return model.loss_of(scores, batch), scores

    return measure(model, run, model.parameters())


def _of_questions(row: Row, measure: Measure[_Value]) -> _Value:
    import torch

    from structattn_papers.questions.question_answering import Question, make_windows
    from structattn_papers.questions.question_run import build_model
    from structattn_papers.questions.questions_config import QuestionRun

    config = row.config()
    with golden_backbone(_heads_of(row)) as (folder, adapter):
        torch.manual_seed(_SEED)
        chosen = {name: config[name] for name in ("heads", "frozen")}
        model, tokenizer = build_model(QuestionRun("train", "dev", folder, "out", adapter=adapter, **chosen))
        question = Question("who sees the dog", "the old dog saw cats and cats see the dog", ("cats",), (25,))
        windows = make_windows([question], tokenizer, max_length=config["max_length"], stride=config["stride"])

        def run() -> "tuple[Tensor, object]":
            output = model(**windows.inputs, start_positions=windows.starts, end_positions=windows.ends)
            return output.loss, output.start_logits

        return measure(model, run, model.parameters())


def _of_heads(row: Row, measure: Measure[_Value]) -> _Value:
    import torch

    from structattn.backbones import HydraConfig, HydraModel, PretrainedBackbone
    from structattn.backbones.head_evaluation import heads_loss
    from structattn.backbones.relation_batches import RelationBatches, backbone_below

    with golden_backbone() as (folder, _):
        backbone = PretrainedBackbone.from_folder(folder, is_frozen=True)
        torch.manual_seed(_SEED)
        hydra = HydraModel(backbone.model, HydraConfig(**row.config()["heads"]))
        reader = backbone_below(backbone, hydra.hydra_config)
        batches = RelationBatches(golden_treebank(), reader, hydra.hydra_config)
        subwords = batches.batch([0, 1])

        def run() -> "tuple[Tensor, object]":
            states = batches.states(subwords)
            return heads_loss(hydra.hydra.heads, hydra.hydra_config, subwords, states), states

        return measure(hydra, run, hydra.hydra.heads.parameters())


def _of_parser(row: Row, measure: Measure[_Value]) -> _Value:
    from structattn.parsing.tree_parser import build_parser

    config, treebank = row.config(), golden_treebank()
    small = golden_backbone() if config["backbone"] is not None else contextlib.nullcontext((None, None))
    with small as (backbone, _):
        parser = build_parser(
            treebank,
            backbone=backbone,
            encoder=config["encoder"],
            scorer=config["scorer"],
            parser={name: config[name] for name in ("trees", "loss")},
            min_count=1,
        )
        batch = parser.collate(treebank)

        def run() -> "tuple[Tensor, object]":
            scores = parser(batch.inputs)
            return parser.loss_of(scores, batch), scores

        return measure(parser, run, parser.parameters())


_MAKERS: Mapping[str, Callable[..., Any]] = {
    "train": _of_training,
    "squad": _of_questions,
    "hydra pretrain": _of_heads,
    "parser train": _of_parser,
}


def _heads_of(row: Row) -> dict[str, Any] | None:
    """The heads that another row trains for this one."""
    address = {**row.config(), **row.config().get("options", {})}.get("adapter")
    if address is None:
        return None
    file = row.folder / ROWS
    found = _rows_of(file, file.stat().st_mtime_ns)
    (name,) = (name for name in row.needs if f"{{run:{name}}}" in str(address))
    heads: dict[str, Any] = found[name].config()["heads"]
    return heads


@functools.lru_cache(maxsize=8)
def _rows_of(file: Path, changed: int) -> Mapping[str, Row]:
    """The rows of a file, read again when it has changed."""
    return read_rows(file)


def _numbers(module: "nn.Module", run: Run, parameters: "Iterable[nn.Parameter]") -> list[float]:
    import torch

    module.eval()
    loss, scores, gradients = _gradients(run, parameters)
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    shown = scores.detach().flatten() if isinstance(scores, torch.Tensor) else torch.zeros(0)
    shown = shown[torch.linspace(0, len(shown) - 1, min(_SHOWN, len(shown))).long()]
    return [float(f"{value:.5g}") for value in (loss.item(), norm.item(), *shown.tolist())]


def _step(module: "nn.Module", run: Run, parameters: "Iterable[nn.Parameter]") -> dict[str, Any]:
    import torch

    module.train()
    torch.manual_seed(_SEED)
    _, _, gradients = _gradients(run, parameters)
    digest = hashlib.sha256()
    for gradient in gradients:
        digest.update(gradient.contiguous().cpu().numpy().tobytes())
    norm = torch.stack([gradient.double().norm() for gradient in gradients]).norm()
    return {"norm": float(f"{norm.item():.9g}"), "bits": digest.hexdigest()[:16]}


def _gradients(run: Run, parameters: "Iterable[nn.Parameter]") -> "tuple[Tensor, object, list[Tensor]]":
    import torch

    with torch.enable_grad():
        loss, scores = run()
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    return loss, scores, [gradient for gradient in gradients if gradient is not None]
