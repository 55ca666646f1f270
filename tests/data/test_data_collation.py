"""collate against a twin that writes word by word: every tensor of every mixture of sentences, to the last bit."""

import itertools
import random
from collections.abc import Sequence

import pytest
import torch

from structattn.data import Vocabulary, agreement_treebank, collate
from structattn.data.tree_batch import label_code
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

EMPTY = Sentence([])
EMPTY_WITH_TREES = Sentence([], dependency=DependencyTree([], []), constituency=ConstituencyTree([]))
PLAIN = Sentence(["hush"])
CAPITALS = Sentence(["Kids", "WASH", "İ"], dependency=DependencyTree([2, 0, 2]))
LABELS = Sentence(["kids", "wash", "now"], dependency=DependencyTree([2, 0, 2], ["nsubj", "root", "advmod:tmp"]))
FOREST = Sentence(["go", "away", "stay"], dependency=DependencyTree([0, 1, 0], ["root", "compound", "root"]))
PHRASES = Sentence(
    ["the", "kids", "wash", "!"],
    constituency=ConstituencyTree.from_brackets("(S (NP (DT the) (NNS kids)) (VP (VP wash)) (. !))"),
)
SIDE_BY_SIDE = Sentence(["a", "b", "c"], constituency=ConstituencyTree(["a", "b", "c"], [("X", 0, 1), ("Y", 2, 3)]))
NO_PHRASE = Sentence(["hush"], constituency=ConstituencyTree.from_brackets("(UH hush)"))
BOTH = Sentence(
    ["kids", "wash"], dependency=LABELS.dependency.truncated(2), constituency=PHRASES.constituency.truncated(2)
)  # type: ignore[union-attr]
RELATED = Sentence(["kids", "wash"], relations={"coreference": [[0.1, 0.5], [1, 0]], "link": [[0, 1], [1, 0]]})
GENERATED = [example.sentences[0] for example in itertools.islice(agreement_treebank(4, range(4)), 6)]
BY_HAND = [EMPTY, EMPTY_WITH_TREES, PLAIN, CAPITALS, LABELS, FOREST, PHRASES, SIDE_BY_SIDE, NO_PHRASE, BOTH, RELATED]
MIXTURES = [
    *([one] for one in BY_HAND),
    *([first, second] for first, second in itertools.permutations(BY_HAND, 2)),
    *(random.Random(seed).choices([*BY_HAND, *GENERATED], k=9) for seed in range(20)),
]
VOCABULARIES = [
    Vocabulary(["kids", "wash", "the"], ["hush"], labels=["nsubj", "NP", "DT", "root", "S"]),
    Vocabulary(["Kids", "kids", "a"], lowercase=False),
    Vocabulary.from_examples([*BY_HAND, *GENERATED]),
]


def by_hand(sentences: Sequence[Sentence], vocabulary: Vocabulary) -> dict[str, list[object]]:
    """The tensors of a batch as nested lists, without those that no sentence has."""
    width = max(1, *map(len, sentences))
    columns = range(width)

    def padded(row: Sequence[object], padding: object, size: int = width) -> list[object]:
        return [*row, *[padding] * (size - len(row))]

    found: dict[str, list[object]] = {
        "tokens": [padded([vocabulary[word] for word in one.words], 0) for one in sentences],
        "mask": [padded([True] * len(one), False) for one in sentences],
        "lengths": [len(one) for one in sentences],
    }
    has = {}
    if any(one.dependency is not None for one in sentences) or not any(map(len, sentences)):
        has["dependency"] = [one.dependency is not None or not len(one) for one in sentences]
        trees = [one.dependency or DependencyTree([0] * len(one)) for one in sentences]
        labels = [tree.labels or [None] * len(tree) for tree in trees]
        numbers = {name: number for number, name in enumerate(vocabulary.labels, start=1)}
        found["dependency.parents"] = [
            [tree.heads[word] - 1 if word < len(tree) and tree.heads[word] else word for word in columns]
            for tree in trees
        ]
        found["dependency.mask"] = found["mask"]
        found["dependency.labels"] = [padded([numbers.get(name, 0) for name in row], 0) for row in labels]  # type: ignore[arg-type]
        found["dependency.label_codes"] = [
            padded([label_code(name) if name else 0 for name in row], 0) for row in labels
        ]
    if any(one.constituency is not None for one in sentences) or not any(map(len, sentences)):
        has["constituency"] = [one.constituency is not None or not len(one) for one in sentences]
        phrases = [one.constituency or ConstituencyTree(one.words) for one in sentences]
        size = max(len(tree.spans) for tree in phrases)
        names = {None: 0, **{name: number for number, name in enumerate(vocabulary.labels, start=1)}}
        found["constituency.parents"], found["constituency.mask"], found["constituency.labels"] = [], [], []
        for tree in phrases:
            leaves = [column if above < 0 else width + above for column, above in enumerate(tree.leaf_parents)]
            nodes = [width + (number if above < 0 else above) for number, above in enumerate(tree.parents)]
            rest = range(width + len(nodes), width + size)
            found["constituency.parents"].append([*leaves, *range(len(leaves), width), *nodes, *rest])
            real = [*padded([True] * len(tree), False), *padded([True] * len(nodes), False, size)]
            found["constituency.mask"].append(real)
            tags = padded([names.get(tag, 0) for tag in tree.tags], 0)
            spans = padded([names.get(label, 0) for label, _, _ in tree.spans], 0, size)
            found["constituency.labels"].append([*tags, *spans])
    for name in sorted({name for one in sentences for name in one.relations}):
        has[name] = [name in one.relations or not len(one) for one in sentences]
        matrices: list[object] = []
        for one in sentences:
            rows = one.relations.get(name, [])
            cells = [padded([float(cell) for cell in row], 0.0) for row in rows]
            matrices.append(padded(cells, [0.0] * width))
        found[f"relations.{name}"] = matrices
    return {**found, **{f"has.{name}": list(present) for name, present in has.items()}}


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=["few words", "case", "all words"])
def test_every_tensor_is_that_of_the_twin(vocabulary: Vocabulary) -> None:
    types = {"mask": torch.bool, "has": torch.bool, "relations": torch.float32}
    for sentences in MIXTURES:
        batch = collate(sentences, vocabulary)
        expected = by_hand(sentences, vocabulary)
        tensors = batch.tensors()
        assert set(tensors) == set(expected)
        for name, tensor in tensors.items():
            part, _, last = name.partition(".")
            kind = types.get(part, types.get(last, torch.int64))
            assert tensor.dtype == kind, name
            assert torch.equal(tensor, torch.tensor(expected[name], dtype=kind)), (name, sentences)
        whole = {name.removeprefix("has.") for name, rows in expected.items() if name.startswith("has.") and all(rows)}
        assert batch.complete == whole
        assert batch.is_empty == (not any(map(len, sentences)))


def test_no_two_tensors_share_memory() -> None:
    tensors = collate([BOTH, LABELS, RELATED], VOCABULARIES[0]).tensors().values()
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)
