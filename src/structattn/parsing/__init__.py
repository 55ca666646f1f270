"""Raw text to sentences with trees: parsers, parsing many texts through a cache, and a biaffine parser."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.parsing.biaffine import BiaffineScorer
    from structattn.parsing.bridges import to_pandas, to_spacy
    from structattn.parsing.gold_trees import score_attachment
    from structattn.parsing.parse_texts import parse
    from structattn.parsing.parsers import Parser, load_parser
    from structattn.parsing.sentence_splitting import split_sentences
    from structattn.parsing.subword_encoder import SubwordEncoder
    from structattn.parsing.text_files import read_raw_documents
    from structattn.parsing.tree_parser import TreeParser, build_parser
    from structattn.parsing.treebank_parser import TreebankParser
    from structattn.parsing.treecrf import TreeCRF
    from structattn.parsing.word_encoder import WordEncoder

__all__ = [
    "BiaffineScorer",
    "Parser",
    "SubwordEncoder",
    "TreeCRF",
    "TreeParser",
    "TreebankParser",
    "WordEncoder",
    "build_parser",
    "load_parser",
    "parse",
    "read_raw_documents",
    "score_attachment",
    "split_sentences",
    "to_pandas",
    "to_spacy",
]

load_lazily(__name__)
