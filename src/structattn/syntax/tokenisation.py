"""Splitting raw text into words as treebanks do, for sentences that come without a tokenisation.

The conventions are those of the Penn Treebank (Marcus et al. 1993): punctuation stands alone and clitics are split off
(``do n't``, ``John 's``). The time is linear in the length of the text.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

_ABBREVIATION = re.compile(
    r"(?:mrs?|ms|dr|prof|st|jr|sr|inc|co|corp|ltd|vs|etc|e\.g|i\.e|a\.m|p\.m|cf|jan|feb|aug|sept|oct|nov|dec"
    r"|gen|gov|sen|rep|rev|col|capt|lt|sgt)\.",
    re.IGNORECASE,
)
_CLITIC = re.compile(r"(?<=\w)(?:n['’]t|['’](?:s|m|d|ll|re|ve))$|(?<=^can)not$", re.IGNORECASE)
_LONGEST_CLITIC = 3
_USUAL_LENGTH = 20
_INITIAL = re.compile(r"[^\W\d_]\.")
# A letter is whatever is neither space nor punctuation: unlike \w this keeps combining marks inside their word.
_LETTER = r"[^\s!-/:-@\[-^`{-~…–—“”‘’«»„¡¿€£¥©®™°·、。，！？；：（）「」]"
_TOKEN = re.compile(
    rf"""
    (?<![\w.]) (?: {_ABBREVIATION.pattern} )                # Mr.
  | \.{{2,}} | -{{2,}} | `` | ''                            # ellipsis, dash, Penn quotes
  | -[LR][RCS]B-                                            # escaped brackets
  | (?:https?://|www\.)[^\s<>()"]*[^\s<>()",.;:!?'’]        # addresses
  | {_LETTER}[\w.+-]{{0,63}}@[\w-]+(?:\.[\w-]+)+         # RFC 5321: at most 64 characters before the @
  | \d+(?:[.,:/]\d+)+                                       # numbers, times, dates, fractions
  | (?:[^\W\d_]\.){{2,}}                                    # U.S.
  | n['’]t$ | ['’](?:s|m|d|t|ll|re|ve)$                     # clitics that stand alone already
  | {_LETTER}+(?:\\?[.@/*&-]{_LETTER}+|['’]{_LETTER}+)*     # words, with what may stand inside one
  | [:;=][-']?[)(dDpP]+$                                    # faces
  | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> list[str]:
    """Split the text of one sentence into words: punctuation stands alone, clitics are split off.

    Splitting text that is already split changes nothing: the words of ``" ".join(split_words(text))`` are
    ``split_words(text)``.

    Args:
        text: raw text of one sentence.

    Returns:
        The words, none of them empty.

    Example:
        >>> split_words("Mr. O'Neill doesn't like John's well-made tea, at $3.50!")
        ['Mr.', "O'Neill", 'does', "n't", 'like', 'John', "'s", 'well-made', 'tea', ',', 'at', '$', '3.50', '!']
    """
    words: list[str] = []
    chunks = text.split()
    for number, chunk in enumerate(chunks, start=1):
        split = _cached_words if len(chunk) <= _USUAL_LENGTH else _words
        words += split(chunk, number == len(chunks))
    return words


def _words(chunk: str, is_last: bool) -> Sequence[str]:
    """The words of a chunk of text between spaces."""
    words: list[str] = []
    pending = [chunk]
    while pending:
        part = pending.pop()
        if len(part) == 1:
            words.append(part)
            continue
        parts = _split_once(part, is_last)
        # Splitting to a fixed point makes the function idempotent.
        if len(parts) == 1:
            words.append(part)
        else:
            pending.extend(reversed(parts))
    return tuple(words)


# Most chunks of a text have occurred before.
_cached_words = lru_cache(1 << 15)(_words)


def _split_once(part: str, is_last: bool) -> Sequence[str]:
    clitics: list[str] = []
    end = len(part)
    while not (_ABBREVIATION.fullmatch(part, 0, end) or (not is_last and _INITIAL.fullmatch(part, 0, end))):
        clitic = _CLITIC.search(part, max(0, end - _LONGEST_CLITIC), end)
        if clitic is None:
            break
        clitics.append(clitic.group())
        end = clitic.start()
    else:
        return (part[:end], *reversed(clitics))
    return (part[:end], *reversed(clitics)) if clitics else tuple(_TOKEN.findall(part))
