"""spaCy and Stanza as parsers, and parsed sentences as spaCy's documents and as data frames.

A parser of another library keeps its sentence boundaries, words, tags and labels; most of spaCy's own models use the
labels of ClearNLP, not of UD (https://spacy.io/api/dependencyparser). For CoNLL-U see ``syntax.write_conllu``.

Reference: Qi et al. (2020), Stanza: a Python natural language processing toolkit for many human languages.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from structattn.errors import ConfigError, require
from structattn.syntax import DependencyTree, Sentence
from structattn.syntax.conllu import conllu_rows
from structattn.syntax.word_alignment import align_words

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")


class SpacyParser:
    """A spaCy pipeline with a dependency parser, which may not split a list of words (extra ``spacy``).

    The label of the root, ``ROOT`` in spaCy, becomes ``root`` as in UD.
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
        """Load an installed model, or one from a folder."""
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
        lists = [list(words) for words in sentences if words]
        docs = [doc(self.pipeline.vocab, words=words, sent_starts=_starts(words)) for words in lists]
        parsed = self.pipeline.pipe(docs)
        return [_spacy_sentence(list(next(parsed)) if words else [], {}) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every text; tokens that are only space are left out."""
        parsed = []
        for doc in self.pipeline.pipe(texts):
            parts = [list(part) for part in doc.sents]
            words = ([token for token in part if not token.is_space] for part in parts)
            pairs = zip(words, parts, strict=True)
            parsed.append([_spacy_sentence(tokens, {"text": _spacy_text(part)}) for tokens, part in pairs if tokens])
        return parsed


def _starts(words: Sequence[str]) -> list[bool]:
    return [True] + [False] * (len(words) - 1)


def _spacy_sentence(tokens: Sequence[Any], metadata: Mapping[str, str]) -> Sentence:
    ids = {token.i: number for number, token in enumerate(tokens, start=1)}
    heads = [0 if token.head.i == token.i else ids[_nearest_head(token, ids)] for token in tokens]
    labels = ["root" if head == 0 else token.dep_ for token, head in zip(tokens, heads, strict=True)]
    words = [token.text for token in tokens]
    return Sentence(words, [token.pos_ or "_" for token in tokens], DependencyTree(heads, labels), metadata=metadata)


def _nearest_head(token: Any, ids: Mapping[int, int]) -> int:
    """The nearest ancestor that is a word: the spaces left out have heads and, now and then, dependents."""
    head = token.head
    while head.i not in ids:
        head = head.head
    return int(head.i)


def _spacy_text(tokens: Sequence[Any]) -> str:
    return _on_one_line("".join(token.text_with_ws for token in tokens))


class StanzaParser:
    """Two Stanza pipelines of one language, one for raw text and one for words (extra ``stanza``).

    ``make(words=...)`` makes a pipeline when it is first needed, from models on this machine; nothing is downloaded.
    """

    def __init__(self, language: str, *, make: Callable[..., Any], version: str) -> None:
        self.name = f"stanza:{language}"
        self.version = version
        self._make = make
        self._pipelines: dict[bool, Any] = {}

    @classmethod
    def from_language(cls, language: str) -> "StanzaParser":
        """Load the models of a language, given by Stanza's code."""
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
        lists = [list(words) for words in sentences if words]
        parsed = iter(self._pipeline(words=True)(lists).sentences if lists else ())
        return [_stanza_sentence(next(parsed).words if words else (), {}) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every text."""
        pipeline = self._pipeline(words=False)
        # Stanza's own batching joins texts by blank lines; one call per text keeps them apart.
        docs = (pipeline(text) if text.strip() else None for text in texts)
        return [
            [
                _stanza_sentence(sentence.words, {"text": _on_one_line(sentence.text)})
                for sentence in (doc.sentences if doc else ())
            ]
            for doc in docs
        ]

    def _pipeline(self, *, words: bool) -> Any:
        if words not in self._pipelines:
            self._pipelines[words] = self._make(words=words)
        return self._pipelines[words]


def _stanza_sentence(words: Sequence[Any], metadata: Mapping[str, str]) -> Sentence:
    tree = DependencyTree([word.head for word in words], [word.deprel for word in words])
    return Sentence([word.text for word in words], [word.upos or "_" for word in words], tree, metadata=metadata)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def to_spacy(sentences: Iterable[Sentence], vocab: Any = None) -> Any:
    """Sentences as one spaCy ``Doc``: words, tags as ``pos_``, heads, labels as ``dep_``, and where sentences start.

    spaCy's pipelines, matchers and displaCy accept it. As in spaCy, a root is its own head and has the label ``ROOT``.
    Spaces between words are those of the sentence's text, if the text is known and has the same words: several between
    two words become one, there is one between two sentences, and none after the last word.

    Args:
        sentences: parsed sentences.
        vocab: a pipeline's ``nlp.vocab``; a new one if ``None``.

    Returns:
        The ``spacy.tokens.Doc``.

    Raises:
        ValueError: if a sentence has no dependency tree.
        MissingExtra: if spaCy is not installed.

    Example:
        >>> import structattn as sa
        >>> doc = to_spacy(sa.parse("Kids wash. Dogs bark."))  # doctest: +SKIP
        >>> [sentence.text for sentence in doc.sents]  # doctest: +SKIP
        ['Kids wash.', 'Dogs bark.']
    """
    words: list[str] = []
    heads: list[int] = []
    labels: list[str] = []
    tags: list[str] = []
    spaces: list[bool] = []
    starts: list[bool] = []
    for sentence in sentences:
        tree = sentence.dependency
        if tree is None:
            raise ValueError(f"expected sentences with dependency trees, {' '.join(sentence.words[:6])!r} has none")
        first = len(words)
        heads += [first + (head - 1 if head else index) for index, head in enumerate(tree.heads)]
        names = tree.labels or ("dep",) * len(tree)
        labels += ["ROOT" if head == 0 else label for head, label in zip(tree.heads, names, strict=True)]
        tags += ["" if tag == "_" else tag for tag in sentence.tags or ("",) * len(sentence)]
        words += sentence.words
        spaces += _spaces(sentence)
        starts += _starts(sentence.words) if sentence.words else []
    spaces[-1:] = [False] * bool(spaces)  # nothing follows the last word of the text
    doc = require("spacy.tokens", "spacy").Doc
    vocab = require("spacy.vocab", "spacy").Vocab() if vocab is None else vocab
    return doc(vocab, words=words, spaces=spaces, heads=heads, deps=labels, pos=tags, sent_starts=starts)


def _spaces(sentence: Sentence) -> list[bool]:
    """Whether a space follows each word; also after the last one, as another sentence may follow."""
    try:
        spans = align_words(sentence.words, sentence.text)
    except ValueError:  # the text has other words
        return [True] * len(sentence)
    return [end < start for (_, end), (start, _) in pairwise(spans)] + [True] * bool(sentence.words)


def to_pandas(sentences: Iterable[Sentence]) -> Any:
    """Sentences as a pandas ``DataFrame`` with a row for each word: ``sentence`` and the first columns of CoNLL-U.

    Args:
        sentences: sentences with or without trees.

    Returns:
        The data frame. ``sentence`` is ``sent_id``, or else the sentence's number from 1. Ids and heads are numbers;
        missing values are ``None``.

    Raises:
        MissingExtra: if pandas is not installed.

    Example:
        >>> import structattn as sa
        >>> to_pandas(sa.parse("Kids wash."))[["sentence", "form", "head"]].values.tolist()
        [['1-1', 'Kids', 2], ['1-1', 'wash', 0], ['1-1', '.', 2]]
    """
    rows = []
    for number, sentence in enumerate(sentences, start=1):
        name = sentence.metadata.get("sent_id", str(number))
        for columns in conllu_rows(sentence):
            if columns[0].isdecimal():
                values: list[Any] = [None if value == "_" else value for value in columns[: len(_COLUMNS)]]
                values[0], values[1] = int(columns[0]), columns[1]
                values[6] = None if values[6] is None else int(values[6])
                rows.append((name, *values))
    return require("pandas", "pandas").DataFrame(rows, columns=["sentence", *_COLUMNS])
