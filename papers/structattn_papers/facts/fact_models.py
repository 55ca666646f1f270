"""The parts of fact-selecting models by name: memory networks, and chains of independent or of connected facts.

Reference: Sukhbaatar et al. (2015), End-to-end memory networks; Kim et al. (2017), section 4.3.
"""

from collections.abc import Mapping
from typing import Any

from structattn.layers.chain_scorer import binary_potentials, unary_potentials
from structattn.lazy import imported
from structattn_papers.additions import FACT_MODELS, fact_model_options
from structattn_papers.facts.fact_memory import FactChain, MemoryHops
from structattn_papers.facts.fact_reader import FactReader


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


def unary(
    vocab_size: int, *, dim: int = 20, num_steps: int = 2, num_facts: int = 25, linear_start: int = 20
) -> tuple[FactReader, FactChain]:
    """Facts that are selected independently of each other (Kim et al. 2017, section 4.3).

    Args:
        vocab_size: number of word ids.
        dim: width of the vectors.
        num_steps: number of facts that are selected.
        num_facts: maximum number of facts; of longer stories the last ones are read.
        linear_start: number of epochs without softmax.
    """
    return FactReader(vocab_size, dim, num_steps=num_steps, num_facts=num_facts), FactChain(
        dim, num_steps, potentials=unary_potentials
    )


def binary(
    vocab_size: int, *, dim: int = 20, num_steps: int = 2, num_facts: int = 25, linear_start: int = 20
) -> tuple[FactReader, FactChain]:
    """A chain of facts, each of which depends on the one before it (Kim et al. 2017, section 4.3).

    Args:
        vocab_size: number of word ids.
        dim: width of the vectors.
        num_steps: number of facts that are selected.
        num_facts: maximum number of facts; of longer stories the last ones are read.
        linear_start: number of epochs without softmax.
    """
    return FactReader(vocab_size, dim, num_steps=num_steps, num_facts=num_facts), FactChain(
        dim, num_steps, potentials=binary_potentials
    )


def build_fact_parts(
    name: str, vocab_size: int, options: Mapping[str, Any]
) -> tuple[FactReader, MemoryHops | FactChain, dict[str, Any]]:
    """The reader and the selection of a model, with fresh parameters, and all its options, defaults included.

    Args:
        name: a key of ``FACT_MODELS``.
        vocab_size: number of word ids.
        options: ``dim``, ``num_steps``, ``num_facts``, ``linear_start``.

    Raises:
        ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.
    """
    chosen = fact_model_options(name, options)
    reader, selection = imported(FACT_MODELS[name])(vocab_size, **chosen)
    return reader, selection, chosen
