"""Two parsers on one treebank: scores with significance, each relation, and the trees that differ, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from structattn.pictures import dependency_tree, page, table
from structattn.pictures.html_page import Section, paragraph, side_by_side
from structattn.syntax import Sentence
from structattn.tasks import metric
from structattn.tasks.reports import Report
from structattn.training.significance import compare_answers


def compare_parsers(
    gold: Sequence[Sentence], parsed: Mapping[str, Sequence[Sentence]], *, samples: int = 10_000, seed: int = 0
) -> Report:
    """Scores of two parsers on the words of gold trees, punctuation included, and their differences.

    Args:
        gold: sentences with labelled trees.
        parsed: from the names of the two parsers to the same sentences with their trees.
        samples: number of resamples of sentences: the paired bootstrap gives the interval, exchanging the answers of
            both to half of the sentences the *p*.
        seed: random seed of the resampling.

    Returns:
        ``scores``: the share of words with the right head (UAS), and with the right head and relation (LAS);
        ``by relation`` of the gold tree; ``sentences that differ most``.

    Raises:
        ValueError: unless there are two parsers, with a tree for every sentence.

    Example:
        >>> import structattn as sa
        >>> gold = sa.Sentence(["kids", "wash"], dependency=sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> guess = sa.Sentence(["kids", "wash"], dependency=sa.DependencyTree([2, 0], ["obj", "root"]))
        >>> report = compare_parsers([gold], {"a": [guess], "b": [gold]}, samples=100)
        >>> [(row["score"], row["a"], row["b"]) for row in report.tables["scores"]]
        [('UAS', 1.0, 1.0), ('LAS', 0.5, 1.0)]
    """
    first, second = parsed
    shares, scores = metric("attachment"), []
    for score, is_labelled in (("UAS", False), ("LAS", True)):
        truth, *answers = (_spell(each, is_labelled=is_labelled) for each in (gold, *parsed.values()))
        tested = compare_answers(shares, truth, first=answers[:1], second=answers[1:], samples=samples, seed=seed)
        values = {name: shares.value(truth, answer) for name, answer in zip(parsed, answers, strict=True)}
        interval = {"difference": tested.difference, "from": tested.low, "to": tested.high}
        scores.append({"score": score, **values, **interval, "p": tested.randomisation_p})
    rows: list[Any] = [
        {
            "sentence": number + 1,
            "words": len(gold[number]),
            f"right: {first}": right[first],
            f"right: {second}": right[second],
            "text": " ".join(gold[number].words),
        }
        for number, right in list_differences(gold, parsed)[:10]
    ]
    tables: dict[str, Any] = {"scores": scores, "by relation": _by_relation(gold, parsed)}
    return Report({**tables, "sentences that differ most": rows} if rows else tables)


def comparison_page(
    gold: Sequence[Sentence], parsed: Mapping[str, Sequence[Sentence]], report: Report, *, shown: int = 30
) -> str:
    """A page with the tables of ``compare_parsers`` and the trees that differ most, each below the gold tree."""
    sections = [
        Section(title, table(rows)) for title, rows in report.texts().items() if title != "sentences that differ most"
    ]
    for number, right in list_differences(gold, parsed)[:shown]:
        sentence = gold[number]
        tree = sentence.dependency
        drawn = [
            dependency_tree(sentence.words, tree, other=each[number].dependency, names=("gold", name))
            for name, each in parsed.items()
            if tree is not None
        ]
        note = ", ".join(f"{name} {count} of {len(sentence)}" for name, count in right.items())
        body = paragraph(" ".join(sentence.words)) + side_by_side(drawn)
        sections.append(
            Section(f"Sentence {number + 1}", body, note=f"Words with the right head and relation: {note}.")
        )
    return page(" and ".join(parsed), sections, lead=f"{len(gold):,} sentences; arcs that differ are coloured.")


def list_differences(
    gold: Sequence[Sentence], parsed: Mapping[str, Sequence[Sentence]]
) -> list[tuple[int, dict[str, int]]]:
    """The places of the sentences with different trees, and how many words each parser has right; the largest first."""
    rows = []
    for number, (truth, *answers) in enumerate(zip(gold, *parsed.values(), strict=True)):
        arcs, *guesses = map(_arcs, (truth, *answers))
        if guesses[0] != guesses[1]:
            right = [sum(a == b for a, b in zip(arcs, guess, strict=True)) for guess in guesses]
            rows.append((number, dict(zip(parsed, right, strict=True))))
    return sorted(rows, key=lambda row: min(row[1].values()) - max(row[1].values()))


def _by_relation(gold: Sequence[Sentence], parsed: Mapping[str, Sequence[Sentence]]) -> list[dict[str, Any]]:
    support: Counter[str] = Counter()
    right: Counter[tuple[str, str, str]] = Counter()
    for truth, *answers in zip(gold, *parsed.values(), strict=True):
        guesses = [_arcs(answer) for answer in answers]
        for word, (head, label) in enumerate(_arcs(truth)):
            support[label] += 1
            for name, guess in zip(parsed, guesses, strict=True):
                right[label, name, "UAS"] += guess[word][0] == head
                right[label, name, "LAS"] += guess[word] == (head, label)
    return [
        {
            "relation": label,
            "support": count,
            **{f"{score} {name}": right[label, name, score] / count for score in ("UAS", "LAS") for name in parsed},
        }
        for label, count in support.most_common()
    ]


def _spell(sentences: Sequence[Sentence], *, is_labelled: bool) -> np.ndarray:
    """The answers of a parser as the metrics of words read them."""
    spell = "{0}:{1}".format if is_labelled else "{0}".format
    return np.array([" ".join(spell(*arc) for arc in _arcs(sentence)) for sentence in sentences])


def _arcs(sentence: Sentence) -> list[tuple[int, str]]:
    tree = sentence.dependency
    if tree is None:
        raise ValueError(f"expected a dependency tree, {' '.join(sentence.words[:5])!r} has none")
    return list(zip(tree.heads, tree.labels or [""] * len(tree), strict=True))
