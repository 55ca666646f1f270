"""Random numbers that are a function of where they are used: the same in every program, on every device.

A number is a hash of a stream (one for each sentence), the index of the sample, and the place in the structure where a
choice is made. A sample therefore depends neither on the other sentences of a batch nor on padding, threads or the
order of the work; ``native/source/random.hpp`` computes the same bits.

Reference: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators (the finaliser of SplitMix64);
Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3 (numbers by counter).
"""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

# 2^64 over the golden ratio, and the multipliers of the finaliser, as signed numbers.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def streams(batch: int, *, generator: Generator | None, device: torch.device) -> Int[Tensor, " {batch}"]:
    """A random stream for each sentence, all derived from one number of the generator.

    Args:
        batch: how many.
        generator: source of randomness; torch's default generator if None.
        device: where they are needed.

    Example:
        >>> first, second = (torch.Generator().manual_seed(0) for _ in range(2))
        >>> long = streams(3, generator=first, device=torch.device("cpu"))
        >>> torch.equal(long[:2], streams(2, generator=second, device=torch.device("cpu")))
        True
    """
    source = device if generator is None else generator.device
    # Not all 64 bits, because torch cannot represent a bound of 2^63.
    seed = torch.randint(-(2**62), 2**62, (), generator=generator, device=source, dtype=torch.int64).to(device)
    return torch.arange(batch, device=device).mul_(_STEP) + seed


def sample_keys(stream: Int[Tensor, " batch"], count: int) -> Int[Tensor, "{count} batch"]:
    """The key of each sample of each sentence.

    Example:
        >>> sample_keys(torch.zeros(1, dtype=torch.int64), 2)[:, 0].unique().numel()
        2
    """
    number = torch.arange(1, count + 1, device=stream.device).mul_(_STEP).unsqueeze(-1)
    return _mix(_mix(stream) + number)


def uniform(keys: Int[Tensor, "*#shape"], places: Int[Tensor, "*#shape"]) -> Float[Tensor, "..."]:
    """Uniform in ``[0, 1)``, one for each key at each place.

    Args:
        keys: from `sample_keys`.
        places: of the choices, see `place`; broadcast against the keys.

    Example:
        >>> numbers = uniform(sample_keys(torch.arange(1000), 10), torch.tensor(5))
        >>> numbers.dtype, round(numbers.mean().item(), 1)
        (torch.float64, 0.5)
    """
    bits = _mix(keys + (places + 1) * _STEP)
    return _right(bits, 11).double() * 2.0**-53


def place(kind: int, first: int, second: int) -> int:
    """Encode a place as a number: a kind of choice below 8, and two positions below 2^28.

    Example:
        >>> place(1, 2, 3) == 1 + 8 * 2 + 2**31 * 3
        True
    """
    return kind + 8 * first + 2**31 * second


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _right(bits, 30)) * _FIRST
    bits = (bits ^ _right(bits, 27)) * _SECOND
    return bits ^ _right(bits, 31)


def _right(bits: Tensor, count: int) -> Tensor:
    """Shift to the right with zeros; torch's own shift repeats the sign."""
    found: Tensor = torch.bitwise_and(bits >> count, 2 ** (64 - count) - 1)
    return found
