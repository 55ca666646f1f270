"""How many small faults the tests find: `make mutants`.

A mutant is the package with one operator, number, comparison or statement changed, by an operator of cosmic-ray. It is
killed when a test of its package fails. Each mutant runs on a copy of the package, in a process of its own that starts
with all dependencies loaded and all other files compiled; results are kept line by line, so that an interrupted run
goes on where it stopped.

Reference: DeMillo, Lipton & Sayward (1978), Hints on test data selection: help for the practicing programmer.
"""

import argparse
import ast
import collections
import contextlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "structattn"

PACKAGES = {
    "search": (["tasks/decoding.py"], ["search", "sequences"]),
    "significance": (["training/significance.py"], ["compare"]),
    "priors": (["priors/*.py"], ["priors", "layers_attention", "ms_san", "encoders"]),
    "functional": (
        ["functional/*.py"],
        [
            "functional",
            "tree_accumulation",
            "attention_calls",
            "layers_attention",
            "tree_attention",
            "kernels_token2token",
            "token2token",
        ],
    ),
    "distributions": (["distributions/*.py"], ["distributions_laws", "distributions_[!t]*", "distributions_*"]),
    "kernels": (
        ["kernels/*.py"],
        [
            "kernels_select",
            "distributions_laws",
            "kernels_[!n]*",
            "distributions_[!t]*",
            "spanning_tree",
            "additive_scores",
            "token2token",
            "kernels_*",
            "distributions_*",
        ],
    ),
}
"""Package or module -> the files that are changed, and the test files that should notice, those that take long last."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the ``occurrence``-th place where an operator of cosmic-ray applies."""

    path: str
    operator: str
    occurrence: int
    line: int


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file, except in type annotations, decorators and ``__all__``: those change no behaviour."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    silent = silent_ranges(ast.parse(path.read_text(encoding="utf-8")))
    tree = get_ast_from_path(path)
    for name in sorted(cosmic_ray.plugins.operator_names()):
        operator = cosmic_ray.plugins.get_operator(name)
        if operator.arguments():
            continue
        places = (start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node))
        for occurrence, place in enumerate(places):
            if not any(begin <= place < end for begin, end in silent):
                yield Mutant(str(path.relative_to(PACKAGE)), name, occurrence, place[0])


def silent_ranges(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """From (line, column) to (line, column) of what a program does not run or tests cannot see."""
    found: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found += [node.returns, *node.decorator_list]
            case ast.ClassDef():
                found += node.decorator_list
            case ast.arg() | ast.AnnAssign():
                found.append(node.annotation)
            case ast.Assign(targets=[ast.Name(id=name)]) if name == "__all__" or isinstance(node.value, ast.Subscript):
                found.append(node.value if name == "__all__" or name[0].isupper() else None)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in found
        if isinstance(node, ast.expr)
    ]


def sample(package: str, size: int, seed: int) -> list[Mutant]:
    """A random sample of a package's mutants that are Python at all; all of them where there are fewer."""
    files = sorted(path for pattern in PACKAGES[package][0] for path in PACKAGE.glob(pattern))
    every = [mutant for path in files for mutant in mutants_of(path)]
    random.Random(seed).shuffle(every)
    return list(itertools.islice(filter(lambda mutant: is_python(changed(mutant)), every), size))


def changed(mutant: Mutant) -> str:
    """The text of the changed file."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    source = (PACKAGE / mutant.path).read_text(encoding="utf-8")
    code = mutate_code(source, cosmic_ray.plugins.get_operator(mutant.operator)(), mutant.occurrence)
    return str(code or "")


def is_python(text: str) -> bool:
    with warnings.catch_warnings(action="ignore"):
        try:
            compile(text, "mutant", "exec")
        except SyntaxError:
            return False
    return bool(text)


def tests_of(package: str, *paths: str) -> list[str]:
    """The examples in the docstrings of the changed files first, then the package's test files."""
    files = [file for name in PACKAGES[package][1] for file in sorted((ROOT / "tests").glob(f"*/test_{name}.py"))]
    words = (*(f"src/structattn/{path}" for path in paths), *(str(file.relative_to(ROOT)) for file in files))
    return list(dict.fromkeys(words))


def in_a_process(copy: Path, tests: list[str], paths: list[str], seconds: float, *plugins: object) -> tuple[str, str]:
    """``killed``, ``survived`` or ``timeout`` with changed files, and the name of the first test that failed."""
    report, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(report)
        first = FirstFailure()
        try:
            code = run_tests(copy, tests, paths, [first, *plugins])
        except BaseException as error:  # also SystemExit: nothing of the parent may be tidied up here
            first.name, code = repr(error), 1
        os.write(write, first.name.encode())
        os._exit(code)
    os.close(write)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with os.fdopen(report) as stream:
                return ("survived" if status == 0 else "killed"), stream.read()
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(report)
    return "timeout", ""


def warm_up(copy: Path, package: str) -> float:
    """Seconds that a package's tests take; from then on only a changed file needs to be compiled."""
    files = sorted(path for pattern in PACKAGES[package][0] for path in (copy / "src" / "structattn").glob(pattern))
    paths = [str(path.relative_to(copy / "src" / "structattn")) for path in files]
    sys.dont_write_bytecode = False
    unchanged(copy, package, paths)
    sys.dont_write_bytecode = True
    # A mutant may have the size and the second of what it changes, by which Python knows a compiled file.
    for path in files:
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
    own = {"structattn", "tests", "benchmarks", "__main__", *(file.stem for file in (copy / "tests").rglob("*.py"))}
    for module in json.loads((copy / "modules.json").read_text(encoding="utf-8")):
        if module.partition(".")[0] not in own:
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    begin = time.monotonic()
    unchanged(copy, package, paths, Callers(copy, paths))
    return time.monotonic() - begin


def unchanged(copy: Path, package: str, paths: list[str], *plugins: object) -> None:
    """What is unchanged passes."""
    verdict, name = in_a_process(copy, tests_of(package, *paths), paths, 3600, *plugins)
    if verdict != "survived":
        raise SystemExit(f"{package}: the tests fail before anything is changed: {verdict} {name}")


def run_tests(copy: Path, tests: list[str], paths: list[str], plugins: list[object]) -> int:
    """0 if every test passes, also if there is none; the names of all modules are left in ``modules.json``."""
    os.environ["PYTHONPATH"] = str(copy / "src")  # of processes that tests start
    # The hook that checks shapes takes seconds for the whole package.
    os.environ["STRUCTATTN_CHECKED"] = ",".join(f"structattn.{path[:-3].replace('/', '.')}" for path in paths)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy / "src"))
    options = ["-x", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, f"--rootdir={copy}", *tests], plugins=plugins)
    (copy / "modules.json").write_text(json.dumps(sorted(sys.modules)), encoding="utf-8")
    return int(code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED))


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: object) -> None:
        if getattr(report, "failed", False) and not self.name:
            self.name = getattr(report, "nodeid", "")


class Callers:
    """A plugin of pytest that writes down which tests call which function of the changed files.

    Calls in other processes are not seen; what runs when a module is imported concerns every test.
    """

    def __init__(self, copy: Path, paths: list[str]) -> None:
        self.file = copy / "callers.json"
        self.of_path = {str(copy / "src" / "structattn" / path): path for path in paths}
        self.functions = {name: functions_of(Path(name)) for name in self.of_path}
        self.found: dict[str, dict[int, set[str]]] = {path: collections.defaultdict(set) for path in paths}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: object) -> Iterator[None]:
        name = item.nodeid  # type: ignore[attr-defined]

        def called(frame: types.FrameType, event: str, _: object) -> None:
            file = frame.f_code.co_filename
            if event == "call" and file in self.of_path:
                line = frame.f_code.co_firstlineno
                start = next((start for start, end in self.functions[file] if start <= line <= end), None)
                if start is not None:
                    self.found[self.of_path[file]][start].add(name)

        sys.setprofile(called)
        yield
        sys.setprofile(None)

    def pytest_sessionfinish(self) -> None:
        found = {
            path: {start: sorted(names) for start, names in functions.items()} for path, functions in self.found.items()
        }
        self.file.write_text(json.dumps(found), encoding="utf-8")


class Only:
    """A plugin of pytest that leaves the other tests out."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        items[:] = [item for item in items if item.nodeid in self.names]  # type: ignore[attr-defined]


def functions_of(path: Path) -> list[tuple[int, int]]:
    """First and last line of each function and method; those within others belong to them."""
    found: list[tuple[int, int]] = []

    def look(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min(item.lineno for item in (node, *node.decorator_list))
                found.append((first, node.end_lineno or node.lineno))
            elif isinstance(node, ast.ClassDef):
                look(node.body)

    look(ast.parse(path.read_text(encoding="utf-8")).body)
    return found


def callers_of(copy: Path, mutant: Mutant) -> list[object]:
    """The tests that may notice a mutant, as plugins: those that call its function; all for what is in none."""
    functions = functions_of(copy / "src" / "structattn" / mutant.path)
    start = next((start for start, end in functions if start <= mutant.line <= end), None)
    if start is None:
        return []
    known = json.loads((copy / "callers.json").read_text(encoding="utf-8"))
    return [Only(set(known[mutant.path].get(str(start), [])))]


def working_copy(folder: Path) -> Path:
    """The repository's sources and tests, compiled kernels included."""
    for name in ("src", "tests", "benchmarks", "docs", "papers", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, folder)
    return folder


def campaign(package: str, size: int, seed: int, out: Path, share: tuple[int, int]) -> None:
    """Try those mutants of a package's sample that ``out`` has no line for; ``share`` is (which part, of how many)."""
    known = {Mutant(**line["mutant"]) for line in read(out)}
    waiting = [mutant for mutant in sample(package, size, seed)[share[0] :: share[1]] if mutant not in known]
    with tempfile.TemporaryDirectory() as folder:
        copy = working_copy(Path(folder))
        usual = warm_up(copy, package) if waiting else 0.0
        for number, mutant in enumerate(waiting, 1):
            target = copy / "src" / "structattn" / mutant.path
            source = target.read_text(encoding="utf-8")
            text = changed(mutant)
            begin = time.monotonic()
            try:
                callers = callers_of(copy, mutant)
                target.write_text(text, encoding="utf-8")
                words = tests_of(package, mutant.path)
                verdict, name = in_a_process(copy, words, [mutant.path], 30 + usual, *callers)
            finally:
                target.write_text(source, encoding="utf-8")
            pairs = zip(source.splitlines(), text.splitlines(), strict=False)
            line = {
                "package": package, "verdict": verdict, "mutant": asdict(mutant), "by": name,
                "was": source.splitlines()[mutant.line - 1].strip(), "seconds": round(time.monotonic() - begin, 1),
                "becomes": next((after.strip() for before, after in pairs if before != after), ""),
            }  # fmt: skip
            with out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            print(
                f"{package} {number}/{len(waiting)} {verdict:8} {mutant.path}:{mutant.line} {line['becomes']}",
                flush=True,
            )


def read(out: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


def table(out: Path) -> str:
    """A line for each package: tried, killed, argued to behave as the original (``equivalent.jsonl``), survived."""
    argued = {
        (line["path"], line["was"], line["becomes"]) for line in read(Path(__file__).with_name("equivalent.jsonl"))
    }
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for line in read(out):
        survived = line["verdict"] == "survived"
        is_equivalent = survived and (line["mutant"]["path"], line["was"], line["becomes"]) in argued
        counts[line["package"]]["equivalent" if is_equivalent else "survived" if survived else "killed"] += 1
    rows = [
        "| package or module | mutants | killed | equivalent | survived | killed or equivalent |",
        "|---|---|---|---|---|---|",
    ]
    for package, count in counts.items():
        share = 100 * (count.total() - count["survived"]) / count.total()
        cells = (package, count.total(), count["killed"], count["equivalent"], count["survived"], f"{share:.1f} %")
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument(
        "packages", nargs="*", default=list(PACKAGES), help=f"of {', '.join(PACKAGES)}; all without any"
    )
    parser.add_argument("--sample", type=int, default=300, help="mutants of each package (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), metavar=("K", "N"), help="the K-th of N parts")
    parser.add_argument("--out", type=Path, default=Path("runs/mutants.jsonl"))
    chosen = parser.parse_args()
    for package in chosen.packages:
        if package not in PACKAGES:
            parser.error(f"there is no package {package!r}, expected one of {', '.join(PACKAGES)}")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = True

    for package in chosen.packages:
        campaign(package, chosen.sample, chosen.seed, chosen.out.resolve(), tuple(chosen.share))
    print(table(chosen.out))


if __name__ == "__main__":
    main()
