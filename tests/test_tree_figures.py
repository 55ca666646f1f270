"""Figures of attention over trees: what they show, and that they are drawn for a model."""

from pathlib import Path

import pytest
import torch

import structattn as sa
from structattn.inspection import (
    accumulation_figure,
    attention_maps,
    embedding_index_figure,
    phrase_query_figure,
    phrase_share,
    save_plots,
    subtree_mask_figure,
)

TREE = sa.ConstituencyTree.from_brackets("(g x (h y z))")
SENTENCE = sa.Sentence(TREE.words, constituency=TREE)
VOCABULARY = sa.Vocabulary.from_examples([SENTENCE])


def encoder() -> sa.encoders.SentenceEncoder:
    torch.manual_seed(0)
    return sa.encoders.build("tree_transformer", vocab_size=len(VOCABULARY), dim=8, num_heads=2)


def test_accumulation_shows_the_numbers_made_by_hand() -> None:
    svg = accumulation_figure(TREE, [2, 0, 6], [1, 3], [1, 0.5, 2], title="first channel")
    for number in ("1.5", "1.333", "3.333", "4.5", "2.944", "4.875"):
        assert number in svg
    with pytest.raises(ValueError, match="expected 3 values of leaves, 2 of phrases and 3 weights, got 2, 2 and 3"):
        accumulation_figure(TREE, [2, 0], [1, 3], [1, 0.5, 2])


def test_indices_and_mask_are_drawn() -> None:
    assert embedding_index_figure(TREE).count("h (y … z)") >= 2
    # 25 cells, of which 3 x 2 of the words' and 2 of the lower phrase's are hatched.
    assert subtree_mask_figure(TREE).count(": not allowed") == 8


def test_a_phrase_is_drawn_with_what_it_looks_at() -> None:
    found = attention_maps(encoder(), SENTENCE, vocabulary=VOCABULARY)[0]
    svg = phrase_query_figure(found, 0, 1)
    assert svg.count('class="sa-phrase"') == 2
    shown = [f"{100 * weight:.0f}%" for weight in found.weights[0, 4, 1:3].tolist()]
    assert all(text in svg for text in shown)
    with pytest.raises(ValueError, match="number of one of 2 phrases, got 2"):
        phrase_query_figure(found, 0, 2)
    plain = sa.encoders.build("transformer", vocab_size=len(VOCABULARY), dim=6, num_heads=2)
    with pytest.raises(ValueError, match="expected a map over words and phrases, got 3 rows"):
        phrase_query_figure(attention_maps(plain, SENTENCE, vocabulary=VOCABULARY)[0], 0)


def test_the_page_of_a_model_draws_its_trees(tmp_path: Path) -> None:
    page, *_ = save_plots(tmp_path, encoder(), [SENTENCE], formats=["html"], vocabulary=VOCABULARY)
    assert "attends to its subtree" in page.read_text(encoding="utf-8")


def test_uniform_attention_has_the_uniform_share() -> None:
    weights = torch.full((2, 3, 4), 0.25)
    shares, uniform = phrase_share(weights, 3)
    assert shares.tolist() == [0.25, 0.25]
    assert uniform == 0.25
    allowed = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert phrase_share(allowed[None] / 2, 3, allowed=allowed)[1] == 0.25
