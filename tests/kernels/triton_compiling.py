"""Compiles a Triton kernel for a GPU that need not be there, and says what the assembler made of it.

Without arguments, a table of all that are tested; otherwise a kernel, a compute capability, and what is known.

python tests/triton_compiling.py
python tests/triton_compiling.py dependency 90 '{"vector": null, "SINGLE": false, "EXTENDED": false}'
python tests/triton_compiling.py token2token.attend 90 '{"STEEPNESS": 0.58, "HEIGHT": -14.4}'
"""

import importlib
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from structattn.kernels.gpu.launch import CHART_TILE, ONE_WARP, OPTIONS, SEQUENCE_TILE

TYPES = {"lengths": "*i64", "streams": "*i64", "trusted": "*i32", "memory": "*fp64", "allowed": "*u8", "marks": "*i8"}
TYPES |= {"nodes": "*i32", "word_states": "*i32", "gains": "*fp64"}
TENSORS = {
    *("scores", "vector", "log_partition", "parts", "transitions", "transition_vector", "transition_parts"),
    *("queries", "keys", "values", "attended", "inverse", "gradient", "of_parts", "of_values"),
}


def compiled(kernel: Any, capability: int, constants: dict[str, Any], options: dict[str, Any]) -> Any:
    """Tensors hold float32 and further numbers are whole, but for those above and the constants."""
    names = {name: TYPES.get(name, "*fp32" if name in TENSORS else "i32") for name in kernel.arg_names}
    signature = {name: "constexpr" if name in constants else kind for name, kind in names.items()}
    source = ASTSource(kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def report(ptx: str, capability: int) -> dict[str, int]:
    """Registers, stack and spills, barriers, and loads that may return what was there before."""
    target = re.search(r"\.target (\w+)", ptx)
    assert target
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx, encoding="utf-8")
        words = [get_ptxas(capability).path, "-v", "--gpu-name", target[1], str(path), "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    numbers = {"registers": r"Used (\d+) registers", "stack": r"(\d+) bytes stack", "spilled": r"(\d+) bytes spill st"}
    found = {name: int(re.findall(pattern, said)[-1]) for name, pattern in numbers.items()}
    return found | {"barriers": ptx.count("bar.sync"), "uncoherent loads": len(re.findall(r"ld\.global\S*\.nc", ptx))}


def made_of(name: str, capability: int, constants: dict[str, Any]) -> dict[str, int]:
    """The report of a kernel, named by its module and, where there are several, what it does."""
    family, _, what = name.partition(".")
    module = importlib.import_module(f"structattn.kernels.gpu.{family}_kernels")
    kernel = getattr(module, f"{what or family}_kernel")
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    tiles = CHART_TILE | SEQUENCE_TILE | getattr(module, "TILE", {})
    tile = {name: size for name, size in tiles.items() if name in kernel.arg_names}
    # Walks along a sequence have one warp.
    options = ONE_WARP if name in ("chain.chain_descent", "segments.segments_descent") else OPTIONS
    return report(compiled(kernel, capability, constants | tile, options).asm["ptx"], capability)


def table() -> str:
    """What each kernel takes at most, over the variants that are tested."""
    from test_triton_compiled import VARIANTS

    most: dict[tuple[str, int], Counter[str]] = {}
    for name, capability, constants in VARIANTS:
        most[name, capability] = most.get((name, capability), Counter()) | Counter(made_of(name, capability, constants))
    lines = ["| kernel | compute capability | registers | bytes of stack | bytes spilled |", "|---|---|---|---|---|"]
    for (name, capability), found in sorted(most.items()):
        numbers = (capability / 10, found["registers"], found["stack"], found["spilled"])
        lines.append(f"| `{name}` | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) == 1:
        print(table())
    else:
        print(json.dumps(made_of(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))))
