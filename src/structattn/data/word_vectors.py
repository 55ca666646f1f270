"""Pretrained word vectors: from a GloVe text file, or from the input-embedding table of a Hugging Face model.

Only the table is read, never the model. The rule for words without a vector is that of Shen et al. (DiSAN): uniform
between -0.05 and 0.05, and zero for padding and the unknown word.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float32
from safetensors import SafetensorError, safe_open
from torch import Tensor

from structattn.data.tensors import check_finite
from structattn.data.vocabulary import PADDING_ID, UNKNOWN_ID, Vocabulary
from structattn.errors import ParseError, require
from structattn.files.text import parse_json, read_lines, read_text

MAX_DIM = 10_000
"""Maximum number of dimensions of the vectors in a text file."""
_RANGE = 0.05
# The names of the table of input embeddings: BERT and its kin, GPT-2, LLaMA, T5, ModernBERT, GPT-NeoX, XLNet.
_TABLES = (
    "word_embeddings.weight",
    "wte.weight",
    "embed_tokens.weight",
    "shared.weight",
    "tok_embeddings.weight",
    "embed_in.weight",
    "word_embedding.weight",
)


@dataclass(frozen=True, eq=False)
class PretrainedVectors:
    """The initial embedding table of a vocabulary: zero for padding and the unknown word.

    ``known`` says which words had a vector; the vectors of the others are random.
    """

    matrix: Float32[Tensor, "word dim"]
    known: Bool[Tensor, " word"]

    def scaled(self, size: float) -> "PretrainedVectors":
        """All vectors multiplied by one number, so that the elements of the known ones have this root mean square."""
        # Tables differ: GloVe's 50-dimensional vectors have .7, the input embeddings of a small BERT .06, and a network
        # that is initialised for inputs around 1 learns an order of magnitude more slowly from the latter.
        present = self.matrix[self.known].square().mean().sqrt()
        return PretrainedVectors(self.matrix * (size / present) if present > 0 else self.matrix, self.known)


def load_vectors(
    source: str | os.PathLike[str], vocabulary: Vocabulary, *, generator: torch.Generator | None = None
) -> PretrainedVectors:
    """The vectors of a vocabulary's words.

    Args:
        source: a text file with a word and its numbers on each line (GloVe, also gzip; a first line with the two
            counts, as word2vec and fastText write it, is skipped), or the folder of a Hugging Face model, in which a
            word gets the vector of its subword, or the mean of its subwords, without unknown tokens.
        vocabulary: the words. A word that the source has only in lower case gets that vector.
        generator: source of the random vectors; torch's own if ``None``.

    Returns:
        The table, and which of its rows come from the source.

    Raises:
        ParseError: for a missing source, a malformed line, more than ``MAX_DIM`` numbers on it, or a folder without an
            embedding table of finite numbers or without a tokenizer.
        MissingExtra: if the source is a folder and ``tokenizers`` is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
        >>> _ = path.write_text("dog 1 2\\ncat 3 4\\n")
        >>> load_vectors(path, Vocabulary(["cat", "Dog"], lowercase=False)).matrix[2:].tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    words = vocabulary.words[UNKNOWN_ID + 1 :]
    is_model = Path(source).is_dir()
    positions, rows = _read_model_vectors(Path(source), words) if is_model else _read_text_vectors(source, words)
    # Random values are drawn first and for every row, so that they do not depend on which words are known.
    matrix = torch.rand(len(vocabulary), rows.shape[1], generator=generator) * (2 * _RANGE) - _RANGE
    matrix[[PADDING_ID, UNKNOWN_ID]] = 0.0
    is_found = torch.zeros(len(vocabulary), dtype=torch.bool)
    ids = torch.tensor(positions, dtype=torch.long) + UNKNOWN_ID + 1
    matrix[ids], is_found[ids] = rows, True
    return PretrainedVectors(matrix, is_found)


def read_dim(source: str | os.PathLike[str]) -> int:
    """The number of dimensions of the vectors of a source."""
    if Path(source).is_dir():
        return _read_table(Path(source)).shape[1]
    for number, line in read_lines(source):
        word, _, numbers = line.rstrip(" ").partition(" ")
        if number > 1 or not (word.isdecimal() and numbers.isdecimal()):
            return numbers.count(" ") + 1
    raise ParseError("expected word vectors, got an empty file", file=source)


def find_covered_words(source: str | os.PathLike[str], words: Iterable[str]) -> set[str]:
    """Which of the words have a vector in the source, for example to choose a vocabulary's frozen words."""
    distinct = list(dict.fromkeys(words))
    if Path(source).is_dir():
        positions = [index for index, subwords in enumerate(_split_subwords(Path(source), distinct)) if subwords]
    else:
        positions, _ = _read_text_vectors(source, distinct)
    return {distinct[index] for index in positions}


def _read_text_vectors(path: str | os.PathLike[str], words: Sequence[str]) -> tuple[list[int], Tensor]:
    """Positions of the words that have a vector, and their vectors."""
    exact = {word: index for index, word in enumerate(words)}
    lowered: dict[str, list[int]] = {}
    for word, index in exact.items():
        if word.lower() != word:
            lowered.setdefault(word.lower(), []).append(index)
    exact_vectors: dict[int, list[float]] = {}
    fallbacks: dict[int, list[float]] = {}
    dim = 0
    for number, line in read_lines(path):
        word, _, numbers = line.rstrip(" ").partition(" ")
        if number == 1 and word.isdecimal() and numbers.isdecimal():
            continue
        width = numbers.count(" ") + 1 if numbers else 0
        dim = dim or width
        if dim > MAX_DIM:
            raise ParseError(f"expected a word and at most {MAX_DIM:,} numbers, got {width:,}", file=path, line=number)
        if width < dim or not dim:
            raise ParseError(f"expected a word and {dim or 'its'} numbers, got {width} numbers", file=path, line=number)
        # More fields than numbers: a word with spaces in it, which no tokenised text has.
        if width == dim and (word in exact or word in lowered):
            vector = _parse_numbers(numbers, path, number)
            if word in exact:
                exact_vectors.setdefault(exact[word], vector)
            for index in lowered.get(word, ()):
                fallbacks.setdefault(index, vector)
    if not dim:
        raise ParseError("expected word vectors, got an empty file", file=path)
    vectors = fallbacks | exact_vectors
    return list(vectors), torch.tensor(list(vectors.values()), dtype=torch.float32).view(len(vectors), dim)


def _parse_numbers(text: str, path: str | os.PathLike[str], line: int) -> list[float]:
    try:
        vector = [float(number) for number in text.split(" ")]
    except ValueError as error:
        raise ParseError(f"expected numbers after the word: {str(error)[:100]}", file=path, line=line) from None
    if not all(map(math.isfinite, vector)):
        raise ParseError("expected finite numbers after the word, got inf or nan", file=path, line=line)
    return vector


def _read_model_vectors(folder: Path, words: Sequence[str]) -> tuple[list[int], Tensor]:
    """Positions of the words that have a vector, and the mean vectors of their subwords."""
    table = _read_table(folder)
    subwords = _split_subwords(folder, words)
    flat = torch.tensor([subword for word in subwords for subword in word], dtype=torch.long)
    if len(flat) and int(flat.max()) >= len(table):
        raise ParseError(
            f"expected an embedding for every subword, got subword {int(flat.max())} and a table of {len(table)}",
            file=folder,
        )
    counts = torch.tensor([len(word) for word in subwords], dtype=torch.long)
    owner = torch.arange(len(subwords)).repeat_interleave(counts)
    sums = torch.zeros(len(subwords), table.shape[1]).index_add(0, owner, table[flat].float())
    has_vector = counts > 0
    return has_vector.nonzero().flatten().tolist(), sums[has_vector] / counts[has_vector, None]


def _split_subwords(folder: Path, words: Sequence[str]) -> list[list[int]]:
    """The subword ids of each word in mid-sentence; none for a word that the tokenizer does not know."""
    tokenizers = require("tokenizers", "train")
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ParseError("expected the tokenizer of a Hugging Face model, got no such file", file=file)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing narrower
        raise ParseError(f"expected a tokenizer, but it cannot be read: {error}", file=file) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Byte-level tokenizers split a word after a space differently from one at the start of a text.
    space = " " if "ByteLevel" in str(tokenizer.pre_tokenizer) else ""
    unknown = _find_unknown_token(tokenizer)
    encoded = tokenizer.encode_batch([space + word for word in words], add_special_tokens=False)
    return [[subword for subword in encoding.ids if subword != unknown] for encoding in encoded]


def _find_unknown_token(tokenizer: Any) -> int | None:
    model = parse_json(tokenizer.to_str())["model"]
    token = model.get("unk_token")
    number: int | None = model.get("unk_id") if token is None else tokenizer.token_to_id(token)
    return number


def _read_table(folder: Path) -> Tensor:
    for file in _find_weights(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                names = sorted(tensors.keys(), key=len)
                for ending in _TABLES:
                    for name in names:
                        if name == ending or name.endswith(f".{ending}"):
                            return _check_table(name, tensors.get_tensor(name), file)
        except (SafetensorError, OSError) as error:
            raise ParseError(f"expected a safetensors file, but it cannot be read: {error}", file=file) from None
    raise ParseError(f"expected an input embedding table ({', '.join(_TABLES)}), got none", file=folder)


def _check_table(name: str, table: Tensor, file: Path) -> Tensor:
    if table.dim() != 2 or not table.is_floating_point():
        got = f"{tuple(table.shape)} of {table.dtype}"
        raise ParseError(f"expected {name!r} to be a matrix of floating point numbers, got {got}", file=file)
    check_finite(name, table, file)
    return table


def _find_weights(folder: Path) -> list[Path]:
    """The weight file, or the shards of a large model that contain a table."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file() or not index.is_file():
        if not single.is_file():
            raise ParseError("expected the weights of a Hugging Face model, got no such file", file=single)
        return [single]
    try:
        parts: dict[str, str] = parse_json(read_text(index))["weight_map"]
        # Shards are read from the folder of their index, whatever path it gives.
        return sorted({folder / Path(part).name for name, part in parts.items() if name.endswith(_TABLES)})
    except ParseError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParseError(f"expected an index with a weight_map, but it cannot be read: {error}", file=index) from None
