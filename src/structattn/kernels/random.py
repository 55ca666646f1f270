"""Random numbers that are a function of where they are used: the same in every program, on every device.

A number is a hash of a stream (one for each sentence), the index of the sample, and the choice that it decides. A
sample therefore depends neither on the other sentences of a batch nor on padding, threads or the order of the work;
``native/source/random.hpp`` computes the same bits.

Reference: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators (the finaliser of SplitMix64);
Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3 (numbers by counter).
"""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

# 2^64 over the golden ratio, and the multipliers of the finaliser, as signed numbers.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def make_streams(batch: int, *, generator: Generator | None, device: torch.device) -> Int[Tensor, " {batch}"]:
    """A random stream for each sentence, all derived from one number of the generator; None is torch's default."""
    source = device if generator is None else generator.device
    # Not all 64 bits, because torch cannot represent a bound of 2^63.
    seed = torch.randint(-(2**62), 2**62, (), generator=generator, device=source, dtype=torch.int64).to(device)
    return torch.arange(batch, device=device).mul_(_STEP) + seed


def sample_keys(stream: Int[Tensor, " batch"], count: int) -> Int[Tensor, "{count} batch"]:
    """The key of each sample of each sentence."""
    number = torch.arange(1, count + 1, device=stream.device).mul_(_STEP).unsqueeze(-1)
    return _mix(_mix(stream) + number)


def uniform(keys: Int[Tensor, "*#shape"], choices: Int[Tensor, "*#shape"]) -> Float[Tensor, "..."]:
    """Uniform in ``[0, 1)``, a number for each key (`sample_keys`) and choice (`choice_id`)."""
    bits = _mix(keys + (choices + 1) * _STEP)
    return _shift_right(bits, 11).double() * 2.0**-53


def choice_id(kind: int, first: int, second: int) -> int:
    """The id of a random choice: its kind, below 8, and two positions below 2^28."""
    return kind + 8 * first + 2**31 * second


def categorical(
    shares: Float[Tensor, "*cell batch split"], numbers: Float[Tensor, "*cell batch count"]
) -> Int[Tensor, "*cell batch count"]:
    """The first index at which the cumulative sum of the shares exceeds a number in ``[0, 1)`` times their total.

    If all shares are zero, any index may be returned.
    """
    steps = shares.cumsum(-1)
    index = torch.searchsorted(steps, (numbers * steps[..., -1:]).contiguous(), right=True)
    # A product rounded up to the total would point past the last possible alternative.
    splits = torch.arange(shares.shape[-1], device=shares.device)
    return index.minimum(splits.where(shares > 0, 0).amax(-1, keepdim=True))


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift_right(bits, 30)) * _FIRST
    bits = (bits ^ _shift_right(bits, 27)) * _SECOND
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    """Shift to the right with zeros; torch's own shift repeats the sign."""
    return torch.bitwise_and(bits >> count, 2 ** (64 - count) - 1)
