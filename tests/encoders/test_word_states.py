"""Tags and texts on a pretrained backbone: states of words where an encoder alone gives that of the first token."""

from pathlib import Path

import pytest
import torch

import structattn as sa
from every_model import SENTENCES, VOCABULARY, encoder_of, model_of
from structattn.backbones import BackboneEmbedding
from structattn.data import Example
from structattn.encoders.encoder_table import BUILDERS, needs_backbone
from structattn.encoders.text_node import with_word_states

ON_BACKBONE = sorted(filter(needs_backbone, BUILDERS))
on_backbone = pytest.mark.parametrize("name", ON_BACKBONE)


@on_backbone
def test_states_are_those_of_words_as_the_reader_leaves_them(name: str, backbones: Path) -> None:
    torch.manual_seed(0)
    encoder = encoder_of(name, backbones).eval()
    words = with_word_states(encoder)
    batch = sa.collate(SENTENCES, VOCABULARY)
    assert isinstance(encoder.embedder, BackboneEmbedding)
    whole = encoder.embedder.giving("words and text", encoder.embedder.reader).eval()(batch)
    torch.testing.assert_close(whole[:, -1], encoder(batch).vector)
    found = words(batch)
    torch.testing.assert_close(found.states, whole[:, :-1].masked_fill(~batch.mask.unsqueeze(-1), 0.0))
    torch.testing.assert_close(found.vector, found.states.sum(1) / batch.lengths.unsqueeze(-1))
    assert words.embedder.backbone is encoder.embedder.backbone
    assert dict(words.state_dict()).keys() == encoder.state_dict().keys()


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - set(ON_BACKBONE)))
def test_encoders_that_have_states_of_words_stay_the_same(name: str, tmp_path: Path) -> None:
    encoder = encoder_of(name, tmp_path)
    assert with_word_states(encoder) is encoder


@on_backbone
def test_taggers_are_saved_and_pad_without_influence(name: str, backbones: Path, tmp_path: Path) -> None:
    model, batch = model_of(f"tags, {name}", backbones)
    model.eval().save_pretrained(tmp_path / "tagger")
    again = sa.load(tmp_path / "tagger")
    torch.testing.assert_close(again(batch), model(batch), rtol=0, atol=0)
    alone = [model(model.collate([Example((one,), " ".join(["O"] * len(one)))])) for one in SENTENCES]
    together = model(model.collate([Example((one,), " ".join(["O"] * len(one))) for one in SENTENCES]))
    torch.testing.assert_close(together, torch.cat(alone))


def test_a_decoder_sees_every_word(backbones: Path) -> None:
    model, batch = model_of("transformer decoder, backbone", backbones)
    assert model.encoder(batch.source).mask.sum(1).tolist() == [len(one) for one in SENTENCES]
