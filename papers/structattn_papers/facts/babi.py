"""bAbI: stories with one fact per line, questions in between, their answers and supporting facts.

An example is a story and a question. A story is one long sentence, and the metadata record where its facts end;
``facts_of`` splits it into facts again.

Reference: Weston et al. (2016), Towards AI-complete question answering: a set of prerequisite toy tasks.
"""

import re
from collections.abc import Iterator

from structattn.data.example import Example
from structattn.data.readers.fields import Location
from structattn.errors import shown
from structattn.files.text import MAX_WORDS, Source, read_lines
from structattn.syntax import Sentence
from structattn.syntax.sentence import TRUNCATED

MAX_FACTS = 5_000
"""Lines of a story."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_LINE = re.compile(r"\s*([0-9]{1,9}) (.*)")


def read_babi(path: Source) -> Iterator[Example]:
    r"""Lines ``number fact``, and ``number question TAB answer TAB numbers of supporting facts``; 1 starts a new story.

    The answer is the label. The supporting facts are in the metadata of the story, counted from 0 among the facts
    before the question, in the order of the file. Full stops and question marks are left out.

    Raises:
        ParseError: with file and line: for a line without a number, a number that does not follow the one before, a
            question without answer, a supporting fact that does not precede it, or a story of more than ``MAX_FACTS``
            lines or ``MAX_WORDS`` words.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "qa1.txt"
        >>> _ = path.write_text("1 Mary moved.\n2 John left.\n3 Who left? \tJohn\t2\n")
        >>> [(example.label, facts_of(example), support_of(example)) for example in read_babi(path)]
        [('John', (('Mary', 'moved'), ('John', 'left')), (1,))]
    """
    facts: list[list[str]] = []
    places: dict[int, int] = {}
    count = previous = size = 0
    for line_number, line in read_lines(path):
        if not line.strip():
            continue
        location = Location(path, line_number)
        found = _LINE.fullmatch(line)
        if found is None:
            raise location.error(f"expected a number, a space and a sentence, got {shown(line, width=40)}")
        number, text = int(found[1]), found[2]
        if number == 1:
            facts, places, size = [], {}, 0
        elif number != previous + 1:
            raise location.error(f"expected line {previous + 1} of the story, or 1 for a new one, got {number}")
        previous = number
        fields = text.split("\t")
        words = _words(fields[0])
        size += len(words)
        if number > MAX_FACTS or size > MAX_WORDS:
            raise location.error(f"expected stories of at most {MAX_FACTS:,} lines and {MAX_WORDS:,} words")
        if len(fields) == 1:
            places[number] = len(facts)
            facts.append(words)
            continue
        answer = fields[1].strip()
        if not answer:
            raise location.error(f"expected an answer after the question, got {shown(line)}")
        support = fields[2].split() if len(fields) > 2 else []
        for name in support:
            if not _NUMBER.fullmatch(name) or int(name) not in places:
                raise location.error(f"expected the numbers of facts before the question, got {shown(name)}")
        story = _story(facts, [places[int(name)] for name in support])
        yield Example((story, Sentence(words)), answer, id=str(count), line=line_number)
        count += 1


def facts_of(example: Example) -> tuple[tuple[str, ...], ...]:
    """The facts of a story in order; a sentence that is not a story is a single fact.

    A truncated story has the facts that its words are of, the last one cut.

    Raises:
        ValueError: if the metadata of the story is not what ``read_babi`` writes.
    """
    story = example.sentences[0]
    if "facts" not in story.metadata:
        return (story.words,) if len(story) else ()
    ends = [int(end) for end in story.metadata["facts"].split()]
    if TRUNCATED in story.metadata:
        ends = [*(end for end in ends if end < len(story)), len(story)]
    if sorted(ends) != ends or (ends[-1] if ends else 0) != len(story):
        raise ValueError(f"expected the ends of facts in a story of {len(story)} words, got {ends}")
    return tuple(story.words[start:end] for start, end in zip([0, *ends], ends, strict=False))


def support_of(example: Example) -> tuple[int, ...]:
    """The supporting facts, counted from 0, in the order of the file; none if the file names none."""
    return tuple(int(number) for number in example.sentences[0].metadata.get("support", "").split())


def _story(facts: list[list[str]], support: list[int]) -> Sentence:
    words = [word for fact in facts for word in fact]
    ends, end = [], 0
    for fact in facts:
        end += len(fact)
        ends.append(end)
    return Sentence(words, metadata={"facts": " ".join(map(str, ends)), "support": " ".join(map(str, support))})


def _words(text: str) -> list[str]:
    return re.sub(r"[.?]\s*$", "", text.strip()).split()
