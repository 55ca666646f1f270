"""Rule-based splitting: enough for edited English and similar text, and deterministic.

Only this library's parsers without a learnt splitter use it; spaCy and Stanza bring their own.
"""

import re
from collections.abc import Sequence

from structattn.syntax import Sentence, split_words

_BLANK_LINE = re.compile(r"\n\s*\n")
_END = re.compile(r"[.!?…]+")
_CLOSING = "\"'”’»)]}"


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences.

    A sentence ends at a blank line, and after a chunk (a run of characters without spaces) that ends in ``.``, ``!``,
    ``?`` or ``…`` and any closing quotes and brackets, unless the next chunk starts with a lower-case letter or the
    full stop belongs to the word. It does in the abbreviations and initials that ``split_words`` knows (``Mr.``,
    ``e.g.``, ``U.S.``, ``J.``), so the end of a sentence that ends in one of these is missed.

    Args:
        text: any text.

    Returns:
        The sentences, none of them empty, with single spaces inside.

    Example:
        >>> split_sentences('Mr. J. Smith paid $3.50. "Why?" he asked.\\n\\nNo answer')
        ['Mr. J. Smith paid $3.50.', '"Why?" he asked.', 'No answer']
    """
    sentences = []
    for part in _BLANK_LINE.split(text):
        chunks = part.split()
        start = 0
        for index in range(1, len(chunks)):
            if not chunks[index][0].islower() and _ends_a_sentence(chunks[index - 1]):
                sentences.append(" ".join(chunks[start:index]))
                start = index
        if chunks:
            sentences.append(" ".join(chunks[start:]))
    return sentences


def split_by_rules(texts: Sequence[str]) -> list[list[Sentence]]:
    """The sentences of each text, by ``split_sentences`` and ``split_words``."""
    return [[Sentence.from_text(text) for text in split_sentences(whole)] for whole in texts]


def _ends_a_sentence(chunk: str) -> bool:
    bare = chunk.rstrip(_CLOSING)
    if not bare or bare[-1] not in ".!?…":
        return False
    # With a word after it, the last full stop of an abbreviation or an initial stays with it.
    return _END.fullmatch(split_words(f"{bare} x")[-2]) is not None
