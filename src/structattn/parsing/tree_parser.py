"""This library's parser, as ``structattn parser train`` saves it: raw text to sentences with trees."""

import os
from collections.abc import Sequence

import structattn
from structattn.functional import one_thread
from structattn.options.hardware import Hardware
from structattn.parsing.saved import fingerprint, read_parser
from structattn.parsing.splitting import split_sentences
from structattn.parsing.treecrf import TreeCRF
from structattn.syntax import Sentence


class TreeParser:
    """This library's parser, from a folder; raw text is split by rules (``split_sentences``, ``split_words``).

    Args:
        model: the parser.
        version: distinguishes it from other parsers.
        hardware: where it runs, and the precision; the CPU if ``None``.
        name: name of the parser.

    Example:
        >>> from structattn.parsing.saved import build_parser
        >>> from structattn.syntax import DependencyTree
        >>> gold = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))
        >>> parser = TreeParser(build_parser([gold]), version="untrained")
        >>> [[sentence.words for sentence in text] for text in parser.parse_texts(["Kids wash. They don't."])]
        [[('Kids', 'wash', '.'), ('They', 'do', "n't", '.')]]
    """

    def __init__(
        self, model: TreeCRF, *, version: str, hardware: Hardware | None = None, name: str = "structattn"
    ) -> None:
        self.hardware = Hardware("cpu") if hardware is None else hardware
        self.model = self.hardware.move(model.eval())
        self.name = name
        # Different rounding may give different trees, which a cache must not mix.
        numerics = (self.hardware.torch_device().type, self.hardware.mixed_precision)
        self.version = "+".join([version, *(one for one in numerics if one not in ("cpu", "no"))])

    @classmethod
    def from_folder(
        cls, folder: str | os.PathLike[str], hardware: Hardware | None = None, *, name: str = "structattn"
    ) -> "TreeParser":
        """Load a parser that ``structattn parser train`` saved.

        Args:
            folder: folder of the run or the parser.
            hardware: where it runs, and the precision; the CPU if ``None``.
            name: name of the parser.

        Raises:
            ParseError: if a file is missing or damaged; the message names it.
            ConfigError: if the folder contains another kind of model, or was written by another version; if there is no
                such device.
        """
        version = f"{structattn.__version__}+{fingerprint(folder)}"
        return cls(read_parser(folder), version=version, hardware=hardware, name=name)

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """Trees and tags for lists of words; see ``TreeCRF.parse`` for very long ones."""
        return self._parsed([Sentence(words) for words in sentences])

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """Split raw texts into sentences and words, and parse them."""
        split = [[Sentence.from_text(text) for text in split_sentences(whole)] for whole in texts]
        parsed = iter(self._parsed([sentence for sentences in split for sentence in sentences]))
        return [[next(parsed) for _ in sentences] for sentences in split]

    def _parsed(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        # Rounding depends on the number of threads. With one thread, several processes give the same results as one.
        with one_thread(), self.hardware.autocast():
            return self.model.parse(sentences)
