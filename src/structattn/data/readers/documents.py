"""Documents of several sentences, each document one example: a forest, and one label.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", encode a review in this way: as the
trees of its sentences, side by side.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from structattn.data.example import Example
from structattn.data.joining import join_sentences
from structattn.data.readers.fields import Place, check_target, label_of
from structattn.errors import ParseError
from structattn.files.text import MAX_LINE, MAX_WORDS, Source
from structattn.syntax import Sentence, read_conllu

# Metadata of a sentence, rather than of its document.
_OF_A_SENTENCE = ("sent_id", "text")


def read_documents(path: Source, *, target: str = "class") -> Iterator[Example]:
    r"""CoNLL-U in which each ``# newdoc`` starts an example, as ``structattn parse`` writes it.

    The label is the comment ``# label = ...`` of the first sentence, the id that of ``# newdoc id = ...``. The words
    and trees of the sentences are joined side by side; ``PhraseTrees`` puts a root over them.

    Raises:
        ParseError: as ``read_conllu``; if a sentence comes before any ``# newdoc``; for a label that does not fit
            ``target``, or a document of more than ``MAX_WORDS`` words or ``MAX_LINE`` characters.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "reviews.conllu"
        >>> row = "1\tFine\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
        >>> _ = path.write_text(f"# newdoc id = a\n# label = good\n{row}{row}")
        >>> (example,) = read_documents(path)
        >>> example.sentences[0].words, example.sentences[0].dependency.heads, example.label, example.id
        (('Fine', 'Fine'), (0, 0), 'good', 'a')
    """
    check_target(target)
    for count, sentences in enumerate(_grouped(path)):
        metadata = {key: value for key, value in sentences[0].metadata.items() if key not in _OF_A_SENTENCE}
        name = metadata.get("newdoc id") or str(count)
        text = metadata.get("label")
        try:
            label = None if text is None else label_of(text, Place(path, 0), target=target)
        except ParseError as error:
            raise ParseError(f"document {name}: {error.message}", file=path) from None
        document = dataclasses.replace(join_sentences(sentences), metadata=metadata)
        yield Example((document,), label, id=name)


def _grouped(path: Source) -> Iterator[list[Sentence]]:
    for number, sentences in itertools.groupby(_numbered(path), key=lambda pair: pair[0]):
        if number == 0:
            raise ParseError("expected a comment '# newdoc' at the first sentence, got none", file=path)
        document = []
        words = characters = 0
        for _, sentence in sentences:
            document.append(sentence)
            words += max(1, len(sentence))
            kept = itertools.chain(sentence.words, sentence.metadata.values(), sentence.comments, *sentence.rows)
            characters += sum(map(len, kept))
            if words > MAX_WORDS or characters > MAX_LINE:
                limits = f"{MAX_WORDS:,} words and {MAX_LINE:,} characters"
                raise ParseError(f"expected documents of at most {limits}, document {number} has more", file=path)
        yield document


def _numbered(path: Source) -> Iterator[tuple[int, Sentence]]:
    """Each sentence with the number of its document, counted from 1."""
    number = 0
    for sentence in read_conllu(path):
        number += not {"newdoc", "newdoc id"}.isdisjoint(sentence.metadata)
        yield number, sentence
