"""Raw text to sentences with trees: parsers, parsing many texts through a cache, and a biaffine parser."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.parsing.batches import parse_in_batches, side_by_side
    from structattn.parsing.biaffine import BiaffineScorer, ParserScores
    from structattn.parsing.cache import ParseCache
    from structattn.parsing.conversion import to_pandas, to_spacy
    from structattn.parsing.documents import Document, documents_of, sentences_of_examples
    from structattn.parsing.evaluation import Attachment, attachment
    from structattn.parsing.files import TreebankParser, treebank_of_brackets
    from structattn.parsing.missing import MissingTrees, parse_cache
    from structattn.parsing.names import is_ours, parser_of
    from structattn.parsing.parser import Parser
    from structattn.parsing.run import parse, parse_each, with_phrases
    from structattn.parsing.saved import build_parser, load_parser
    from structattn.parsing.splitting import split_sentences
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
    "attachment",
    "build_parser",
    "documents_of",
    "is_ours",
    "load_parser",
    "parse",
    "parse_cache",
    "parse_each",
    "parse_in_batches",
    "parser_of",
    "sentences_of_examples",
    "side_by_side",
    "split_sentences",
    "to_pandas",
    "to_spacy",
    "treebank_of_brackets",
    "with_phrases",
]

load_lazily(__name__)
