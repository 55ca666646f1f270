"""Small parts of data by hand: tokens of texts, numbers in few bits, codes of labels, texts for tokenizers."""

from pathlib import Path

import pytest
import torch

from structattn.data import Vocabulary, load_vectors
from structattn.data.readers.delimited_tables import is_table_header
from structattn.data.readers.fields import Columns, Location, is_treebank_row, list_names
from structattn.data.readers.formats import split_paths
from structattn.data.subword_batch import choose_text
from structattn.data.tensors import pack, unpack
from structattn.data.text_vocabulary import CharacterSplitter, SubwordSplitter, TextVocabulary, WordSplitter, retokenize
from structattn.data.tree_batch import assemble, label_code, take_part
from structattn.data.treebank.example_rows import hash_text
from structattn.data.word_vectors import find_covered_words, read_dim
from structattn.errors import ParseError
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence


def test_texts_as_tokens():
    assert WordSplitter().join(WordSplitter().split(" ( 1  + 2 )")) == "( 1 + 2 )"
    characters = CharacterSplitter()
    assert characters.split("a  dog") == ["a", "▁", "d", "o", "g"]
    assert characters.join(["▁", "a", "▁", "d"]) == "a d"
    splitter = SubwordSplitter.train(["low lower lowest", "new newer newest"] * 5, 24)
    assert splitter.split("lowest new") == ["▁lowest", "▁new"]
    assert splitter.join(["▁lowest", "▁new"]) == "lowest new"


def test_ids_of_texts():
    vocabulary = TextVocabulary.from_texts(["a dog", "a cat"])
    assert vocabulary.vocabulary.words == ("<pad>", "<unk>", "<s>", "</s>", "a", "cat", "dog")
    assert vocabulary.encode("a dog barks <s>") == [4, 6, 1, 1]
    assert vocabulary.decode([2, 4, 0, 6, 3, 5]) == "a dog"


def test_a_word_of_several_tokens_is_a_phrase():
    tree = ConstituencyTree.from_brackets("(NP (DT ab) (NN c))")
    sentence = Sentence(["ab", "c"], ["DET", "NOUN"], DependencyTree([2, 0], ["det", "root"]), tree)
    tokens = retokenize(sentence, CharacterSplitter())
    assert tokens.words == ("a", "b", "c")
    assert tokens.dependency == DependencyTree([3, 1, 0], ["det", "subword", "root"])
    assert tokens.constituency.spans == [("NP", 0, 3), ("DT", 0, 2)]
    untagged = ConstituencyTree(["ab", "c"], [("NP", 0, 2)])
    tokens = retokenize(Sentence(["ab", "c"], ["DET", "NOUN"], constituency=untagged), CharacterSplitter())
    assert tokens.constituency.spans == [("NP", 0, 3), ("DET", 0, 2)]


def test_numbers_of_eight_and_sixteen_bits():
    matrix, vector, large = torch.tensor([[127.0, -64.0], [0.0, 0.0]]), torch.zeros(2), torch.tensor([1e6])
    stored = pack({"matrix": matrix, "vector": vector, "large": large, "ids": torch.tensor([3])}, "int8")
    assert (stored["matrix"].tolist(), stored["matrix:scale"].tolist()) == ([[127, -64], [0, 0]], [1.0, 1.0])
    assert [stored[name].dtype for name in ("vector", "large", "ids")] == [torch.float16, torch.float32, torch.int64]
    assert unpack(stored, Path("a"))["matrix"].tolist() == matrix.tolist()
    assert pack({"matrix": matrix}, "float16")["matrix"].dtype == torch.float16
    with pytest.raises(ParseError, match="a: expected a scale for every row of 8-bit numbers in tensor 'matrix'"):
        unpack({"matrix": stored["matrix"], "matrix:scale": torch.ones(3)}, Path("a"))


def test_codes_of_labels():
    assert label_code("nsubj:pass") >> 31 == label_code("nsubj") >> 31 != label_code("obj") >> 31
    assert label_code("nsubj:pass") != label_code("nsubj") < 2**62


def test_parts_of_batches():
    assert take_part("tree.", {"tree.parents": 1, "mask": 2}) == {"parents": 1}
    assert assemble(Sentence, words="anything").words == "anything"


def test_the_text_for_a_tokenizer():
    assert choose_text(Sentence(["do", "n't"], metadata={"text": "don't"})) == "don't"
    assert choose_text(Sentence(["zu", "dem"], metadata={"text": "zum"})) == "zu dem"


def test_words_and_width_of_vectors(tmp_path):
    (tmp_path / "plain.txt").write_text("dog 1 2\ncat 3 4\n")
    (tmp_path / "counted.txt").write_text("2 3\ndog 1 2 3\ncat 3 4 5\n")
    assert [read_dim(tmp_path / name) for name in ("plain.txt", "counted.txt")] == [2, 3]
    assert find_covered_words(tmp_path / "plain.txt", ["emu", "Dog"]) == {"Dog"}
    assert load_vectors(tmp_path / "plain.txt", Vocabulary(["cat"])).matrix[2].tolist() == [3.0, 4.0]


def test_two_files_are_separated_by_a_comma():
    assert [file.name for file in split_paths("data/train.de,data/train.en")] == ["train.de", "train.en"]
    for path in ("a,b,c", "a,", ",b"):
        with pytest.raises(ParseError, match="expected one file, or two separated by a comma"):
            split_paths(path)


def test_texts_have_a_hash():
    assert hash_text("").hex() == "e3b0c44298fc1c149afbf4c8996fb924"


def test_columns_go_by_their_names():
    columns = Columns(label="Stars").resolve(["Review", "Date", "Stars"], Location("a.csv", 1))
    assert columns == Columns(("Review",), "Stars")
    assert list_names(["id", "review, in full"]) == repr('id, "review, in full"')
    lines = ('"Text";"Label"', "a text, with a comma", "text")
    assert [is_table_header(line) for line in lines] == [True, False, False]
    assert [is_treebank_row(keys) for keys in (["id", "text"], ["text", "starts", "ends", "heads"])] == [False, True]
