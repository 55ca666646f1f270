"""Raw text to sentences with trees: parsers, parsing many texts through a cache, and a biaffine parser."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.parsing.batches import parse_in_batches, side_by_side
    from structattn.parsing.biaffine import BiaffineScorer, ParserScores
    from structattn.parsing.cache import ParseCache
    from structattn.parsing.conversion import to_pandas, to_spacy
    from structattn.parsing.evaluation import Attachment, attachment
    from structattn.parsing.files import TreebankParser
    from structattn.parsing.missing_trees import MissingTrees, locate_cache
    from structattn.parsing.parse_texts import add_phrases, parse, parse_each
    from structattn.parsing.parsers import Document, Parser, is_ours, load_parser
    from structattn.parsing.saved import build_parser, read_parser
    from structattn.parsing.splitting import split_sentences
    from structattn.parsing.text_files import read_documents, read_sentences
    from structattn.parsing.tree_parser import TreeParser
    from structattn.parsing.treecrf import TreeCRF
    from structattn.parsing.words import WordEncoder

__all__ = [
    "Attachment",
    "BiaffineScorer",
    "Document",
    "MissingTrees",
    "ParseCache",
    "Parser",
    "ParserScores",
    "TreeCRF",
    "TreeParser",
    "TreebankParser",
    "WordEncoder",
    "add_phrases",
    "attachment",
    "build_parser",
    "is_ours",
    "load_parser",
    "locate_cache",
    "parse",
    "parse_each",
    "parse_in_batches",
    "read_documents",
    "read_parser",
    "read_sentences",
    "side_by_side",
    "split_sentences",
    "to_pandas",
    "to_spacy",
]

load_lazily(__name__)
