"""Sentences and their trees in plain Python, and their file formats; no torch here."""

from structattn.syntax.brackets import read_brackets, write_brackets
from structattn.syntax.conllu import format_conllu, read_conllu, write_conllu
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence
from structattn.syntax.tokenisation import split_words
from structattn.syntax.word_alignment import align_words

__all__ = [
    "ConstituencyTree",
    "DependencyTree",
    "Sentence",
    "align_words",
    "format_conllu",
    "read_brackets",
    "read_conllu",
    "split_words",
    "write_brackets",
    "write_conllu",
]
