"""A model of words says once that many words of new texts are unknown to it, and with which share."""

import pytest

import structattn as sa
from small_models import sentence_model
from structattn.tasks import SENTIMENT

KNOWN = "a film with so much wit that it never ends too soon"
GERMAN = "ein Film mit so viel Witz dass er niemals zu früh endet"


def test_many_unknown_words_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    model = sentence_model("emb_s2t", SENTIMENT, vocabulary=sa.Vocabulary(KNOWN.split()), options={"dim": 4})
    model.predict([KNOWN, KNOWN.upper(), "a film without wit and without ends", "Film Witz"])
    assert caplog.text == ""
    model.predict(["Witz Ende dass"])  # too few words to say
    assert caplog.text == ""
    model.predict([GERMAN])
    model.predict([GERMAN])
    (record,) = caplog.records
    assert record.getMessage().startswith("83 % of 12 words are unknown to the model ('ein', 'mit', 'viel', 'Witz'")
