"""The parts of fact-selecting models by name: memory networks, and chains of independent or of connected facts.

Reference: Sukhbaatar et al. (2015), End-to-end memory networks; Kim et al. (2017), section 4.3.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from structattn.layers.chain_scorer import binary_potentials, unary_potentials
from structattn.layers.fact_memory import FactChain, MemoryHops
from structattn.syntax.errors import ConfigError
from structattn.syntax.options import check_options, known_options
from structattn.tasks.fact_reader import FactReader


def memn2n(
    vocab_size: int, *, dim: int = 20, num_steps: int = 2, num_facts: int = 25, linear_start: int = 20
) -> tuple[FactReader, MemoryHops]:
    """End-to-end memory network (Sukhbaatar et al. 2015), adjacent tying.

    Args:
        vocab_size: number of word ids.
        dim: width of the vectors.
        num_steps: number of hops.
        num_facts: maximum number of facts; of longer stories the last ones are read.
        linear_start: number of epochs without softmax.
    """
    return FactReader(vocab_size, dim, num_steps=num_steps, num_facts=num_facts), MemoryHops()


def chain(
    vocab_size: int,
    *,
    dim: int = 20,
    num_steps: int = 2,
    num_facts: int = 25,
    linear_start: int = 20,
    potentials: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[FactReader, FactChain]:
    """A chain of facts (Kim et al. 2017, section 4.3); ``binary`` facts see each other, ``unary`` ones do not.

    Args:
        vocab_size: number of word ids.
        dim: width of the vectors.
        num_steps: number of facts that are selected.
        num_facts: maximum number of facts; of longer stories the last ones are read.
        linear_start: number of epochs without softmax.
        potentials: from keys and queries to the scores of facts and of pairs of facts.
    """
    reader = FactReader(vocab_size, dim, num_steps=num_steps, num_facts=num_facts)
    return reader, FactChain(dim, num_steps, potentials=potentials)


FACT_MODELS: Mapping[str, Callable[..., tuple[FactReader, MemoryHops | FactChain]]] = {
    "memn2n": memn2n,
    "unary": partial(chain, potentials=unary_potentials),
    "binary": partial(chain, potentials=binary_potentials),
}


def build_fact_parts(
    name: str, vocab_size: int, options: Mapping[str, Any]
) -> tuple[FactReader, MemoryHops | FactChain, dict[str, Any]]:
    """What reads the facts and what selects them, with fresh parameters, and all options, defaults included.

    Args:
        name: ``memn2n``, ``unary`` or ``binary``.
        vocab_size: number of word ids.
        options: ``dim``, ``num_steps``, ``num_facts``, ``linear_start``.

    Raises:
        ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.
    """
    if name not in FACT_MODELS:
        raise ConfigError(f"unknown encoder {name!r} of a model that selects facts; known: {', '.join(FACT_MODELS)}")
    chosen = {**fact_model_options(), **check_options(options, memn2n, f"encoder {name!r}")}
    reader, selection = FACT_MODELS[name](vocab_size, **chosen)
    return reader, selection, chosen


def fact_model_options() -> dict[str, Any]:
    """The options of a model and their defaults, the same for every name.

    Example:
        >>> fact_model_options()
        {'dim': 20, 'num_steps': 2, 'num_facts': 25, 'linear_start': 20}
    """
    return known_options(memn2n)
