"""Lengths that the scores do not have, which nobody checks on a device: no kernel leaves the memory of a sentence."""

from typing import Any

import pytest
import torch
from test_triton import Kernel, every_kernel
from torch import Tensor

pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("small_tiles")]
WORDS = 4
LENGTHS = [WORDS, WORDS + 1, 2, 40, -1, 2**40 + 2, 0]
IMPOSSIBLE = torch.tensor([not 0 <= length <= WORDS for length in LENGTHS])
# More than a sentence with the longest of these lengths would write beyond its own memory, but for the absurd one.
MARGIN, SENTINEL = 4096, 77


class Guards:
    """Memory with sentinels in front and behind, for everything that is allocated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole: list[Tensor] = []
        new_empty, empty_like = Tensor.new_empty, torch.empty_like
        self._allocate = new_empty

        def guarded(like: Tensor, *shape: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
            sizes = torch.Size(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
            memory = new_empty(like, 2 * MARGIN + sizes.numel(), dtype=dtype or like.dtype).fill_(SENTINEL)
            self.whole.append(memory)
            return memory[MARGIN : MARGIN + sizes.numel()].view(sizes)

        def guarded_like(like: Tensor, **options: Any) -> Tensor:
            if options.keys() - {"memory_format", "dtype"}:
                return empty_like(like, **options)
            return guarded(like, like.shape, dtype=options.get("dtype"))

        monkeypatch.setattr(Tensor, "new_empty", guarded)
        monkeypatch.setattr(torch, "empty_like", guarded_like)

    def check(self) -> None:
        """All sentinels are as they were."""
        assert self.whole
        for memory in self.whole:
            assert (memory[:MARGIN] == SENTINEL).all()
            assert (memory[-MARGIN:] == SENTINEL).all()


@every_kernel
def test_impossible_lengths_write_nothing_beyond_a_sentence(
    kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results are nan, and those of the other sentences as without them."""
    batch = len(LENGTHS)
    scores, vectors = ([array.to(device) for array in kernel.random(WORDS, batch, seed=seed)] for seed in (1, 2))
    lengths, impossible = torch.tensor(LENGTHS, device=device), IMPOSSIBLE.to(device)
    possible = [array[~impossible] for array in scores], lengths[~impossible], [array[~impossible] for array in vectors]
    expected = kernel.results(*possible)
    family, options = kernel.operators.family, kernel.options
    streams = torch.arange(batch, device=device)
    best = family.argmax(*possible[:2], options)
    random = family.sample(*possible[:2], streams[~impossible], options, 3)

    guards = Guards(monkeypatch)
    found = kernel.results(scores, lengths, vectors)
    found_best = family.argmax(scores, lengths, options)
    found_random = family.sample(scores, lengths, streams, options, 3)
    guards.check()
    monkeypatch.undo()
    for name, value in found.items():
        assert value[impossible].isnan().all(), name
        torch.testing.assert_close(value[~impossible], expected[name], msg=lambda text, name=name: name + text)
    assert found_best[impossible].isnan().all()
    assert torch.equal(found_best[~impossible], best)
    assert found_random[:, impossible].isnan().all()
    assert torch.equal(found_random[:, ~impossible], random)
