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

# Family, compute capability, and what is known when the kernel is compiled.
VARIANTS: list[tuple[str, int, dict[str, Any]]] = [
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "vector": None}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": False, "log_partition": None}),
    ("dependency", 90, {"SINGLE": True, "EXTENDED": True, "vector": None}),
    ("dependency", 90, {"SINGLE": False, "EXTENDED": True, "log_partition": None}),
    ("dependency", 80, {"SINGLE": True, "EXTENDED": False, "vector": None}),
    ("dependency", 80, {"SINGLE": True, "EXTENDED": True, "log_partition": None}),
    ("constituency", 90, {"EXTENDED": False, "vector": None}),
    ("constituency", 90, {"EXTENDED": True, "log_partition": None}),
    ("constituency", 80, {"EXTENDED": True, "vector": None}),
    ("chain", 90, {"PER_POSITION": False, "DUAL": True, "COLUMNS": 64, "log_partition": None}),
    ("chain", 80, {"PER_POSITION": True, "DUAL": False, "COLUMNS": 8, "vector": None, "transition_vector": None}),
    ("segments", 90, {"COLUMNS": 8, "log_partition": None}),
    ("segments", 80, {"COLUMNS": 8, "vector": None}),
    ("token2token.attend", 90, {"STEEPNESS": 0.58, "HEIGHT": -14.4}),
    ("token2token.gradients", 90, {"STEEPNESS": 0.58, "HEIGHT": -14.4, "of_values": None}),
    ("token2token.gradients", 80, {"STEEPNESS": 0.58, "HEIGHT": -14.4}),
]


@pytest.mark.parametrize(("family", "capability", "constants"), VARIANTS, ids=str)
def test_kernels_fit_and_order_their_memory(family: str, capability: int, constants: dict[str, Any]) -> None:
    script = Path(__file__).with_name("triton_compiling.py")
    # Not in the interpreter, of which nothing can be compiled.
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    words = [sys.executable, str(script), family, str(capability), json.dumps(constants)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["registers"] <= 255
    assert found["stack"] <= 64
    # What one thread wrote to memory another reads: a barrier between, and no loads past the cache. Where all that is
    # read is given, barriers are those of sums only.
    assert found["barriers"] > 3 or family.startswith("token2token")
    assert found["uncoherent loads"] == 0
