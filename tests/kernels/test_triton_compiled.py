"""The Triton kernels compiled for GPUs that need not be there: they fit, and memory is ordered as is meant."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")
pytestmark = pytest.mark.skipif(
    os.environ.get("STRUCTATTN_TRITON") != "interpret", reason="minutes of compiling: make test-triton"
)

# What is not there where charts are filled to choose from, and in marginals of a chain.
ONLY_CHARTS = dict.fromkeys(("vector", "log_partition", "parts", "transition_parts"))
ONE_VECTOR = dict.fromkeys(("vector", "transition_vector"))
ONLY_STATES = ONE_VECTOR | dict.fromkeys(("log_partition", "transition_parts"))
# All that is done for a sentence at a time, or a tile of its chart up and down.
ALONE, IN_TILES = {"STEPS": 15, "EXTENT": 0}, {"EXTENT": 32}
UP, DOWN = {"STEPS": 2, **IN_TILES}, {"STEPS": 8, **IN_TILES}
# Kernel, compute capability, and what is known when the kernel is compiled.
VARIANTS: list[tuple[str, int, dict[str, Any]]] = [
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "BEST": False, "vector": None, **ALONE}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "BEST": False, "log_partition": None, **ALONE}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": True, "BEST": False, "vector": None, **ALONE}),
    ("dependency", 90, {"SINGLE": False, "EXTENDED": True, "BEST": False, "log_partition": None, **ALONE}),
    ("dependency", 80, {"SINGLE": True, "EXTENDED": False, "BEST": False, "vector": None, **ALONE}),
    ("dependency", 80, {"SINGLE": True, "EXTENDED": True, "BEST": False, "log_partition": None, **ALONE}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "BEST": True, **ONLY_CHARTS, **ALONE}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": True, "BEST": False, "log_partition": None, **UP}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "BEST": False, "log_partition": None, **DOWN}),
    ("dependency", 80, {"SINGLE": False, "EXTENDED": True, "BEST": False, "vector": None, **DOWN}),
    ("dependency.dependency_descent", 90, {"SINGLE": True, "EXTENDED": False, "streams": None}),
    ("dependency.dependency_descent", 80, {"SINGLE": False, "EXTENDED": True}),
    ("spanning_tree", 90, {"SINGLE": True, "EXTENDED": False, "vector": None}),
    ("spanning_tree", 90, {"SINGLE": True, "EXTENDED": True, "log_partition": None}),
    ("spanning_tree", 80, {"SINGLE": False, "EXTENDED": False, "log_partition": None}),
    ("spanning_tree", 80, {"SINGLE": True, "EXTENDED": True, "log_partition": None}),
    ("spanning_tree.spanning_tree_descent", 90, {"SINGLE": True, "EXTENDED": True}),
    ("spanning_tree.spanning_tree_descent", 80, {"SINGLE": False, "EXTENDED": False}),
    ("edmonds", 90, {"SINGLE": True}),
    ("edmonds", 80, {"SINGLE": False}),
    ("constituency", 90, {"EXTENDED": False, "BEST": False, "vector": None, **ALONE}),
    ("constituency", 90, {"EXTENDED": True, "BEST": False, "log_partition": None, **ALONE}),
    ("constituency", 80, {"EXTENDED": True, "BEST": False, "vector": None, **ALONE}),
    ("constituency", 80, {"EXTENDED": False, "BEST": True, **ONLY_CHARTS, **ALONE}),
    ("constituency", 90, {"EXTENDED": True, "BEST": False, "log_partition": None, **DOWN}),
    ("constituency", 80, {"EXTENDED": False, "BEST": False, "vector": None, **UP}),
    ("constituency.constituency_descent", 80, {"EXTENDED": False, "streams": None}),
    ("constituency.constituency_descent", 90, {"EXTENDED": True}),
    ("chain", 90, {"PER_POSITION": False, "DUAL": True, "BEST": False, "COLUMNS": 64, "log_partition": None}),
    ("chain", 90, {"PER_POSITION": False, "BEST": False, "COLUMNS": 4, "DUAL": False, **ONE_VECTOR}),
    ("chain", 80, {"PER_POSITION": True, "BEST": False, "COLUMNS": 8, "DUAL": False, **ONLY_STATES}),
    ("chain", 80, {"PER_POSITION": True, "BEST": False, "COLUMNS": 8, "DUAL": False, **ONE_VECTOR}),
    ("chain", 90, {"PER_POSITION": True, "BEST": True, "COLUMNS": 64, "DUAL": False, **ONE_VECTOR, **ONLY_CHARTS}),
    ("chain.chain_descent", 90, {"PER_POSITION": True, "COLUMNS": 64}),
    ("chain.chain_descent", 80, {"PER_POSITION": False, "COLUMNS": 8, "streams": None}),
    ("segments", 90, {"BEST": False, "COLUMNS": 8, "log_partition": None}),
    ("segments", 80, {"BEST": False, "COLUMNS": 8, "vector": None}),
    ("segments", 80, {"BEST": True, "COLUMNS": 8, **ONLY_CHARTS}),
    ("segments.segments_descent", 90, {"COLUMNS": 8}),
    ("segments.segments_descent", 80, {"COLUMNS": 8, "streams": None}),
    ("token2token.attend", 90, {"STEEPNESS": 0.58, "HEIGHT": -14.4}),
    ("token2token.attend", 80, {"STEEPNESS": 0.58, "HEIGHT": -14.4}),
    ("token2token.gradients", 90, {"STEEPNESS": 0.58, "HEIGHT": -14.4, "of_values": None}),
    ("token2token.gradients", 80, {"STEEPNESS": 0.58, "HEIGHT": -14.4}),
]
# Pairs of words are given, and walks along a sequence only have to wait until their result is cleared.
FEWER_BARRIERS = {"token2token.attend": 0, "token2token.gradients": 0}
FEWER_BARRIERS |= {"chain.chain_descent": 1, "segments.segments_descent": 1}


@pytest.mark.parametrize(("kernel", "capability", "constants"), VARIANTS, ids=str)
def test_kernels_fit_and_order_their_memory(kernel: str, capability: int, constants: dict[str, Any]) -> None:
    script = Path(__file__).with_name("triton_compiling.py")
    # Not in the interpreter, of which nothing can be compiled.
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    words = [sys.executable, str(script), kernel, str(capability), json.dumps(constants)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["registers"] <= 255
    assert found["stack"] <= 64
    # What one thread wrote to memory another reads: a barrier between, and no loads past the cache.
    assert found["barriers"] >= FEWER_BARRIERS.get(kernel, 4)
    assert found["uncoherent loads"] == 0
