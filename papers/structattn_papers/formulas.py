"""Arithmetic in prefix and in infix notation: endless pairs for translation, generated without a download.

Reference: Kim et al. (2017), Structured attention networks, section 4.1 (tree transduction). We do not know how the
formulas of the paper were drawn; the rules here are ours.
"""

import itertools
import random
from collections.abc import Iterator, Sequence

from structattn.data import Example
from structattn.syntax import Sentence

OPERATORS = ("+", "*")
TRAINED_ON, TESTED_ON = range(2, 5), range(2, 9)
_PUBLISHED, _DEEPER = range(2, 7), range(7, 9)
_LARGEST = 20
_MOST_OPERANDS = 4


def formulas(seed: int, depths: Sequence[int] = TRAINED_ON) -> Iterator[Example]:
    """Generate formulas without end or repetition: prefix notation as the sentence, infix notation as the label.

    A formula of depth ``d`` has an operator and two to four operands; at least one of them is a formula of depth
    ``d - 1``, and each of the others is a number from 0 to 20 or, with equal probability, a formula of any smaller
    depth. Infix notation has no parentheses around the whole formula.

    Args:
        seed: the same seed gives the same formulas.
        depths: the depths to draw in turn, so that all are equally frequent.

    Yields:
        Examples whose label is the infix notation; the metadata of the sentence has ``depth``.

    Raises:
        ValueError: if ``depths`` is empty or has a number below 1.

    Example:
        >>> example = next(formulas(6, [2]))
        >>> " ".join(example.sentences[0].words), example.label
        ('( + ( * 10 0 8 15 ) ( + 17 17 3 6 ) 8 )', '( 10 * 0 * 8 * 15 ) + ( 17 + 17 + 3 + 6 ) + 8')
    """
    choices = tuple(depths)
    if not choices or min(choices) < 1:
        raise ValueError(f"formulas expects depths of at least 1, got {list(choices)}")
    return _endless(random.Random(seed), choices)


def depth_of(infix: str) -> int:
    """The depth of a formula in infix notation: how deeply its parentheses are nested, plus one.

    Example:
        >>> depth_of("( 1 + 2 ) * 3"), depth_of("1 + 2")
        (2, 1)
    """
    depth = deepest = 0
    for character in infix:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest + 1


def formula_split(
    num_train: int, *, num_dev: int | None = None, num_test: int | None = None, seed: int = 0
) -> tuple[list[Example], list[Example], list[Example]]:
    """Training, development and test formulas, with no formula in two of them.

    Training and development formulas have depths 2 to 4 and test formulas 2 to 6, as in the paper (15,000 and 1,000).
    The test formulas end with as many of depth 7 and of depth 8 as of each other depth.

    Args:
        num_train: number of training formulas.
        num_dev: number of development formulas; a fifteenth of the training formulas if ``None``.
        num_test: number of test formulas of the depths 2 to 6; a fifteenth of the training formulas if ``None``.
        seed: seed of the formulas.

    Raises:
        ValueError: if a number is below 1.

    Example:
        >>> [len(part) for part in formula_split(30, num_test=10)]
        [30, 2, 14]
    """
    fifteenth = max(1, num_train // 15)
    sizes = (
        num_train,
        fifteenth if num_dev is None else num_dev,
        fifteenth if num_test is None else num_test,
    )
    if min(sizes) < 1:
        raise ValueError(f"formula_split expects at least 1 formula in each part, got {sizes}")
    seen: set[tuple[str, ...]] = set()
    parts = []
    # Each part has its own generator; the test formulas come first, so that they depend on nothing else.
    for number, depths, size in (
        (2, _PUBLISHED, sizes[2]),
        (2, _DEEPER, sizes[2] * len(_DEEPER) // len(_PUBLISHED)),
        (1, TRAINED_ON, sizes[1]),
        (0, TRAINED_ON, sizes[0]),
    ):
        drawn = (example for example in formulas(seed * 3 + number, depths) if example.sentences[0].words not in seen)
        fresh = list(itertools.islice(drawn, size))
        seen |= {example.sentences[0].words for example in fresh}
        parts.append(fresh)
    test, deeper, dev, train = parts
    return train, dev, test + deeper


def _endless(rng: random.Random, depths: Sequence[int]) -> Iterator[Example]:
    seen: set[tuple[str, ...]] = set()
    while True:
        for depth in depths:
            prefix, infix = _formula(rng, depth)
            while tuple(prefix) in seen:
                prefix, infix = _formula(rng, depth)
            seen.add(tuple(prefix))
            sentence = Sentence(prefix, metadata={"depth": str(depth)})
            # Infix notation has no parentheses around the whole formula.
            yield Example((sentence,), " ".join(infix[1:-1]), id=str(len(seen) - 1))


def _formula(rng: random.Random, depth: int) -> tuple[list[str], list[str]]:
    """Prefix and infix notation; depth 0 is a number."""
    if depth == 0:
        number = str(rng.randint(0, _LARGEST))
        return [number], [number]
    operator = rng.choice(OPERATORS)
    operands = rng.randint(2, _MOST_OPERANDS)
    deepest = rng.randrange(operands)
    prefix, infix = ["(", operator], ["("]
    for operand in range(operands):
        own = depth - 1
        if operand != deepest:
            own = rng.randint(1, depth - 1) if depth > 1 and rng.random() < 0.5 else 0
        first, second = _formula(rng, own)
        prefix += first
        infix += [*([operator] if operand else []), *second]
    return [*prefix, ")"], [*infix, ")"]
