"""spaCy's pipelines as parsers (extra ``spacy``). Their sentence boundaries, words, tags and labels are kept.

https://spacy.io/api/dependencyparser; most of spaCy's own models use the labels of ClearNLP, not of UD.
"""

from collections.abc import Sequence
from typing import Any

from structattn.errors import ConfigError, require
from structattn.syntax import DependencyTree, Sentence


class SpacyParser:
    """A spaCy pipeline with a dependency parser.

    A list of words is one sentence: the pipeline may not split it. The label of the root, ``ROOT`` in spaCy, becomes
    ``root`` as in UD.

    Args:
        pipeline: a loaded pipeline (``spacy.load``).

    Raises:
        ConfigError: if it has no parser.
    """

    def __init__(self, pipeline: Any) -> None:
        meta = pipeline.meta
        self.pipeline = pipeline
        self.name = f"spacy:{meta['lang']}_{meta['name']}"
        self.version = f"{meta['version']} (spacy {require('spacy', 'spacy').__version__})"
        if "parser" not in pipeline.pipe_names:
            parts = ", ".join(pipeline.pipe_names) or "nothing"
            raise ConfigError(f"{self.name}: expected a pipeline with a dependency parser, this one has {parts}")

    @classmethod
    def from_model(cls, model: str) -> "SpacyParser":
        """Load an installed model, or one from a folder.

        Raises:
            MissingExtra: if spaCy is not installed.
            ConfigError: if there is no such model, or it has no parser.
        """
        spacy = require("spacy", "spacy")
        try:
            return cls(spacy.load(model, exclude=["ner", "lemmatizer", "textcat"]))
        except OSError as error:
            raise ConfigError(
                f"spacy:{model}: no such model; run: python -m spacy download {model} ({error})"
            ) from None

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """One sentence for every list of words."""
        doc = require("spacy.tokens", "spacy").Doc
        some = [list(words) for words in sentences if words]
        starts = ([True] + [False] * (len(words) - 1) for words in some)
        docs = [
            doc(self.pipeline.vocab, words=words, sent_starts=start) for words, start in zip(some, starts, strict=True)
        ]
        parsed = self.pipeline.pipe(docs)
        return [_sentence(list(next(parsed)), {}) if words else _sentence([], {}) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every text; tokens that are only space are left out."""
        found = []
        for doc in self.pipeline.pipe(texts):
            parts = [list(part) for part in doc.sents]
            words = ([token for token in part if not token.is_space] for part in parts)
            pairs = zip(words, parts, strict=True)
            found.append([_sentence(tokens, {"text": _text(part)}) for tokens, part in pairs if tokens])
        return found


def _sentence(tokens: Sequence[Any], metadata: dict[str, str]) -> Sentence:
    place = {token.i: number for number, token in enumerate(tokens, start=1)}
    heads = [0 if token.head.i == token.i else place[_head(token, place)] for token in tokens]
    labels = ["root" if head == 0 else token.dep_ for token, head in zip(tokens, heads, strict=True)]
    words = [token.text for token in tokens]
    return Sentence(words, [token.pos_ or "_" for token in tokens], DependencyTree(heads, labels), metadata=metadata)


def _head(token: Any, place: dict[int, int]) -> int:
    """The nearest ancestor that is kept: the spaces left out have heads and, now and then, dependents."""
    head = token.head
    while head.i not in place:
        head = head.head
    return int(head.i)


def _text(tokens: Sequence[Any]) -> str:
    return " ".join("".join(token.text_with_ws for token in tokens).split())
