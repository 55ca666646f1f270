"""Laws for parts of your own: what every prior, encoder, distribution and reader of this library obeys.

Each ``check_*`` runs all laws of a kind on one part and raises an ``AssertionError`` that names the law that is broken.
In pytest, the tables of laws give one test each::

    @pytest.mark.parametrize("law", PRIOR_LAWS.values(), ids=PRIOR_LAWS)
    def test_my_prior(law):
        law(MyPrior())
"""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.testing.distribution_laws import DISTRIBUTION_LAWS, Family, check_distribution
    from structattn.testing.encoder_laws import ENCODER_LAWS, check_encoder
    from structattn.testing.prior_laws import PRIOR_LAWS, check_prior
    from structattn.testing.reader_laws import READER_LAWS, check_reader
    from structattn.testing.sample_sentences import sample_sentences

__all__ = [
    "DISTRIBUTION_LAWS",
    "ENCODER_LAWS",
    "PRIOR_LAWS",
    "READER_LAWS",
    "Family",
    "check_distribution",
    "check_encoder",
    "check_prior",
    "check_reader",
    "sample_sentences",
]

load_lazily(__name__)
