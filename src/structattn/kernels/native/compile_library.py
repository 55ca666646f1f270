"""Compile the kernels, for ``python -m structattn.kernels.native`` and for ``pip install``.

It runs before torch is installed, so it imports the standard library only. The sources include no header of Python or
torch: any C++17 compiler with vector types (gcc, clang) makes a library for every version of both. On x86-64 there are
two libraries from the same sources, one for AVX2; the loader chooses.
"""

import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "source"
SUFFIX = ".dll" if sys.platform == "win32" else ".so"
# A contracted multiply-add rounds once instead of twice. No flag lets the compiler reorder sums or ignore infinities.
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-Wno-psabi")


class BuildError(Exception):
    """There is no compiler, or it rejected the sources; the package works without the library."""


def variants() -> dict[str, tuple[str, ...]]:
    """Names of the libraries for this kind of processor, and the flags that each needs."""
    plain: dict[str, tuple[str, ...]] = {"libstructattn": ()}
    if platform.machine().lower() in ("x86_64", "amd64"):
        plain["libstructattn_avx2"] = ("-mavx2", "-mfma")
    return plain


def compiler() -> list[str]:
    """The command of ``CXX``, or the first compiler on the path; a `BuildError` if there is none."""
    named = os.environ.get("CXX")
    if named:
        return shlex.split(named)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C++ compiler: none of c++, g++, clang++ is on the path, and CXX is not set")


def build(folder: Path = HERE) -> list[Path]:
    """Compile every variant into a folder; libraries that are newer than all sources stay as they are.

    If there is no compiler, or it fails, nothing is left behind, and a `BuildError` is raised.
    """
    sources = sorted(SOURCE.glob("*.cpp"))
    newest = max(path.stat().st_mtime for path in [Path(__file__), *SOURCE.iterdir()])
    libraries = {folder / (name + SUFFIX): flags for name, flags in variants().items()}
    missing = {path: flags for path, flags in libraries.items() if not path.exists() or path.stat().st_mtime < newest}
    if missing:
        command = compiler()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = {path: Path(temporary) / path.name for path in missing}
            compilations: list[list[str]] = []
            objects: dict[Path, list[str]] = {path: [] for path in missing}
            for source, path in itertools.product(sources, missing):
                objects[path].append(f"{made[path]}.{source.stem}.o")
                compilations.append([*command, *FLAGS, *missing[path], "-c", str(source), "-o", objects[path][-1]])
            _run(compilations)
            _run([[*command, *missing[path], "-shared", *objects[path], "-o", str(made[path])] for path in missing])
            for path, new in made.items():
                new.replace(path)
    return list(libraries)


def _run(commands: Sequence[Sequence[str]]) -> None:
    """Run commands in parallel, one for each processor; after the first failure, or Ctrl-C, no other is started."""
    # Some take hundreds of megabytes, so never more than eight.
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
    try:
        for done in [pool.submit(_run_one, command) for command in commands]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _run_one(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        first_error = next((line for line in done.stdout.splitlines() if "error" in line), done.stdout.strip()[-200:])
        raise BuildError(f"{command[0]} ended with status {done.returncode}: {first_error}".rstrip(": "))


def main() -> int:
    """Build next to the sources, print the outcome, and return the exit code: 1 if there is no library."""
    try:
        for path in build():
            print(path)
    except BuildError as reason:
        print(f"structattn: kernels stay in plain torch: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
