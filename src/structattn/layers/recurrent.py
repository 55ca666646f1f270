"""LSTMs over padded batches, without packing them.

Hochreiter and Schmidhuber 1997; the initial forget gate as in Jozefowicz et al. 2015. Kernels for padded batches are
two to six times faster on a CPU than those for packed ones. In a ``torch.compile`` graph, a layer is one node that
calls the same kernel; in a ``torch.export`` program, it is a scan over the words.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

from structattn.functional.torch_state import is_exporting
from structattn.options.hardware import lacks_bfloat16


class LSTM(nn.RNNBase):
    r"""LSTM layers over padded sentences, with the parameters of ``torch.nn.LSTM``.

    ``i, f, g, o = W x_t + U h_{t-1} + b`` (each with its own parameters),
    ``c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)``, ``h_t = sigmoid(o) tanh(c_t)``.

    Args:
        dim: width of the words.
        hidden: width of each direction.
        num_layers: number of layers.
        bias: whether the gates have biases, two each as in torch.
        bidirectional: whether a second LSTM reads from right to left; its states are concatenated to those of the
            first.
        dropout: between the layers.

    Example:
        >>> LSTM(3, 5, bidirectional=True)(torch.ones(1, 4, 3)).shape
        torch.Size([1, 4, 10])
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        num_layers: int = 1,
        bias: bool = True,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        # torch warns about dropout in a single layer, as there is nothing between layers.
        between = dropout if num_layers > 1 else 0.0
        super().__init__(
            "LSTM", dim, hidden, num_layers, bias, batch_first=True, dropout=between, bidirectional=bidirectional
        )

    def forward(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "batch word hidden"]:
        """The states of the last layer; padding must come after the words, or be zero where there are no biases."""
        weights = self._weights
        if not torch.compiler.is_compiling():
            return _read(states, weights, self.num_layers, self.bidirectional, self.dropout if self.training else 0.0)
        size = len(weights) // self.num_layers
        for layer in range(self.num_layers):
            of_layer = weights[layer * size : (layer + 1) * size]
            if layer:
                states = F.dropout(states, self.dropout, self.training)
            read = _scan_layer if is_exporting() else _read_layer
            states = read(states, of_layer, self.bidirectional)
        return states

    def read_on(
        self, states: Float[Tensor, "batch word dim"], start: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "batch word hidden"], tuple[Tensor, Tensor]]:
        """The states of the last layer, and the final hidden and cell states of all layers, from a given start.

        Args:
            states: the words.
            start: the hidden states and the cell states before the first word, for each layer and direction, as
                (layers, batch, hidden).

        Returns:
            The states after each word, and the hidden and cell states after the last, of the shape of ``start``.
        """
        dropout = self.dropout if self.training else 0.0
        read, *left = _read_on(states, start, self._weights, self.num_layers, self.bidirectional, dropout)
        return read, (left[0], left[1])

    @property
    def _weights(self) -> list[Tensor]:
        return [weight for weight in self._flat_weights if weight is not None]


def bidirectional_lstm(dim: int, hidden: int) -> LSTM:
    """One layer for ``read_both_ways``: one LSTM forward, one backward, their states concatenated.

    The gates have one bias as in the papers, not torch's two: the column of ``W`` for a constant 1 after every word.
    """
    lstm = LSTM(dim + 1, hidden, bias=False, bidirectional=True)
    # Every gate's matrices start Glorot-uniform, the biases at zero except for the forget gate's, which start at one.
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
    """States of the real words; padded ones are zero. The LSTM is one of ``bidirectional_lstm``."""
    # There are no biases, so an LSTM that has read only zeros is still in its initial state: with zeros at padding, in
    # place of the constant 1 as well, the backward LSTM starts exactly at the last word.
    real = mask.unsqueeze(-1)
    words = torch.cat([states, real.to(states.dtype)], dim=-1).masked_fill(~real, 0.0)
    output: Tensor = lstm(words)
    return output * real


def _read(
    states: Tensor, weights: Sequence[Tensor], num_layers: int, bidirectional: bool, dropout: float = 0.0
) -> Tensor:
    """The states of the last layer, from a start of zeros."""
    start = states.new_zeros(num_layers * (2 if bidirectional else 1), states.shape[0], weights[1].shape[1])
    return _read_on(states, (start, start), weights, num_layers, bidirectional, dropout)[0]


def _read_on(
    states: Tensor,
    start: tuple[Tensor, Tensor],
    weights: Sequence[Tensor],
    num_layers: int,
    bidirectional: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """torch's own kernels, in float32 on a processor that has none for autocast's type."""
    if states.is_cpu and torch.is_autocast_enabled("cpu") and _lacks(torch.get_autocast_dtype("cpu")):
        with torch.autocast("cpu", enabled=False):
            hidden, cell = (state.float() for state in start)
            return _read_on(states.float(), (hidden, cell), weights, num_layers, bidirectional, dropout)
    has_biases = len(weights) == 4 * num_layers * (2 if bidirectional else 1)
    # A kernel saves what the backward pass needs only if it is told to train.
    train = dropout > 0 or torch.is_grad_enabled()
    return torch.lstm(states, start, [*weights], has_biases, num_layers, dropout, train, bidirectional, True)


def _lacks(dtype: torch.dtype) -> bool:
    """Whether the processor has no LSTM kernel for this type: oneDNN has none for float16 on most."""
    return dtype == torch.float16 or (dtype == torch.bfloat16 and lacks_bfloat16())


def _scan_layer(states: Tensor, weights: Sequence[Tensor], bidirectional: bool) -> Tensor:
    """One layer as a scan over the words, which needs no kernel and has no fixed length."""
    count = len(weights) // (2 if bidirectional else 1)
    directions = [weights[:count], weights[count:]] if bidirectional else [weights]
    return torch.cat([_scan(states, part, reverse=bool(index)) for index, part in enumerate(directions)], -1)


def _scan(states: Tensor, weights: Sequence[Tensor], *, reverse: bool) -> Tensor:
    of_word, of_state, *biases = weights
    words = F.linear(states, of_word, sum(biases) if biases else None).transpose(0, 1)  # type: ignore[arg-type]
    start = torch.zeros_like(words[0, :, : of_state.shape[1]])

    def step(carried: tuple[Tensor, Tensor], word: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        state, memory = carried
        enter, remember, update, leave = (word + state @ of_state.mT).chunk(4, -1)
        memory = remember.sigmoid() * memory + enter.sigmoid() * update.tanh()
        state = leave.sigmoid() * memory.tanh()
        return (state, memory), state.clone()

    read: Tensor = scan(step, (start, torch.zeros_like(start)), words, reverse=reverse)[1].transpose(0, 1)
    return read


@torch.library.custom_op("structattn::lstm", mutates_args=())
def _read_layer(states: Tensor, weights: Sequence[Tensor], bidirectional: bool) -> Tensor:
    """One layer as one node of a graph."""
    return _read(states, weights, 1, bidirectional).clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("structattn::lstm_backward", mutates_args=())
def _read_layer_backward(
    states: Tensor, weights: Sequence[Tensor], bidirectional: bool, gradient: Tensor
) -> list[Tensor]:
    """The gradients of the states and of the weights; the layer is run once more, as no activations were saved."""
    with _autograd_inside_an_operator():
        inputs = [tensor.detach().requires_grad_() for tensor in (states, *weights)]
        read = _read(inputs[0], inputs[1:], 1, bidirectional)
        gradients = torch.autograd.grad(read, inputs, gradient)
    return [part.clone(memory_format=torch.contiguous_format) for part in gradients]


@contextlib.contextmanager
def _autograd_inside_an_operator() -> Iterator[None]:
    """Enable autograd within a block, as torch calls an operator's implementation with autograd switched off."""
    with contextlib.ExitStack() as keys, torch.enable_grad():
        for key in (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView):
            keys.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


def _fake_layer(states: Tensor, weights: Sequence[Tensor], bidirectional: bool) -> Tensor:
    return states.new_empty(*states.shape[:2], weights[1].shape[1] * (2 if bidirectional else 1))


def _fake_backward(states: Tensor, weights: Sequence[Tensor], bidirectional: bool, gradient: Tensor) -> list[Tensor]:
    return [torch.empty_like(part, memory_format=torch.contiguous_format) for part in (states, *weights)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    states, weights, ctx.bidirectional = inputs
    ctx.save_for_backward(states, *weights)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, list[Tensor], None]:
    states, *weights = ctx.saved_tensors
    of_states, *of_weights = _read_layer_backward(states, weights, ctx.bidirectional, gradient)
    return of_states, of_weights, None


_read_layer.register_fake(_fake_layer)
_read_layer_backward.register_fake(_fake_backward)
_read_layer.register_autograd(_backward, setup_context=_save)
