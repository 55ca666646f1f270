"""Model cards: the ``README.md`` of a model folder, with the metadata that the Hugging Face Hub reads from it.

The card of every saved model says what it is and how to load it. That of the best model of a run, which is written when
the run ends, also says what it was trained on, how well it performs and how to train it again; ``structattn compare
--cards`` adds the comparison with other runs. Reference: Mitchell et al. (2019), Model cards for model reporting.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structattn.data.model_config import ADAPTER, MODEL, MODEL_TYPE, Layout
from structattn.files.json_yaml import read_json
from structattn.files.markdown import escape_markdown, fence_code, format_table
from structattn.files.replacing import replace_text
from structattn.files.text import read_text
from structattn.tables import Table

CARD = "README.md"
_TREEBANKS = ("agreement", "brackets", "conllu", "sst")  # formats of data that bring their trees
_MOST_LABELS, _WIDTH = 20, 60
# As en_ewt-ud-train.conllu; and the line of metadata that the README of such a treebank has.
_UD_NAME = re.compile(r"(([a-z]{2,3})_\w+)-ud-")
_UD_LICENCE = re.compile(r"^License: *(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class ModelCard:
    """What the ``README.md`` of a saved model says about its kind.

    Attributes:
        about: what such a model does, in a sentence.
        usage: Python code; ``FOLDER``, ``BACKBONE`` and ``EXAMPLES`` in it are replaced by those of the model.
        pipeline: the Hugging Face Hub's name of its task, if it has one.

    Example:
        >>> CARDS["tagging"].pipeline
        'token-classification'
    """

    about: str
    usage: str
    pipeline: str | None = None  # the Hub's name of its task


_LOAD = 'import structattn as sa\n\nmodel = sa.load("FOLDER")'
_ADD = (
    "from transformers import AutoModel\n\nimport structattn as sa\n\n"
    'backbone = AutoModel.from_pretrained("BACKBONE")\n'
)
#: From each kind of model to what its card says.
CARDS: Table[ModelCard] = Table(
    "cards",
    "model card",
    {
        "encoder": ModelCard(
            "Encodes each sentence as states of its words and one vector.",
            f"{_LOAD}  # a torch module",
            "feature-extraction",
        ),
        "sentence": ModelCard(
            "Answers with a label or a score for each example.",
            f"{_LOAD}\nmodel.predict(EXAMPLES)",
            "text-classification",
        ),
        "multilabel": ModelCard(
            "Answers with any number of labels for each example.",
            f"{_LOAD}\nmodel.predict(EXAMPLES)",
            "text-classification",
        ),
        "sequence": ModelCard("Writes a text for each sentence.", f"{_LOAD}\nmodel.predict(EXAMPLES)"),
        "tagging": ModelCard(
            "Gives a tag to each word of a sentence.", f"{_LOAD}\nmodel.predict(EXAMPLES)", "token-classification"
        ),
        "attachment": ModelCard("Predicts the head of each word of a sentence.", f"{_LOAD}\nmodel.predict(EXAMPLES)"),
        "language_model": ModelCard(
            "A causal language model: gives the surprisal of each word of a sentence, in bits, and continues texts.",
            f"{_LOAD}\nmodel.predict(EXAMPLES)",
            "text-generation",
        ),
        "parser": ModelCard(
            "Predicts tags and the labelled dependency tree of each sentence.",
            'import structattn as sa\n\nsa.parse("Two kids wash their hands", parser="structattn:FOLDER")',
            "token-classification",
        ),
        "hydra_sequence_classification": ModelCard(
            "Classifies texts: a backbone with HYDRA heads (arXiv 2109.05349) and a linear layer.",
            _LOAD,
            "text-classification",
        ),
        "hydra_token_classification": ModelCard(
            "Classifies subwords: a backbone with HYDRA heads (arXiv 2109.05349) and a linear layer.",
            _LOAD,
            "token-classification",
        ),
        "hydra_question_answering": ModelCard(
            "Marks answers in texts: a backbone with HYDRA heads (arXiv 2109.05349) and a span classifier.",
            _LOAD,
            "question-answering",
        ),
        "hydra": ModelCard(
            "HYDRA heads (arXiv 2109.05349), to be added to their backbone: trained to score a relation between words.",
            f'{_ADD}model = sa.backbones.add_heads(backbone, "FOLDER")',
        ),
        "injection": ModelCard(
            "Priors in the attention heads of a backbone, to be added to it.",
            f'{_ADD}model = sa.backbones.load_injection(backbone, "FOLDER")',
        ),
    },
)
_UNKNOWN = ModelCard("A model of this library.", _LOAD)
_BACKBONE = ModelCard(
    "A model of Hugging Face's transformers that structattn trained.",
    'from transformers import AutoModel\n\nmodel = AutoModel.from_pretrained("FOLDER")',
)


@dataclass(frozen=True)
class Trained:
    """What a run records about its best model; ``command`` is ``None`` if its data came from Python."""

    command: str | None
    config: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, int] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    metric: str | None = None
    reports: Mapping[str, str] = field(default_factory=dict)  # Markdown, by the part of the data
    example: Mapping[str, Any] | None = None  # a kept prediction: texts, gold, predicted


def write_card(folder: Path, trained: Trained | None = None) -> None:
    """Write the card of the model or adapter in a folder, with what its run recorded if the run has ended."""
    layout = MODEL if (folder / MODEL.config).is_file() else ADAPTER
    config = read_json(folder / layout.config)
    with replace_text(folder / CARD) as stream:
        stream.write(_card(config, layout, (folder / layout.weights).stat().st_size, trained))


def add_section(folder: Path, title: str, content: str) -> None:
    """Append a section in Markdown to a card, in place of an earlier one of this title."""
    heading = f"\n## {title}\n"
    first, _, after = read_text(folder / CARD).partition(heading)
    _, further, after = after.partition("\n## ")
    with replace_text(folder / CARD) as stream:
        stream.write(f"{(first + further + after).rstrip()}\n{heading}\n{content.rstrip()}\n")


def _card(config: Mapping[str, Any], layout: Layout, num_bytes: int, trained: Trained | None) -> str:
    import yaml

    is_ours = config.get("model_type") == MODEL_TYPE
    kind = CARDS.get(str(config.get("kind")), _UNKNOWN) if is_ours else _BACKBONE
    treebank = {} if trained is None else _find_treebank(trained.config)
    title = f"parser of {treebank['treebank']}" if "treebank" in treebank else _choose_title(config)
    fields = {**_build_header(config, kind, title, trained), **_list_terms(treebank)}
    header = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    sections = [
        f"---\n{header}---\n\n# {escape_markdown(title, width=_WIDTH)}",
        kind.about,
        fence_code(_write_usage(kind, config, trained), "python"),
        "## Model",
        format_table(["", ""], [*_list_settings(config, layout, num_bytes), *_escape(treebank)]),
        *([] if trained is None else _describe_training(trained)),
        "## Licence\n\nNone is stated. What the model may be used for depends on the terms of its training data and, "
        "where it has one, of its backbone; `license` in the header of this file is for the name of the licence.",
    ]
    return "\n\n".join(sections) + "\n"


def _find_treebank(config: Mapping[str, Any]) -> dict[str, str]:
    """Language and name of a parser's treebank, from its name in Universal Dependencies, and the licence beside it."""
    path = Path(str(config.get("treebank") or ""))
    named = _UD_NAME.match(path.name)
    if named is None:
        return {}
    about = path.with_name("README.md")
    stated = _UD_LICENCE.search(read_text(about)) if about.is_file() else None
    licence = {} if stated is None else {"licence of the treebank": stated[1].strip()}
    return {"language": named[2], "treebank": named[1], **licence}


def _escape(rows: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, escape_markdown(value)) for name, value in rows.items())


def _list_terms(treebank: Mapping[str, str]) -> dict[str, str]:
    """What the header says of a treebank, as the Hugging Face Hub spells it."""
    licence = treebank.get("licence of the treebank", "unknown").lower().replace(" ", "-")
    return {"language": treebank["language"], "license": licence} if treebank else {}


def _choose_title(config: Mapping[str, Any]) -> str:
    task = config.get("task")
    made_of = config.get("encoder") or config.get("kind") or config.get("model_type")
    return f"{made_of} for {task['name']}" if isinstance(task, Mapping) else str(made_of)


def _write_usage(kind: ModelCard, config: Mapping[str, Any], trained: Trained | None) -> str:
    """Code that loads the model and uses it; a model of a treebank's trees finds none in a text without a parser."""
    usage = kind.usage.replace("EXAMPLES", _choose_examples(config, trained))
    data = (trained.config.get("data") or {}) if trained is not None else {}
    in_treebank = data.get("format") in _TREEBANKS or str(data.get("train")).endswith((".conllu", ".ptb", ".mrg"))
    if "predict(" not in usage or config.get("parser") or not in_treebank:
        return usage
    return usage.replace(_LOAD, f'{_LOAD[:-1]}, parser="en")  # the trees of texts, if it reads any')


def _choose_examples(config: Mapping[str, Any], trained: Trained | None) -> str:
    task = config.get("task")
    if trained is not None and trained.example is not None:
        texts = trained.example["texts"]
        return repr([texts[0] if len(texts) == 1 else tuple(texts)])
    return '[("one text", "another")]' if isinstance(task, Mapping) and task.get("arity") == 2 else '["a text"]'


def _build_header(config: Mapping[str, Any], kind: ModelCard, title: str, trained: Trained | None) -> dict[str, Any]:
    """The header, as https://huggingface.co/docs/hub/model-cards describes it."""
    tags = [str(config[key]) for key in ("kind", "encoder") if isinstance(config.get(key), str)]
    is_ours = config.get("model_type") == MODEL_TYPE
    header: dict[str, Any] = {"library_name": MODEL_TYPE if is_ours else "transformers", "license": "unknown"}
    if kind.pipeline is not None:
        header["pipeline_tag"] = kind.pipeline
    header["tags"] = list(dict.fromkeys([MODEL_TYPE, *tags]))
    if trained is not None and kind.pipeline is not None:
        settings = {**trained.config, **(trained.config.get("data") or {})}
        source = next((settings[name] for name in ("train", "treebank") if settings.get(name)), "generated")
        results = [
            {
                "task": {"type": kind.pipeline},
                "dataset": {"type": "local", "name": Path(source).name, "split": part},
                "metrics": [{"type": name, "value": value} for name, value in values.items()],
            }
            for part, values in trained.scores.items()
            if values
        ]
        header["model-index"] = [{"name": title, "results": results}]
    return header


def _list_settings(config: Mapping[str, Any], layout: Layout, num_bytes: int) -> Iterator[tuple[str, str]]:
    """The configuration as rows of a name and a value; the longest values are only in the file itself."""
    omitted = {"model_type", "format_version", "architectures", "id2label", "label2id", "base_fingerprint"}
    for key, value in config.items():
        if key in omitted or value in (None, "", {}, []):
            continue
        if key == "task" and isinstance(value, Mapping):
            value = value.get("name")
        yield key.replace("_", " "), _format(value)
    yield "file", f"{escape_markdown(layout.weights)}, {num_bytes:,} bytes"


def _format(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{escape_markdown(key)} {_format(item)}" for key, item in value.items() if item is not None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        more = f", and {len(value) - _MOST_LABELS:,} more" if len(value) > _MOST_LABELS else ""
        return ", ".join(_format(item) for item in value[:_MOST_LABELS]) + more
    return escape_markdown(value, width=_WIDTH)


def _format_answer(answer: object) -> str:
    return f"{answer:.2f}" if isinstance(answer, float) else "" if answer is None else str(answer)


def _describe_training(trained: Trained) -> Iterator[str]:
    import yaml

    names = list(dict.fromkeys(name for values in trained.scores.values() for name in values))
    rows = [
        [escape_markdown(part), *(f"{values[name]:.4f}" if name in values else "" for name in names)]
        for part, values in trained.scores.items()
        if values
    ]
    if rows:
        yield "## Evaluation"
        yield format_table(["part of the data", *map(escape_markdown, names)], rows)
        metric = f" by {escape_markdown(trained.metric)}" if trained.metric else ""
        yield f"The epoch was chosen on dev{metric}."
    if trained.example is not None:
        row = trained.example
        yield "An example of it, with the answer that the model gave there:"
        cells = [" / ".join(row["texts"]), *(_format_answer(row.get(name)) for name in ("gold", "predicted"))]
        yield format_table(["text", "expected", "predicted"], [list(map(escape_markdown, cells))])
    for part, report in trained.reports.items():
        yield f"### On {escape_markdown(part)}"
        yield report
    yield "## Data"
    if trained.counts:
        counts = [[escape_markdown(name), f"{count:,}"] for name, count in trained.counts.items()]
        yield format_table(["part", "examples"], counts)
    if trained.checksums:
        files = [[escape_markdown(Path(path).name), f"`{digest}`"] for path, digest in trained.checksums.items()]
        yield format_table(["file", "SHA-256"], files)
    yield "## Training"
    versions = ", ".join(escape_markdown(f"{name} {version}") for name, version in trained.environment.items())
    yield f"Trained with {versions}."
    if trained.command is None:
        yield "The data came from Python, through `structattn.train`, with these values:"
    else:
        yield f"`{trained.command}` makes it again, with these values in `config.yaml`:"
    yield fence_code(yaml.safe_dump(dict(trained.config), sort_keys=False, allow_unicode=True), "yaml")
