"""LSTMs that read a padded batch in both directions, without packing it.

Hochreiter and Schmidhuber 1997; the initial forget gate as in Jozefowicz et al. 2015. Kernels for padded batches are
two to six times faster on a CPU than those for packed ones.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


def bidirectional_lstm(dim: int, hidden: int) -> nn.LSTM:
    r"""One layer for ``read_both_ways``: one LSTM forward, one backward, their states side by side.

    ``i, f, g, o = W x_t + U h_{t-1} + b`` (each its own), ``c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)``,
    ``h_t = sigmoid(o) tanh(c_t)``. The gates have one bias as in the papers, not the two of ``torch.nn.LSTM``: it is
    the column of ``W`` that meets a constant 1 put beside every word. Every gate's matrices start Glorot-uniform, the
    biases at zero but for the forget gate's, which start at one.

    Args:
        dim: width of the words.
        hidden: width of each direction.

    Example:
        >>> sum(parameter.numel() for parameter in bidirectional_lstm(300, 300).parameters())
        1442400
    """
    lstm = nn.LSTM(dim + 1, hidden, bias=False, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for name, weight in lstm.named_parameters():
            for gate, block in zip("ifgo", weight.chunk(4), strict=True):
                if name.startswith("weight_hh"):
                    nn.init.xavier_uniform_(block)
                else:
                    nn.init.xavier_uniform_(block[:, :-1])
                    nn.init.constant_(block[:, -1], 1.0 if gate == "f" else 0.0)
    return lstm


def read_both_ways(
    lstm: nn.Module, states: Float[Tensor, "batch word dim"], mask: Bool[Tensor, "batch word"]
) -> Float[Tensor, "batch word two_hidden"]:
    """States of the real words; padded ones come out zero.

    There are no biases, so an LSTM that has read only zeros is as it was at its start: with zeros at padding, the
    constant 1 included, the backward reader starts at the last word, exactly.

    Args:
        lstm: what ``bidirectional_lstm`` made.
        states: the words.
        mask: True at real words.

    Example:
        >>> lstm = bidirectional_lstm(2, 3)
        >>> words = torch.ones(1, 4, 2)
        >>> padded = read_both_ways(lstm, words, torch.tensor([[True, True, False, False]]))
        >>> alone = read_both_ways(lstm, words[:, :2], torch.ones(1, 2, dtype=torch.bool))
        >>> torch.allclose(padded[:, :2], alone), padded[:, 2:].abs().max().item()
        (True, 0.0)
    """
    real = mask.unsqueeze(-1)
    given = torch.cat([states, real.to(states.dtype)], dim=-1).masked_fill(~real, 0.0)
    read: Tensor = lstm(given)[0]
    return read.masked_fill(~real, 0.0)
