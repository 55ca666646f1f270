"""The checklist of a release, walked from a clean clone of the last commit: `make release-check`.

Each step is a command; the first that fails ends the walk with what it printed. What was built is left in dist/.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_BYTES = {".whl": 10_000_000, ".tar.gz": 10_000_000}
# The path of a clone, a home or a temporary file on one machine has no meaning anywhere else.
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|Users|work|tmp)/\w")
# What a browser loads with a page; links that a reader follows are not among it.
LOADED = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')
NO_COMPILER = {"CXX": "/bin/false"}


def run(*command: object, cwd: Path, **environment: str) -> None:
    """Run a command, and exit with the end of its output if it fails."""
    # Packages of whoever asks would be found before those of the clone.
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**ours, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # in its order, so that what went wrong comes last
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{process.stdout[-4000:]}")


def check_machine_paths(clone: Path) -> None:
    """No tracked text names a path of one machine."""
    files = subprocess.run(["git", "ls-files"], cwd=clone, text=True, capture_output=True, check=True).stdout.split(
        "\n"
    )
    for name in filter(None, files):
        try:
            lines = (clone / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            if name != "release/check.py" and MACHINE_PATH.search(line):
                raise SystemExit(f"{name}:{number}: names a path of one machine: {line.strip()[:120]}")


def check_version(clone: Path) -> None:
    """The changelog and the citation are about the version of the package."""
    source = (clone / "src/structattn/__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, flags=re.MULTILINE)
    for name, expected in {"CHANGELOG.md": f"## {version}", "CITATION.cff": f"version: {version}"}.items():
        if expected not in (clone / name).read_text(encoding="utf-8"):
            raise SystemExit(f"{name}: expected {expected!r}, the version of src/structattn/__init__.py")


def check_installations(clone: Path) -> None:
    """The wheel, then the sources in plain torch, in an empty environment and without a compiler."""
    (wheel,), (source,) = (list((clone / "dist").glob(f"*{ending}")) for ending in MOST_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        python = path / "environment/bin/python"
        pip = (python, "-m", "pip", "install", "--quiet", "--constraint", clone / "constraints.txt")
        run(sys.executable, "-m", "venv", python.parent.parent, cwd=path)
        run(*pip, wheel, "pytest", cwd=path, **NO_COMPILER)
        run(
            python,
            "-m",
            "pytest",
            "-q",
            "-c",
            "/dev/null",
            clone / "release/test_installed.py",
            cwd=path,
            **NO_COMPILER,
        )
        run(*pip, "--force-reinstall", "--no-deps", source, cwd=path, **NO_COMPILER)
        run(python, "-c", "import structattn; structattn.parse('It works.')", cwd=path, **NO_COMPILER)


def check_links(clone: Path) -> None:
    """No page of the site loads anything from another site."""
    for page in sorted((clone / "docs/_build/html").rglob("*.html")):
        if match := LOADED.search(page.read_text(encoding="utf-8")):
            raise SystemExit(f"{page.relative_to(clone)}: loads {match[1]}; expected a site that works offline")


def check_sizes(clone: Path) -> None:
    """What is uploaded is small."""
    for ending, most in MOST_BYTES.items():
        for path in (clone / "dist").glob(f"*{ending}"):
            print(f"    {path.name}  {path.stat().st_size / 1e6:.2f} MB")
            if path.stat().st_size > most:
                raise SystemExit(f"{path.name}: {path.stat().st_size:,} bytes; expected at most {most:,}")


def make(target: str) -> Callable[[Path], None]:
    """A target of the Makefile."""
    return lambda clone: run("make", target, cwd=clone)


STEPS: dict[str, Callable[[Path], None]] = {
    "no path of one machine": check_machine_paths,
    "one version": check_version,
    "make test": make("test"),
    "make demo": make("demo"),
    "make docs": make("docs"),
    "the site works offline": check_links,
    "make wheel": make("wheel"),
    "sizes": check_sizes,
    "wheel and sources installed without a compiler": check_installations,
}


def main() -> None:
    """Walk the list."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "structattn"
        run("git", "clone", "--quiet", ROOT, clone, cwd=ROOT)
        for name, step in STEPS.items():
            start = time.monotonic()
            step(clone)
            print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        shutil.copytree(clone / "dist", ROOT / "dist", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
