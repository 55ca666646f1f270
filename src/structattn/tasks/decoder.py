"""The decoder interface of sequence models, and decoders built by name.

A decoder generates a text from an encoding, token by token: all steps of a known text at once in training, and one step
at a time in search. Both must give the same probabilities.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from structattn.data import SentenceBatch
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import Encoding
from structattn.errors import ConfigError
from structattn.tasks.search import State
from structattn.tasks.table import DECODERS


@runtime_checkable
class Decoder(Protocol):
    """A module that generates text.

    ``__call__`` is ``forward``: logits of every next token, given the tokens before it; the first of
    them is the begin token, and padding is on the right. ``start`` and ``step`` do the same one token at a time; each
    tensor of a state has the row first, so that a search may keep some rows and repeat others.

    Attributes:
        description: the name and options that ``build_decoder`` made it from, so that it can be saved.
    """

    description: Mapping[str, Any]

    def __call__(
        self, encoding: Encoding, source: SentenceBatch, tokens: Int[Tensor, "batch step"]
    ) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of the next token at each step."""
        ...

    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token, with a row for each sentence."""
        ...

    def step(self, last: Int[Tensor, " row"], state: State) -> tuple[Float[Tensor, "row vocabulary"], State]:
        """Logits of the next token, and the next state."""
        ...


def build_decoder(name: str, encoder: SentenceEncoder, vocab_size: int, **options: Any) -> Decoder:
    """Build a decoder by name for an encoder.

    Args:
        name: a key of ``DECODERS``.
        encoder: the encoder it attends to.
        vocab_size: number of tokens of the target side, the special ones included.
        **options: keyword arguments of the builder.

    Raises:
        ConfigError: for an unknown decoder or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> from structattn.encoders import build
        >>> encoder = build("lstm", vocab_size=5, dim=4)
        >>> build_decoder("lstm", encoder, 7, attention="segmentation").attention.reader.total
        2.0
    """
    checked = DECODERS.check_options(name, options)
    try:
        decoder = DECODERS[name](encoder, vocab_size, **checked)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"decoder {name!r}: {error}") from error
    decoder.description = {"name": name, "options": options}
    return decoder
