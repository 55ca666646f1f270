"""Leave-one-out attribution: a model with known probabilities, twins by two predictions, and what must not change."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

import structattn as sa
from backbones import save_tiny
from structattn.data import Example, Vocabulary
from structattn.encoders import build
from structattn.errors import ConfigError
from structattn.explorer.plots import save_plots
from structattn.inspection import attribution_figure, leave_one_out
from structattn.inspection.attention_maps import find_module_with
from structattn.inspection.occlusion import WordAttribution, occlude
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import Prediction, SentenceModel, get_task

DOG = Sentence(
    ["a", "dog", "barks"],
    tags=["DT", "NN", "VBZ"],
    dependency=DependencyTree([2, 3, 0]),
    constituency=ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) (VBZ barks))"),
    relations={"near": [[0, 1, 0], [1, 0, 1], [0, 1, 0]]},
    metadata={"sent_id": "dog"},
)
KIDS = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
VOCABULARY = Vocabulary(["a", "barks", "dog", "kids", "wash"])


WEIGHTS = {"a": 0.1, "dog": 0.1, "barks": 0.2, "kids": 0.1, "wash": 0.2}


class Weighted(nn.Module):
    """Says "yes" with a tenth for each word that it can read, and twice that for verbs; remembers what it was asked."""

    def __init__(self, text: str | None = None, scores: bool = False) -> None:
        super().__init__()
        self.text, self.scores = text, scores
        self.asked: list[Example] = []

    def predict(self, examples: Sequence[Example], *, batch_size: int) -> list[Prediction]:
        self.asked += examples
        values = [sum((WEIGHTS.get(w, 0.0) for s in one.sentences for w in s.words), 0.0) for one in examples]
        if self.scores:
            return [Prediction("", None, value, {}, self.text) for value in values]
        return [Prediction("", "yes", None, {"yes": value, "no": 1 - value}, self.text) for value in values]


def model_of(name: str, task: str) -> SentenceModel:
    encoder = build(name, vocab_size=len(VOCABULARY), dim=24)
    return SentenceModel(encoder, get_task(task), labels=("singular", "plural"), vocabulary=VOCABULARY)


@pytest.mark.parametrize(("label", "sign"), [(None, 1), ("yes", 1), ("no", -1)])
def test_each_word_has_what_the_answer_loses_without_it(label: str | None, sign: int) -> None:
    first, second = leave_one_out(Weighted(), Example((DOG, KIDS)), label=label)
    assert first.changes == pytest.approx([sign * 0.1, sign * 0.1, sign * 0.2])
    assert second.changes == pytest.approx([sign * 0.1, sign * 0.2])
    assert (first.sentence, first.answer) == (DOG, label or "yes")


def test_scores_are_watched_themselves() -> None:
    (found,) = leave_one_out(Weighted(scores=True), DOG)
    assert found.answer == pytest.approx(0.4)
    assert found.changes == pytest.approx([0.1, 0.1, 0.2])


def test_what_is_known_about_the_words_stays() -> None:
    model = Weighted()
    leave_one_out(model, Example((DOG, KIDS), "yes", id="7"), replacement="cat")
    assert [[sentence.words for sentence in one.sentences] for one in model.asked[1:]] == [
        [("cat", "dog", "barks"), KIDS.words],
        [("a", "cat", "barks"), KIDS.words],
        [("a", "dog", "cat"), KIDS.words],
        [DOG.words, ("cat", "wash")],
        [DOG.words, ("kids", "cat")],
    ]
    assert {(one.id, one.label) for one in model.asked} == {("7", "yes")}
    sentence = model.asked[2].sentences[0]
    assert (sentence.tags, sentence.dependency, sentence.relations) == (DOG.tags, DOG.dependency, DOG.relations)
    assert sentence.constituency is not None
    assert sentence.constituency.to_brackets() == "(S (NP (DT a) (NN cat)) (VBZ barks))"
    assert sentence.metadata == {"sent_id": "dog"}


def test_trees_that_the_model_finds_stay_too() -> None:
    parsed: list[Sentence] = []

    def find_trees(examples: Sequence[Example]) -> list[Example]:
        """Every word hangs from the first; only sentences without a tree are parsed."""
        found = []
        for example in examples:
            (sentence,) = example.sentences
            if sentence.dependency is None:
                parsed.append(sentence)
                tree = DependencyTree([0] + [1] * (len(sentence) - 1))
                example = Example((replace(sentence, dependency=tree),), id=example.id)
            found.append(example)
        return found

    model = model_of("dependency_tree_lstm", "classification")
    model.find_trees = find_trees
    (found,) = leave_one_out(model, "a dog barks")
    assert [sentence.words for sentence in parsed] == [("a", "dog", "barks")]
    assert found.sentence.dependency == DependencyTree([0, 1, 1])
    assert found.changes == leave_one_out(model, found.sentence)[0].changes


@pytest.mark.parametrize(
    ("sentence", "place", "text"),
    [
        (Sentence.from_text("She didn't go."), 2, "She did? go."),
        (Sentence.from_text("  so   so"), 1, "  so   ?"),
        (Sentence(["zu", "dem"], metadata={"text": "zum"}), 1, None),  # the text lacks the word
        (Sentence(["so"]), 0, None),
    ],
)
def test_the_text_follows_its_words(sentence: Sentence, place: int, text: str | None) -> None:
    found = occlude(sentence, place, "?")
    assert found.metadata.get("text") == text
    assert found.words == (*sentence.words[:place], "?", *sentence.words[place + 1 :])


@pytest.mark.parametrize("name", ["ms_san", "disan", "tree_transformer", "bilstm_s2t"])
def test_a_trained_model_answers_as_if_it_had_never_seen_the_word(name: str) -> None:
    model = model_of(name, "classification").train()
    (found,) = leave_one_out(model, DOG, label="plural", batch_size=2)
    assert model.training
    probabilities = [one.probabilities["plural"] for one in model.predict([DOG, occlude(DOG, 1, "cat")])]
    assert found.changes[1] == pytest.approx(probabilities[0] - probabilities[1], abs=1e-6)
    assert found.changes[1] != 0


def test_a_vocabulary_may_hold_any_word() -> None:
    known = Vocabulary(["<unk>", "<<unk>>", "dog"])
    model = SentenceModel(
        build("emb_s2t", vocab_size=len(known), dim=4),
        get_task("classification"),
        labels=("singular", "plural"),
        vocabulary=known,
    )
    (found,) = leave_one_out(model, Sentence(["<unk>", "cat"]))
    assert found.changes[0] != 0
    assert found.changes[1] == 0


def test_backbones_read_their_own_mask(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    encoder = build("backbone", embedder={"folder": str(tmp_path)})
    model = SentenceModel(encoder, get_task("classification"), labels=("no", "yes"), vocabulary=Vocabulary([]))
    (found,) = leave_one_out(model, Sentence.from_text("Kids don't wash."), label="yes")
    masked = sa.Sentence.from_text("Kids do[MASK] wash.").metadata
    asked = Sentence(["Kids", "do", "[MASK]", "wash", "."], metadata=masked)
    plain, without = model.predict([Sentence.from_text("Kids don't wash."), asked])
    assert found.changes[2] == pytest.approx(plain.probabilities["yes"] - without.probabilities["yes"], abs=1e-6)
    backbone = find_module_with("unknown_word", model)
    assert backbone is not None
    backbone.tokenizer.mask_token = backbone.tokenizer.unk_token = None
    with pytest.raises(ConfigError, match="neither a mask nor an unknown token: pass replacement="):
        leave_one_out(model, KIDS)
    assert len(leave_one_out(model, KIDS, replacement="?")[0].changes) == 2


def test_sentences_without_words_have_no_attributions() -> None:
    assert leave_one_out(Weighted(), Sentence([])) == (WordAttribution(Sentence([]), "yes", ()),)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown label 'maybe'; expected one of yes, no"):
        leave_one_out(Weighted(), DOG, label="maybe")
    for model in (Weighted(text="wau"), nn.Linear(1, 1)):
        with pytest.raises(ConfigError, match=f"labels or scores, got {type(model).__name__}"):
            leave_one_out(model, DOG)
    with pytest.raises(ValueError, match="panels"):
        attribution_figure([])


def test_numbers_are_written_while_there_is_room() -> None:
    for size, count in ((40, 1), (41, 0)):
        words = [f"w{place}" for place in range(size)]
        svg = attribution_figure([WordAttribution(Sentence(words), 2.5, (0.25, *[0.0] * (size - 1)))])
        assert svg.count(">.25<") == count
        assert ">2.50<" in svg


def test_attributions_are_drawn_when_asked(tmp_path: Path) -> None:
    model = model_of("ms_san", "pair_classification")
    files = save_plots(tmp_path, model, [Example((DOG, KIDS))], formats=["svg"], influence=True)
    assert {"01-influence.svg", "02-influence.svg"} <= {path.name for path in files}
