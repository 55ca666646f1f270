"""On an accelerator the parser waits for nothing: neither its loss with gradients nor the trees and labels it finds."""

import itertools

import pytest

from structattn.data import agreement_treebank
from structattn.parsing import build_parser
from triton_launches import WAITING, Called

OPTIONS = {
    "encoder": {"word_dim": 8, "character_dim": 4, "filters": 8, "hidden": 6, "num_layers": 1},
    "scorer": {"arc_dim": 6, "label_dim": 4},
}


@pytest.mark.parametrize("trees", ["all", "projective"])
@pytest.mark.parametrize("loss", ["trees", "words", "labelled"])
@pytest.mark.parametrize("count", [2, 40])
def test_the_parser_does_not_wait_for_the_device(trees: str, loss: str, count: int) -> None:
    gold = [example.sentences[0] for example in itertools.islice(agreement_treebank(1), count)]
    parser = build_parser(gold, parser={"trees": trees, "loss": loss}, **OPTIONS)
    batch = parser.collate(gold).to("meta")
    parser.to("meta")
    with Called() as called:
        parser.loss(batch).backward()
        labels = parser.best_trees(parser(batch.inputs), batch.inputs.lengths)[1]
    assert labels.shape == batch.heads.shape
    assert not WAITING & set(called.names)
