"""Examples and the vocabulary: ids, frozen words, labels, JSON."""

import pytest
import torch

from structattn.data import Example, Vocabulary
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence


def sentences(*texts: str) -> list[Sentence]:
    return [Sentence(text.split(" ")) for text in texts]


def test_ids_follow_frequency_then_alphabet() -> None:
    vocabulary = Vocabulary.from_examples(sentences("b a b", "C a d b"))
    assert vocabulary.words == ("<pad>", "<unk>", "b", "a", "c", "d")
    assert [vocabulary[word] for word in ("B", "a", "zebra")] == [2, 3, 1]


def test_the_order_of_the_data_does_not_matter() -> None:
    data = sentences("x y", "y z", "z x")
    assert Vocabulary.from_examples(data) == Vocabulary.from_examples(data[::-1])


def test_min_count_and_case() -> None:
    data = sentences("The the The dog")
    assert Vocabulary.from_examples(data, 2).words[2:] == ("the",)
    assert Vocabulary.from_examples(data, 2, lowercase=False).words[2:] == ("The",)
    assert Vocabulary.from_examples(data, lowercase=False).encode(["the", "The", "THE"]) == [4, 2, 1]


def test_frozen_words_come_last_and_once() -> None:
    vocabulary = Vocabulary.from_examples(sentences("a b"), frozen_words=["Cat", "a", "cat", "emu"])
    assert vocabulary.words[2:] == ("a", "b", "cat", "emu")
    assert vocabulary.num_frozen == 2


def test_names_of_special_ids_are_not_words() -> None:
    vocabulary = Vocabulary.from_examples(sentences("<unk> <pad>"))
    assert vocabulary.encode(["<unk>", "<pad>"]) == [3, 2]
    assert Vocabulary(["a"]).encode(["<pad>"]) == [1]


def test_labels_of_trees_are_collected() -> None:
    tree = ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) (VP barks))")
    sentence = Sentence(tree.words, dependency=DependencyTree([2, 3, 0], ["det", "nsubj", "root"]), constituency=tree)
    vocabulary = Vocabulary.from_examples([Example((sentence, sentence))])
    assert set(vocabulary.labels) == {"S", "NP", "VP", "DT", "NN", "det", "nsubj", "root"}
    ids = vocabulary.encode_labels(["S", None, "unheard of"])
    assert ids[0] == vocabulary.labels.index("S") + 1
    assert ids[1:] == [0, 0]


@pytest.mark.parametrize("lowercase", [True, False])
def test_json_round_trip(lowercase: bool) -> None:
    vocabulary = Vocabulary(["ça", "\x85", "\U0001f600"], ["last"], labels=["NP", "4"], lowercase=lowercase)
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    assert again.words == vocabulary.words
    assert again.labels == ("NP", "4")
    assert again.lowercase is lowercase
    assert again.num_frozen == 1


@pytest.mark.parametrize("text", ["", "[]", '{"words": []}', '{"words": 3, "frozen_words": [], "labels": []}'])
def test_bad_json(text: str) -> None:
    with pytest.raises(ValueError, match="Vocabulary expects the JSON that to_json wrote"):
        Vocabulary.from_json(text)


def test_bad_words() -> None:
    with pytest.raises(ValueError, match="every word once, got 'a' twice"):
        Vocabulary(["a"], ["a"])
    with pytest.raises(ValueError, match="lower-cased words, got 'The'"):
        Vocabulary(["The"])
    with pytest.raises(ValueError, match=r"every word to be text, got half of a surrogate pair in '\\ud83d'"):
        Vocabulary(["a", "\ud83d"])
    with pytest.raises(ValueError, match="min_count of at least 1, got 0"):
        Vocabulary.from_examples([], 0)


def test_an_empty_vocabulary_knows_nothing() -> None:
    vocabulary = Vocabulary.from_examples([])
    assert len(vocabulary) == 2
    assert vocabulary.encode(["a"]) == [1]
    assert "a" not in vocabulary
    assert repr(vocabulary) == "Vocabulary(2 ids, 0 of them frozen, 0 labels)"


def test_example_keeps_a_tuple() -> None:
    example = Example([Sentence(["a"])], 3.5, id="x", weight=0.5)
    assert example.sentences == (Sentence(["a"]),)
    assert (example.label, example.id, example.weight) == (3.5, "x", 0.5)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"sentences": []}, "one or two sentences, got 0"),
        ({"sentences": [Sentence([])] * 3}, "one or two sentences, got 3"),
        ({"label": float("nan")}, "finite score, got nan"),
        ({"weight": -1.0}, "weight of at least 0, got -1.0"),
    ],
)
def test_bad_example(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Example(**{"sentences": [Sentence([])], **keywords})  # type: ignore[arg-type]


def test_integer_labels_are_refused() -> None:
    # True is an int as well; the shape checker of the test suite may be the one to refuse it.
    with pytest.raises(TypeError):
        Example([Sentence([])], 1)
    with pytest.raises(TypeError):
        Example(["a"])  # type: ignore[list-item]


def test_an_example_of_one_sentence_or_text() -> None:
    sentence = Sentence.from_text("It isn't.")
    assert Example(sentence, "x") == Example([sentence], "x") == Example("It isn't.", "x") == Example((sentence,), "x")
    pair = Example(("a dog", sentence))
    assert [one.words for one in pair.sentences] == [("a", "dog"), sentence.words]
    with pytest.raises(TypeError, match=r"got \['a', 'dog'\]; Sentence\(\[...\]\) takes words"):
        Example(["a", "dog"])


def test_decoding_gives_the_words_back() -> None:
    vocabulary = Vocabulary(["the", "dog"], ["cat"])
    words = ["the", "cat", "dog", "the"]
    assert vocabulary.decode(vocabulary.encode(words)) == words
    assert vocabulary.decode(torch.tensor([3, 1, 0, 0])) == ["dog", "<unk>"]
    assert vocabulary.decode([]) == []
    for number in (-1, len(vocabulary)):
        with pytest.raises(ValueError, match=f"expects ids from 0 to 4, got {number}"):
            vocabulary.decode([2, number])
    with pytest.raises(TypeError, match="expects a list of words, got one string 'the dog'"):
        vocabulary.encode("the dog")


def test_a_vocabulary_of_texts() -> None:
    assert Vocabulary.from_examples(["a dog", Example("a cat")]).words[2:] == ("a", "cat", "dog")
