"""Other parsers behind the same two methods: fakes that keep to their interfaces, and the real spaCy where it is."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

import structattn as sa
from structattn.errors import ConfigError
from structattn.parsing import Parser, to_spacy
from structattn.parsing.bridges import SpacyParser, StanzaParser
from structattn.syntax import DependencyTree, Sentence

# spaCy: tokens with heads that are tokens, sentences that are lists of them.


@dataclass(eq=False)
class Token:
    i: int
    text: str
    whitespace: str = " "
    dep_: str = "dep"
    pos_: str = "X"
    head: Any = None

    @property
    def is_space(self) -> bool:
        return self.text.isspace()

    @property
    def text_with_ws(self) -> str:
        return self.text + self.whitespace


class Doc:
    def __init__(self, vocab: object, words: list[str], sent_starts: list[bool]) -> None:
        self.words, self.sent_starts = words, sent_starts

    def tokens(self) -> list[Token]:
        tokens = [Token(place, word) for place, word in enumerate(self.words)]
        for place, token in enumerate(tokens):
            # Each word hangs from the next; a sentence's last one from itself, which is spaCy's root.
            last = place + 1 == len(tokens) or self.sent_starts[place + 1]
            token.head = token if last else tokens[place + 1]
            token.dep_ = "ROOT" if last else "dep"
        return tokens

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens())

    @property
    def sents(self) -> list[list[Token]]:
        parts: list[list[Token]] = []
        for token, starts in zip(self.tokens(), self.sent_starts, strict=True):
            if starts:
                parts.append([])
            parts[-1].append(token)
        return parts


@dataclass
class Pipeline:
    pipe_names: list[str] = field(default_factory=lambda: ["tagger", "parser"])
    meta: dict[str, str] = field(default_factory=lambda: {"lang": "en", "name": "toy", "version": "1.0"})
    vocab: object = None

    def pipe(self, texts: Iterable[str | Doc]) -> Iterator[Doc]:
        for text in texts:
            if isinstance(text, Doc):
                yield text
            else:
                words = text.replace("\n", " \n ").split(" ")
                words = [word for word in words if word]
                starts = [place == 0 or words[place - 1] == "." for place in range(len(words))]
                yield Doc(self.vocab, words, starts)


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    def load(model: str, exclude: list[str]) -> Pipeline:
        if model != "toy":
            raise OSError(f"[E050] Can't find model '{model}'")
        return Pipeline()

    fake = SimpleNamespace(__version__="3.9", Doc=Doc, load=load)
    monkeypatch.setattr("structattn.parsing.bridges.require", lambda module, extra: fake)
    return fake


def test_spacy_sentences_come_as_ours(spacy: SimpleNamespace) -> None:
    parser = SpacyParser.from_model("toy")
    assert isinstance(parser, Parser)
    assert (parser.name, parser.version) == ("spacy:en_toy", "1.0 (spacy 3.9)")
    ((first, second), none) = parser.parse_texts(["kids \n wash . dogs bark", ""])
    assert (first.words, second.words, none) == (("kids", "wash", "."), ("dogs", "bark"), [])
    assert first.dependency.heads == (2, 3, 0), "the space between is passed over"
    assert first.dependency.labels == ("dep", "dep", "root")
    assert first.metadata["text"] == "kids wash ."
    assert second.dependency.heads == (2, 0)


def test_spacy_keeps_given_words_in_one_sentence(spacy: SimpleNamespace) -> None:
    found = SpacyParser.from_model("toy").parse_words([["a", ".", "b"], [], ["c"]])
    assert [one.words for one in found] == [("a", ".", "b"), (), ("c",)]
    assert [one.dependency.heads for one in found] == [(2, 3, 0), (), (0,)]


def test_spacy_models_that_cannot_parse_are_refused(spacy: SimpleNamespace) -> None:
    with pytest.raises(ConfigError, match="spacy:none: no such model; run: python -m spacy download none"):
        SpacyParser.from_model("none")
    with pytest.raises(ConfigError, match="expected a pipeline with a dependency parser, this one has tagger"):
        SpacyParser(Pipeline(["tagger"]))


@pytest.mark.skipif(find_spec("spacy") is None, reason="spaCy is not installed")
def test_the_real_spacy_parses() -> None:
    import spacy

    pipeline = spacy.blank("en")
    parser = pipeline.add_pipe("parser")
    for label in ("nsubj", "ROOT", "punct"):
        parser.add_label(label)
    pipeline.initialize()
    found = SpacyParser(pipeline)
    (kids,) = found.parse_words([["Kids", "wash", ".", "Dogs"]])
    assert kids.words == ("Kids", "wash", ".", "Dogs")
    assert len(kids.dependency.roots) == 1
    texts = found.parse_texts(["Kids wash.\n\n Dogs bark.", ""])
    assert [word for one in texts[0] for word in one.words] == ["Kids", "wash", ".", "Dogs", "bark", "."]
    assert texts[1] == []

    given = [
        Sentence(["Kids", "wash", "."], ["NOUN", "_", "PUNCT"], DependencyTree([2, 0, 2], ["nsubj", "root", "punct"])),
        Sentence(["Dogs", "bark"], dependency=DependencyTree([2, 0], ["nsubj", "root"])),
    ]
    document = to_spacy([dataclasses.replace(given[0], metadata={"text": "Kids wash."}), given[1]], pipeline.vocab)
    assert [one.text for one in document.sents] == ["Kids wash.", "Dogs bark"]
    assert document.text == "Kids wash. Dogs bark"
    assert to_spacy([], pipeline.vocab).text == ""
    assert [(word.dep_, word.head.text, word.pos_) for word in document] == [
        ("nsubj", "wash", "NOUN"),
        ("ROOT", "wash", ""),
        ("punct", "wash", "PUNCT"),
        ("nsubj", "bark", ""),
        ("ROOT", "bark", ""),
    ]


# Stanza: documents of sentences of words that know the number of their head.


@dataclass
class Stanza:
    words: bool

    def __call__(self, given: str | list[list[str]]) -> SimpleNamespace:
        parts = [part.split() for part in given.split(".") if part.strip()] if isinstance(given, str) else given
        assert self.words is not isinstance(given, str), "each pipeline gets what it was made for"
        sentences = [
            SimpleNamespace(
                text=" ".join(part),
                words=[
                    SimpleNamespace(text=word, upos="X", head=place, deprel="dep" if place else "root")
                    for place, word in enumerate(part)
                ],
            )
            for part in parts
        ]
        return SimpleNamespace(sentences=sentences)


def test_stanza_sentences_come_as_ours() -> None:
    made: list[bool] = []

    def make(*, words: bool) -> Stanza:
        made.append(words)
        return Stanza(words)

    parser = StanzaParser("xx", make=make, version="1.9")
    assert isinstance(parser, Parser)
    assert (parser.name, parser.version) == ("stanza:xx", "1.9")
    ((first, second), none) = parser.parse_texts(["kids wash. dogs bark loudly", " "])
    assert (first.words, second.dependency.heads, none) == (("kids", "wash"), (0, 1, 2), [])
    assert second.metadata["text"] == "dogs bark loudly"
    words = parser.parse_words([["a", "b"], [], ["c"]])
    assert [one.words for one in words] == [("a", "b"), (), ("c",)]
    assert words[0].dependency.labels == ("root", "dep")
    assert parser.parse_words([[]])[0].words == ()
    assert made == [False, True], "each pipeline is loaded once"


def test_stanza_models_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def pipeline(*arguments: object, **options: object) -> None:
        raise FileNotFoundError("resources.json")

    fake = SimpleNamespace(__version__="1.9", Pipeline=pipeline)
    monkeypatch.setattr("structattn.parsing.bridges.require", lambda module, extra: fake)
    with pytest.raises(ConfigError, match=r'stanza:xx: cannot load its models; run: .*stanza.download\("xx"\)'):
        StanzaParser.from_language("xx")


def test_parse_takes_a_name_a_parser_or_a_pipeline(spacy: SimpleNamespace) -> None:
    (first,) = sa.parse("kids wash .", Pipeline())
    assert first.metadata["parser"] == "spacy:en_toy 1.0 (spacy 3.9)"
    assert sa.parse("Kids wash.", None) == sa.parse("Kids wash.")
    for wrong in (3, object(), ["en"]):
        with pytest.raises(ConfigError, match=r"parser: expected a name such as 'en', a parser, or a pipeline"):
            sa.parse("Kids wash.", wrong)


@pytest.mark.parametrize("text", [3, None, 0.5])
def test_what_is_no_text_is_named(text: Any) -> None:
    with pytest.raises(TypeError, match=rf"expected a text, .* got {type(text).__name__}"):
        sa.parse(["Kids wash.", text])
