"""Stanza's pipelines as parsers (extra ``stanza``). Their sentence boundaries, words, tags and labels are kept.

Qi et al. (2020), Stanza: a Python natural language processing toolkit for many human languages.
"""

from collections.abc import Callable, Sequence
from typing import Any

from structattn.errors import ConfigError, require
from structattn.syntax import DependencyTree, Sentence


class StanzaParser:
    """Two Stanza pipelines of one language: one for raw text, one for words.

    A pipeline is loaded when it is first needed, from models that are on this machine; nothing is downloaded.

    Args:
        language: Stanza's code of the language.
        make: makes a pipeline; called with ``words=True`` for the one that takes words.
        version: version of Stanza.
    """

    def __init__(self, language: str, *, make: Callable[..., Any], version: str) -> None:
        self.name = f"stanza:{language}"
        self.version = version
        self._make = make
        self._pipelines: dict[bool, Any] = {}

    @classmethod
    def from_language(cls, language: str) -> "StanzaParser":
        """Load the models of a language.

        Raises:
            MissingExtra: if Stanza is not installed.
            ConfigError: if the models of the language are not on this machine.
        """
        stanza = require("stanza", "stanza")

        def make(*, words: bool) -> Any:
            options = {"verbose": False, "download_method": None, "tokenize_pretokenized": words}
            first = "tokenize" if words else "tokenize,mwt"
            try:
                return stanza.Pipeline(language, processors=f"{first},pos,lemma,depparse", **options)
            except Exception as error:  # Stanza raises many kinds of errors for missing models
                raise ConfigError(
                    f"stanza:{language}: cannot load its models; run: python -c "
                    f"'import stanza; stanza.download(\"{language}\")' ({error})"
                ) from error

        parser = cls(language, make=make, version=str(stanza.__version__))
        parser._pipeline(words=False)
        return parser

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """One sentence for every list of words."""
        some = [list(words) for words in sentences if words]
        parsed = iter(self._pipeline(words=True)(some).sentences if some else ())
        return [_sentence(next(parsed).words, {}) if words else _sentence((), {}) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every text."""
        pipeline = self._pipeline(words=False)
        # Stanza's own batching joins texts by blank lines; one call per text keeps them apart.
        docs = (pipeline(text) if text.strip() else None for text in texts)
        return [
            [_sentence(one.words, {"text": _normal(one.text)}) for one in (doc.sentences if doc else ())]
            for doc in docs
        ]

    def _pipeline(self, *, words: bool) -> Any:
        if words not in self._pipelines:
            self._pipelines[words] = self._make(words=words)
        return self._pipelines[words]


def _sentence(words: Sequence[Any], metadata: dict[str, str]) -> Sentence:
    tree = DependencyTree([word.head for word in words], [word.deprel for word in words])
    return Sentence([word.text for word in words], [word.upos or "_" for word in words], tree, metadata=metadata)


def _normal(text: str) -> str:
    return " ".join(text.split())
