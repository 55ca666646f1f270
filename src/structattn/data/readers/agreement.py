"""Subject-verb agreement (Linzen et al. 2016): which number will the verb have, given the words before it?

The files come in pairs as Gulordava et al. (2018) publish them: ``NAME.text`` has one sentence per line, ``NAME.gold``
the position of the verb, its right form, its wrong form, and the number of attractors.
"""

import os
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from structattn.data.example import Example
from structattn.data.readers.fields import Location
from structattn.errors import ParseError, shown
from structattn.files.item_faults import answer_each
from structattn.files.text import Source, check_lines, open_bytes, read_lines
from structattn.syntax.sentence import Sentence

_SINGULAR = frozenset(("is", "was", "has", "does", "'s"))
_PLURAL = frozenset(("are", "were", "have", "do", "'re", "'ve"))
_END = "<eos>"
_COUNT = re.compile(r"[0-9]{1,9}")


def read_agreement(path: Source) -> Iterator[Example]:
    """The words before a verb, labelled ``"singular"`` or ``"plural"``; ``path`` is either file of the pair.

    The number of the verb is inferred from its two forms; where both are the same word, it counts as the plural.
    """
    pair = find_pair(path)
    if pair is None:
        # Open the file, so that the error for a missing file says so.
        with open_bytes(path):
            raise ParseError("expected a pair of files NAME.text and NAME.gold (.gz too), got only one", file=path)
    text_path, gold_path = pair

    def make_example(item: tuple[int, tuple[int, str], tuple[int, str]]) -> Example:
        count, text, gold = item
        check_lines(text_path, text)
        check_lines(gold_path, gold)
        words = [word for word in text[1].split(" ") if word and word != _END]
        location = Location(gold_path, gold[0])
        fields = gold[1].split("\t")
        if len(fields) != 4 or not all(_COUNT.fullmatch(fields[k]) for k in (0, 3)):
            got = shown(gold[1], width=40)
            raise location.error(f"expected position, right form, wrong form and attractors, got {got}")
        position, right, wrong = int(fields[0]), fields[1].lower(), fields[2].lower()
        if position >= len(words) or words[position].lower() != right:
            came = shown(words[position]) if position < len(words) else f"{len(words)} words"
            raise location.error(f"expected {shown(fields[1])} at position {position} of the sentence, got {came}")
        metadata = {"attractors": str(int(fields[3])), "verb": right, "wrong_verb": wrong}
        label = "singular" if _is_singular(right, wrong) else "plural"
        return Example((Sentence(words[:position], metadata=metadata),), label, id=str(count), line=gold[0])

    return answer_each(make_example, _align(text_path, gold_path))


def _align(text_path: Path, gold_path: Path) -> Iterator[tuple[int, tuple[int, str], tuple[int, str]]]:
    """Each line of texts and that of its answer, with their numbers, and how many come before them."""
    lines = (read_lines(path, escape=True) for path in (text_path, gold_path))
    for count, (text, gold) in enumerate(zip_longest(*lines)):
        if text is None or gold is None:
            short, long = (text_path, gold_path) if text is None else (gold_path, text_path)
            raise ParseError(f"expected as many lines as {long.name}, got {count}", file=short)
        yield count, text, gold


def find_pair(path: Source) -> tuple[Path, Path] | None:
    """The text and the gold file that belong together, if ``path`` is one of them and the other exists.

    ``None`` for a stream, which has no name.
    """
    if not isinstance(path, str | os.PathLike):
        return None
    file = Path(path)
    stem = file.name.removesuffix(".gz")
    for ending, partner_ending in ((".text", ".gold"), (".gold", ".text")):
        if stem.endswith(ending):
            name = stem.removesuffix(ending) + partner_ending
            for partner in (file.with_name(name + ".gz"), file.with_name(name)):
                if partner.is_file():
                    return (file, partner) if ending == ".text" else (partner, file)
    return None


def _is_singular(right: str, wrong: str) -> bool:
    """English marks the singular of a verb in the present tense with an ending, so the singular is the longer form."""
    if right in _SINGULAR or wrong in _PLURAL:
        return True
    if right in _PLURAL or wrong in _SINGULAR:
        return False
    return len(right) > len(wrong)
