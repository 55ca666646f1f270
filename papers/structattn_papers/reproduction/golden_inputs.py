"""The inputs of golden outputs: two sentences with all their structures, and a small random backbone."""

import contextlib
import dataclasses
import functools
import json
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from structattn.data import Example
from structattn.errors import require
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import Task

_SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
    # Large enough that attention is far from uniform.
    "initializer_range": 0.3,
}
"""As many layers and heads as MiniLM, but narrower, so that every option of a row that counts these fits."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_VOCABULARY = (*_SPECIAL, *_LETTERS, *(f"##{letter}" for letter in _LETTERS))
_SEED = 7


def golden_examples(task: Task, *, has_syntax: bool) -> list[Example]:
    """Two examples of a task, with both kinds of trees for their sentences; for facts, two questions about two stories.

    The labels of phrases are those of the task, as in SST, or syntactic ones for encoders that read them.
    """
    if task.answer == "facts":
        return _questions()
    labels = task.classes or ("a", "b")
    names = [name for name, label in task.relabel.items() if label in labels] or list(labels)
    sentences = _sentences(*(("NP", "S") if has_syntax else (names[0], names[-1])))
    answers: list[Any] = [labels[0], labels[-1]]
    if task.score_range is not None:
        answers = [task.score_range[0], task.score_range[1] - 0.5]
    elif task.answer == "text":
        answers = ["der alte Hund", "Katzen sehen den Hund"]
    elif task.answer == "tags":
        answers = [" ".join(["B-a", "I-a", "O", "O"][: len(one)]) for one in sentences]
    elif task.answer == "tree":
        answers = [None, None]
    pairs = [sentences, sentences[::-1]] if task.arity == 2 else [sentences[:1], sentences[1:]]
    return [
        Example(parts[: task.arity], answer, id=str(number))
        for number, (parts, answer) in enumerate(zip(pairs, answers, strict=True))
    ]


def golden_treebank() -> list[Sentence]:
    """The two sentences with labelled arcs and tags, for parsers and heads to learn from."""
    given = (
        (("DET", "ADJ", "NOUN"), ("det", "amod", "root")),
        (("NOUN", "VERB", "DET", "NOUN"), ("nsubj", "root", "det", "obj")),
    )
    found = []
    for sentence, (tags, labels) in zip(_sentences("NP", "S"), given, strict=True):
        heads = sentence.dependency.heads if sentence.dependency is not None else ()
        found.append(dataclasses.replace(sentence, tags=tags, dependency=DependencyTree(heads, labels)))
    return found


@contextlib.contextmanager
def golden_backbone(heads: Mapping[str, Any] | None = None) -> Iterator[tuple[str, str | None]]:
    """The folders of a small BERT with random parameters that reads letters, and of untrained HYDRA heads for it.

    Args:
        heads: the configuration of the heads; no second folder if ``None``.

    Raises:
        MissingExtra: if transformers is not installed.
    """
    from structattn.training.checkpoint import preserved_randomness

    with preserved_randomness(), _quiet(require("transformers", "train")):
        yield _backbone(), None if heads is None else _adapter(json.dumps(heads))


# Many rows of a table have a backbone, and all of them share this one: its folders stay as long as the process.
@functools.cache
def _folders() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="structattn-")


def _model() -> Any:
    import torch

    transformers = require("transformers", "train")
    torch.manual_seed(_SEED)
    return transformers.BertModel(transformers.BertConfig(vocab_size=len(_VOCABULARY), **_SIZES)).eval()


@functools.cache
def _backbone() -> str:
    transformers, tokenizers = require("transformers", "train"), require("tokenizers", "train")
    folder = tempfile.mkdtemp(dir=_folders().name)
    _model().save_pretrained(folder)
    reader = tokenizers.BertWordPieceTokenizer({word: number for number, word in enumerate(_VOCABULARY)})
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIAL, strict=True))
    transformers.BertTokenizerFast(tokenizer_object=reader._tokenizer, **names).save_pretrained(folder)
    return folder


@functools.cache
def _adapter(heads: str) -> str:
    from structattn.backbones import HydraConfig, HydraModel

    folder = tempfile.mkdtemp(dir=_folders().name)
    HydraModel(_model(), HydraConfig(**{"num_heads": None, **json.loads(heads)})).save_pretrained(folder)
    return folder


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars and reports of fresh parameters: the models that are read here are small and known."""
    logging = transformers.utils.logging
    was_shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if was_shown:
            logging.enable_progress_bar()


def _sentences(first: str, last: str) -> list[Sentence]:
    texts = (
        (f"({last} ({first} the) ({last} ({first} old) ({last} dog)))", [3, 3, 0]),
        (f"({first} ({first} ({last} cats) ({first} see)) ({last} ({last} the) ({first} dog)))", [2, 0, 4, 2]),
    )
    trees = [(ConstituencyTree.from_brackets(brackets), DependencyTree(heads)) for brackets, heads in texts]
    return [Sentence(tree.words, dependency=dependency, constituency=tree) for tree, dependency in trees]


def _questions() -> list[Example]:
    """Each story is one sentence; its metadata say where its facts end, and which of them answer the question."""
    given = (
        ("mary took the milk john went home mary went home", "4 7 10", "0 2", "where is the milk", "home"),
        ("john took the milk john went out mary went home", "4 7 10", "0 1", "where is the milk", "out"),
    )
    return [
        Example(
            (Sentence(story.split(), metadata={"facts": ends, "support": support}), Sentence(question.split())),
            answer,
            id=str(number),
        )
        for number, (story, ends, support, question, answer) in enumerate(given)
    ]
