"""Other libraries as witnesses: where they are right, they say the same. Skipped for those that are not installed.

``make peers`` installs them into an environment of their own; run this file with its Python.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from repository import ROOT
from structattn.distributions import ConstituencyCRF, DependencyCRF, LinearChainCRF, NonProjectiveDependencyCRF

MODES = ["train", "marg", "attn", "argmax", "topk", "sample", "entropy", "kl"]
SIZES = {"A": (7, 4), "B": (9,), "C": (9,), "D": (8,), "E": (7, 3)}
PAIRS = [
    ("A", "structattn, edges"),
    *((row, name) for row in "ABCD" for name in ("torch-struct", "SuPar", "SynJax")),
    ("A", "pytorch-crf"),
    ("E", "torch-struct"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.structures.rows")


def peer(name: str) -> Any:
    peers = sys.modules["benchmarks.structures.peers"]
    reason = peers.missing(name)
    if reason:
        pytest.skip(reason)
    return peers.load(name)


@pytest.mark.filterwarnings("ignore")  # of the peers, about the torch they were written for
@pytest.mark.parametrize(("letter", "name"), PAIRS)
def test_log_partition_marginals_their_gradient_and_the_best_structure(
    letter: str, name: str, bench: ModuleType
) -> None:
    if not name.startswith("structattn"):
        peer(name)
    row = bench.ROWS[letter]
    ours, theirs = (row.build(5, SIZES[letter], who) for who in ("structattn", name))
    # SynJax compiles each mode for seconds; its marginals are what attn differentiates, and the gradient in train.
    left_out = "marg" if name == "SynJax" else None
    for mode in [mode for mode in MODES if mode in theirs.calls and mode != left_out]:
        answers = (who.read(mode, who.calls[mode]()) for who in (ours, theirs))
        for answer, expected in zip(*answers, strict=True):
            total = answer.sum() if expected.dim() == 0 else answer
            # Peers compute in float32, and torch-struct adds 1e-5 to what it inverts.
            torch.testing.assert_close(total.double(), expected.double(), atol=2e-4, rtol=1e-4)


def supar_arcs(scores: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(scores[:, :1]), scores], 1)


SUPAR = {
    "chain": (
        lambda s, lengths: LinearChainCRF(s[..., :4], s[0, :4, :4], lengths),
        lambda structs, s, lengths: structs.LinearChainCRF(
            s[..., :4].clone(), torch.nn.functional.pad(s[0, :4, :4], (0, 1, 0, 1)), lengths
        ),
    ),
    **{
        f"{kind.__name__}, {'single' if single else 'several'}": (
            lambda s, lengths, kind=kind, single=single: kind(s, lengths, single_root=single),
            lambda structs, s, lengths, name=name, single=single: getattr(structs, name)(
                supar_arcs(s), lengths, multiroot=not single
            ),
        )
        for kind, name in ((DependencyCRF, "DependencyCRF"), (NonProjectiveDependencyCRF, "MatrixTree"))
        for single in (True, False)
    },
    "phrases": (
        lambda s, lengths: ConstituencyCRF(torch.cat([s, s[:, :1]], 1), lengths),
        lambda structs, s, lengths: structs.ConstituencyCRF(torch.cat([s, s[:, :1]], 1), lengths),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", SUPAR)
def test_supar_with_sentences_of_different_lengths(family: str, bench: ModuleType) -> None:
    structs = peer("SuPar")
    ours_of, theirs_of = SUPAR[family]
    scores = torch.randn(6, 8, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lengths = torch.tensor([8, 5, 1, 7, 2, 4])
    ours, theirs = ours_of(scores, lengths), theirs_of(structs, scores.clone(), lengths)
    log_partition = theirs.log_partition.detach().double()
    torch.testing.assert_close(ours.log_partition(), log_partition, atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(ours.entropy(), theirs.entropy.detach().double(), atol=1e-5, rtol=1e-5)
    marginals = theirs.marginals.detach().double()
    marginals = marginals[:, 1:] if "DependencyCRF" in family else marginals
    torch.testing.assert_close(ours.marginals(), marginals, atol=1e-6, rtol=0)
