"""``structattn score``: the surprisal of words in a causal language model, or minimal pairs."""

import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from structattn.cli.command_inputs import check_at_least, check_inputs, refuse_without
from structattn.data.model_config import MODEL, MODEL_TYPE, find_model_folder
from structattn.data.readers.formats import read_examples, recognise_format
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import read_json
from structattn.files.markdown import align_columns
from structattn.files.replacing import replace_text
from structattn.options.hardware import Hardware

if TYPE_CHECKING:
    from structattn.backbones.word_scoring import Surprisals
    from structattn.data import Example

    Score = Callable[[list[Example], int], Iterator[Surprisals]]

_TABLES = ("csv", "tsv", "json")
# The columns of BLiMP, and those of a table of one's own.
_COLUMNS = (("sentence_good", "sentence_bad", "UID"), ("grammatical", "ungrammatical", "template"))


def command(
    model: str,
    file: str,
    *,
    priors: str | None = None,
    data_format: str | None = None,
    pairs: bool = False,
    sample: int | None = None,
    seed: int = 0,
    count_eos: bool = False,
    out: str | None = None,
    batch_size: int = 32,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Score the words of a file with a causal language model: word perplexity, and a table of surprisals.

    With --pairs, a table (or JSON lines) of minimal pairs, with the columns grammatical, ungrammatical and template, or
    those of BLiMP: how often the grammatical sentence is the more probable one, by template, and the mean of these.

    Args:
        model: the folder of a causal language model of Hugging Face's transformers, or of a run of the task
            language_model.
        file: sentences, one on each line, or examples in the data format.
        priors: a folder of priors for its heads, as injected.save_pretrained writes it.
        data_format: text by default; for pairs it is recognised from the file.
        pairs: whether the file contains minimal pairs.
        sample: score at most this many pairs of each template, drawn with the seed.
        seed: random seed of the sample.
        count_eos: count the end of a sentence as a word.
        out: a tab-separated file for each word's surprisal in bits: sentence, word, pieces, bits.
        batch_size: number of sentences read together.
        hardware: where the model runs, and the precision.
        trust_code: import and run a prior module:name that the folder of priors names.
    """
    check_at_least(1, sample=sample, batch_size=batch_size)
    check_inputs(None, file, format=data_format)
    if not pairs:
        refuse_without("--pairs", sample=sample)
    elif out is not None:
        raise ConfigError("--out: pairs have no table of words; leave out --pairs or --out")
    from structattn.backbones.word_scoring import word_perplexity, word_surprisals

    scorer, tokenizer = _load(model, priors, hardware, trust_code=trust_code)

    def score(examples: "list[Example]", side: int = 0) -> "Iterator[Surprisals]":
        sentences = (example.sentences[side] for example in examples)
        with hardware.autocast():
            yield from word_surprisals(
                scorer, sentences, tokenizer=tokenizer, count_eos=count_eos, batch_size=batch_size
            )

    if pairs:
        yield from _score_pairs(_read_pairs(file, data_format), sample, seed, score)
        return
    examples = [example for example in read_examples(file, data_format or "text") if len(example.sentences[0])]
    scores = list(score(examples))
    if out is not None:
        with replace_text(out) as stream:
            stream.write("sentence\tword\tpieces\tbits\n")
            for number, sentence in enumerate(scores, start=1):
                for word, pieces, bits in zip(sentence.words, sentence.pieces, sentence.bits, strict=True):
                    stream.write(f"{number}\t{word}\t{pieces}\t{bits:.6f}\n")
    words = sum(len(sentence.words) for sentence in scores)
    perplexity = word_perplexity(scores)
    yield (
        f"{words:,} words of {len(scores):,} sentences: "
        f"word perplexity {perplexity:.2f}, {math.log2(perplexity):.4f} bits a word"
    )
    if out is not None:
        yield f"wrote {os.fspath(out)}"


def _load(folder: str, priors: str | None, hardware: Hardware, *, trust_code: bool) -> tuple[Any, Any]:
    """What scores texts, and its tokenizer: of a folder of transformers, perhaps with priors, or of a trained model."""
    path = find_model_folder(folder)
    if (path / MODEL.config).is_file() and read_json(path / MODEL.config).get("model_type") == MODEL_TYPE:
        from structattn.training.models import load

        if priors is not None:
            raise ConfigError("--priors: expected none, as a trained model has its own in its folder")
        trained = hardware.move(load(folder, trust_code=trust_code))
        language_model = getattr(getattr(trained, "encoder", None), "language_model", None)
        if language_model is None:
            raise ConfigError(f"{path}: expected a language model, it contains a {type(trained).__name__}")
        return language_model, trained.encoder.tokenizer
    from structattn.backbones import load_backbone, load_injection

    scorer, tokenizer = load_backbone(folder, reader="AutoModelForCausalLM")
    if priors is not None:
        scorer = load_injection(scorer, priors, tokenizer=tokenizer, trust_code=trust_code)
    return hardware.move(scorer), tokenizer


def _score_pairs(examples: "list[Example]", sample: int | None, seed: int, score: "Score") -> Iterator[str]:
    from structattn.backbones.word_scoring import pair_accuracies, sample_pairs

    templates = [str(example.label) for example in examples]
    if sample is not None:
        chosen = sample_pairs(templates, sample, seed)
        examples, templates = [examples[index] for index in chosen], [templates[index] for index in chosen]
    rows, mean = pair_accuracies(templates, list(zip(score(examples, 0), score(examples, 1), strict=True)))
    lines = [(row.template, f"{row.count:,}", f"{100 * row.accuracy:.1f}", str(row.same or "")) for row in rows]
    lines.append(("mean of templates", f"{len(examples):,}", f"{100 * mean:.1f}", ""))
    yield from align_columns(("template", "pairs", "accuracy", "equal"), lines)
    if same := sum(row.same for row in rows):
        names = ", ".join(row.template for row in rows if row.same)
        yield f"pairs of equal sentences, which count one half each: {same} ({names})"


def _read_pairs(file: str, format: str | None) -> "list[Example]":
    """Pairs of sentences whose label is their template."""
    if (name := format or recognise_format(file)) not in _TABLES:
        raise ParseError(f"expected pairs as one of {', '.join(_TABLES)}, got {name}", file=file)
    first, second = (list(columns) for columns in _COLUMNS)
    try:
        examples = _read_columns(file, format, first)
    except ParseError:
        examples = _read_columns(file, format, second)
    for example in examples:
        if not all(len(sentence) for sentence in example.sentences):
            raise ParseError(f"{example.describe()}: expected two sentences, got one without words", file=file)
    return examples


def _read_columns(file: str, format: str | None, columns: list[str]) -> "list[Example]":
    return list(read_examples(file, format, text_column=columns[:2], label_column=columns[2]))
