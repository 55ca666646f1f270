"""The mean of a model's parameters over its latest evaluations.

Training continues from the parameters themselves; only the model that is evaluated and kept is averaged.

Reference: Vaswani et al. (2017), section 6.1 (the last checkpoints, averaged).
"""

import contextlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from structattn.data.tensors import read_tensors, save_tensors

_FILE = "earlier{}.safetensors"


class Averaging:
    """Keeps the latest parameters of a model, and swaps in their mean within a block.

    Args:
        number: number of states in the mean.

    Example:
        >>> model, averaging = nn.Linear(1, 1, bias=False), Averaging(2)
        >>> for value in (1.0, 2.0, 4.0):
        ...     _ = nn.init.constant_(model.weight, value)
        ...     with averaging.mean_of(model):
        ...         print(model.weight.item())
        1.0
        1.5
        3.0
        >>> model.weight.item()
        4.0
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._latest: deque[dict[str, Tensor]] = deque(maxlen=number)

    @contextlib.contextmanager
    def mean_of(self, model: nn.Module) -> Iterator[None]:
        """Record the parameters, give the model their mean inside the block, and restore them afterwards."""
        if self.number == 1:
            yield
            return
        own = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self._latest.append(own)
        mean = {name: _mean([state[name] for state in self._latest]) for name in own}
        model.load_state_dict(mean)
        try:
            yield
        finally:
            model.load_state_dict(own)

    def save(self, folder: Path) -> None:
        """Write the recorded parameters into an existing folder."""
        for place, state in enumerate(self._latest):
            save_tensors(state, folder / _FILE.format(place))

    def load(self, folder: Path, device: torch.device) -> None:
        """Read the parameters that ``save`` wrote.

        Raises:
            ParseError: if a file is damaged; the message names it.
        """
        self._latest.clear()
        place = 0
        while (folder / _FILE.format(place)).exists():
            found = read_tensors(folder / _FILE.format(place))
            self._latest.append({name: tensor.to(device) for name, tensor in found.items()})
            place += 1


def _mean(tensors: list[Tensor]) -> Tensor:
    # Counters and masks have no mean: the latest value is taken.
    return torch.stack(tensors).mean(0) if tensors[0].is_floating_point() else tensors[-1]
