"""Questions about stories of bAbI, answered by selecting facts: memory networks and chains of facts."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn_papers.facts.babi import facts_of, read_babi, support_of
    from structattn_papers.facts.fact_memory import FactChain, FactEmbedding, MemoryHops
    from structattn_papers.facts.fact_reader import FactBatch, FactReader
    from structattn_papers.facts.fact_selection import FactModel

__all__ = [
    "FactBatch",
    "FactChain",
    "FactEmbedding",
    "FactModel",
    "FactReader",
    "MemoryHops",
    "facts_of",
    "read_babi",
    "support_of",
]

load_lazily(__name__)
