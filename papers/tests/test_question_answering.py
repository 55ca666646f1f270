"""Questions about long texts: windows that overlap, answers from all of them, SQuAD's scores."""

import copy
import itertools

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from backbones import minilm_tokenizer
from structattn.errors import ConfigError
from structattn_papers.questions import Question, answer_questions, make_windows, squad_scores

CONTEXT = "The kids wash their hands . " * 12 + "The dog barks at the ballgame . " + "Nobody hears it . " * 8


def test_windows_overlap_and_cover_the_text():
    start = CONTEXT.index("dog")
    asked = [Question("who barks?", CONTEXT, ("dog",), (start,)), Question("why?", CONTEXT)]
    windows = make_windows(asked, minilm_tokenizer(), max_length=40, stride=10)
    first = [offsets for number, offsets in zip(windows.question, windows.offsets, strict=True) if number == 0]
    places = [[place for place in offsets if place] for offsets in first]
    assert len(places) > 2
    assert all(len(offsets) <= 40 for offsets in first)
    for one, other in itertools.pairwise(places):
        assert one[-10:] == other[:10]
    whole = sorted({place for window in places for place in window})
    assert "".join(CONTEXT[a:b] for a, b in whole) == CONTEXT.replace(" ", "")
    held = 0
    for number, offsets, begin, end in zip(
        windows.question, windows.offsets, windows.starts.tolist(), windows.ends.tolist(), strict=True
    ):
        if begin:
            assert number == 0
            assert CONTEXT[offsets[begin][0] : offsets[end][1]] == "dog"
            held += 1
        else:
            assert number == 1 or (start, start + 3) not in offsets
    assert held >= 1


class Oracle(torch.nn.Module):
    """Points at one token wherever it stands in a window, and at the first token elsewhere."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self.token = token

    def forward(self, input_ids, attention_mask=None, **inputs):
        logits = 5.0 * (input_ids == self.token).float()
        logits[:, 0] = 1.0
        return type("Output", (), {"start_logits": logits, "end_logits": logits})


def test_the_answer_is_found_in_whichever_window_has_it():
    tokenizer = minilm_tokenizer()
    asked = [Question("who barks?", CONTEXT), Question("who?", "Nobody hears it .")]
    oracle = Oracle(tokenizer.convert_tokens_to_ids("dog"))
    options = {"max_length": 40, "stride": 10, "batch_size": 3}
    found = answer_questions(oracle, asked, tokenizer, **options, may_be_none=True)
    assert found == ["dog", ""]


def test_the_tokenizer_may_pad_on_the_left():
    tokenizer = copy.copy(minilm_tokenizer())
    tokenizer.padding_side = "left"
    asked = [Question("who barks?", CONTEXT, ("dog",), (CONTEXT.index("dog"),)), Question("who?", "The dog .")]
    found, right = (make_windows(asked, one, max_length=40, stride=10) for one in (tokenizer, minilm_tokenizer()))
    assert found.offsets == right.offsets
    assert torch.equal(found.starts, right.starts)
    assert all(torch.equal(found.inputs[name], tensor) for name, tensor in right.inputs.items())
    oracle = Oracle(tokenizer.convert_tokens_to_ids("dog"))
    assert answer_questions(oracle, asked, tokenizer, max_length=40, stride=10) == ["dog", "dog"]
    assert tokenizer.padding_side == "left"


def test_answers_have_no_blank_around_them():
    """Metaspace counts the blank before a word among the word's own characters."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=metaspace(), pad_token="[PAD]")
    asked = Question("who?", "two  kids wash")
    oracle = Oracle(tokenizer.convert_tokens_to_ids("\u2581kids"))
    (window,) = make_windows([asked], tokenizer).offsets
    assert (4, 9) in window
    assert answer_questions(oracle, [asked], tokenizer) == ["kids"]


def metaspace() -> Tokenizer:
    words = ["[PAD]", "[UNK]", *("\u2581" + word for word in ("", "two", "kids", "wash"))]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    return inner


def test_windows_need_a_padding_token():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=metaspace())
    with pytest.raises(
        ConfigError, match=r"^windows are padded, but this tokenizer has no padding token; set its pad_"
    ):
        make_windows([Question("who?", "two kids wash")], tokenizer)


def test_scores_of_squad():
    asked = [
        Question("who", "The two kids wash.", ("two kids", "kids"), (4, 8)),
        Question("why", "The two kids wash."),
    ]
    assert squad_scores(["the KIDS!", ""], asked) == {"exact_match": 1.0, "f1": 1.0}
    scores = squad_scores(["two kids wash", "because"], asked)
    assert scores["exact_match"] == 0.0
    assert scores["f1"] == pytest.approx((2 * 2 / 5) / 2)
    with pytest.raises(ValueError, match="an answer for each of at least one question"):
        squad_scores([], [])


def test_bad_questions():
    with pytest.raises(ValueError, match="expected 'cat' at character 4, got 'dog'"):
        Question("who", "the dog", ("cat",), (4,), id="7")
    with pytest.raises(ValueError, match="a start for each of 1 answers, got 0"):
        Question("who", "the dog", ("dog",))
    with pytest.raises(ConfigError, match="leaves no room beside the longest question"):
        make_windows([Question("who " * 30, CONTEXT)], minilm_tokenizer(), max_length=20, stride=5)
