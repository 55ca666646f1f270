"""An LSTM decoder with any attention to the source: softmax, sigmoid, segmentation, a moving window, or none.

No input feeding: the LSTM reads the tokens alone, so all steps run at once, and their attention is one batch of
queries.

Reference: Luong, Pham and Manning (2015), section 3.1 (global attention, equations 5 and 6); Kim et al. (2017), section
4.2 and the authors' code.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import Encoding
from structattn.errors import ConfigError
from structattn.layers import (
    LSTM,
    SegmentationScorer,
    SigmoidSelection,
    SoftmaxSelection,
    StructuredAttention,
    TwoStateChain,
    WindowAttention,
)
from structattn.layers.linear import glorot_linear
from structattn.layers.segmentation import SelectionReader
from structattn.tasks.decoding import State, TokenDecoder

ATTENTIONS = ("none", "simple", "sigmoid", "segmentation", "window")


class LSTMDecoder(TokenDecoder):
    """``h_t = LSTM(y_{t-1})``, ``s_t = tanh(W [context(h_t); h_t])``, scores ``= V s_t + b`` (Luong et al. 2015).

    A window attention continues from its last position.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        source_dim: int,
        attention: nn.Module | None = None,  # (states, mask, queries=...) to (context, weights)
        vector_dim: int | None = None,  # of the sentence vector that the LSTM starts from; None starts from zeros
        num_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(vocab_size, dim, dropout=dropout)
        self.num_layers = num_layers
        self.dim = dim
        self.bridge = None if vector_dim is None else glorot_linear(vector_dim, 2 * num_layers * dim)
        self.lstm = LSTM(dim, dim, num_layers=num_layers, dropout=dropout)
        self.attention = attention
        self.mix = glorot_linear(dim if attention is None else source_dim + dim, dim, bias=False)
        self.scores = glorot_linear(dim, vocab_size)

    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token."""
        rows = len(encoding.states)
        if self.bridge is None:
            both = encoding.states.new_zeros(rows, 2, self.num_layers, self.dim)
        else:
            both = torch.tanh(self.bridge(encoding.vector)).unflatten(-1, (2, self.num_layers, self.dim))
        state = {"states": encoding.states, "mask": encoding.mask, "hidden": both[:, 0], "cell": both[:, 1]}
        if hasattr(self.attention, "positions"):
            state["position"] = both.new_zeros(rows, dtype=torch.promote_types(both.dtype, torch.float32))
        return state

    def read(self, tokens: Int[Tensor, "row step"], state: State) -> tuple[Float[Tensor, "row step vocabulary"], State]:
        """See ``TokenDecoder.read``."""
        memory = (state["hidden"].transpose(0, 1).contiguous(), state["cell"].transpose(0, 1).contiguous())
        read, (hidden, cell) = self.lstm.read_on(self.dropout(self.embedding(tokens)), memory)
        state = {**state, "hidden": hidden.transpose(0, 1), "cell": cell.transpose(0, 1)}
        features = read
        if self.attention is not None:
            arguments = {}
            if (positions := getattr(self.attention, "positions", None)) is not None:
                arguments["positions"] = positions(read, state["position"])
                state["position"] = arguments["positions"][:, -1]
            context, _ = self.attention(state["states"], state["mask"], queries=read, **arguments)
            features = torch.cat([context, read], -1)
        scores: Tensor = self.scores(self.dropout(torch.tanh(self.mix(features))))
        return scores, state


def lstm_decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    *,
    dim: int | None = None,  # of tokens and states; that of the encoder's states if None
    num_layers: int = 1,
    # None; softmax; sigmoid; a two-state chain; a window that moves along the source from left to right.
    attention: str = "simple",
    # The sum that the weights of a step are scaled to: 2 for segmentation if None, as in the paper (lambda), and
    # unscaled otherwise; a window's weights sum to one.
    total: float | None = None,
    initial: str = "vector",  # the LSTM starts from the sentence vector, or from zero
    dropout: float = 0.0,  # on the tokens, between the layers and before the scores
) -> LSTMDecoder:
    """An LSTM with attention over the states of an encoder.

    A size or attention that does not exist is a ``ConfigError``.
    """
    if attention not in ATTENTIONS:
        raise ConfigError(f"attention expects one of {', '.join(ATTENTIONS)}; got {attention!r}")
    if initial not in ("vector", "zero"):
        raise ConfigError(f"initial expects one of vector, zero; got {initial!r}")
    source_dim = encoder.state_dim
    width = source_dim if dim is None else dim
    if width < 1 or num_layers < 1:
        raise ConfigError(f"dim and num_layers expect at least 1, got {width} and {num_layers}")
    if total is not None and attention in ("none", "window"):
        raise ConfigError(f"total concerns words that are selected; attention is {attention!r}")
    layer: nn.Module | None = WindowAttention(width) if attention == "window" else None
    if attention not in ("none", "window"):
        selection = {"simple": SoftmaxSelection, "sigmoid": SigmoidSelection, "segmentation": TwoStateChain}[attention]
        scorer = SegmentationScorer(source_dim, width, selection=selection())
        scale = 2.0 if total is None and attention == "segmentation" else total
        layer = StructuredAttention(scorer, reader=SelectionReader(scale))
    return LSTMDecoder(
        vocab_size,
        width,
        source_dim=source_dim,
        attention=layer,
        vector_dim=encoder.output_dim if initial == "vector" else None,
        num_layers=num_layers,
        dropout=dropout,
    )
