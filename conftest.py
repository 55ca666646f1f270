"""Shapes are checked in all tests but those of ``unchecked``: an import hook has beartype check what names them."""

import dataclasses
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# Before torch is imported: tests run in several processes, whose threads would get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Parses that a run finds are kept for the next one: in the tests in a folder of their own.
os.environ["XDG_CACHE_HOME"] = (_caches := tempfile.TemporaryDirectory()).name

import pytest

# Tests of one room use what those of another have made by hand.
sys.path += [
    str(Path(__file__).parent / "tests"),
    *sorted({str(file.parent) for file in Path(__file__).parent.glob("tests/*/test_*.py")}),
]

from extras import missing_extra
from integration import Guard, is_integration
from shape_checks import check_shapes

# torch.compile cannot look into checked functions: what compiles runs unchecked, in a process of its own.
CHECKED = os.environ.get("STRUCTATTN_UNCHECKED") != "1"
if CHECKED:
    check_shapes(os.environ.get("STRUCTATTN_CHECKED", "structattn,structattn_papers").split(","))


class _Triton(MetaPathFinder):
    """Triton reads the source of its kernels, which therefore stay as they are."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("structattn.kernels.gpu.") else None


sys.meta_path.insert(0, _Triton())
collect_ignore = ["tests/unchecked"] if CHECKED else []
# What is imported stays: the garbage collector need not go through it, neither now nor while tests run.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run tests marked slow")
    parser.addoption("--device", default="cpu", help="device on which device-aware tests run")


# What takes longest comes first, and with it what forks: one worker gets it all, and with it the only server of forks.
FIRST = (
    *("test_unchecked.py", "test_resumption.py", "test_training.py", "test_parsing_run.py", "test_model_folder.py"),
    *("test_token2token.py", "test_cli.py", "test_reproduction_tables.py"),
)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of one process the order is the caller's
        items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))
    for item in items:
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
        if is_integration(item):
            item.add_marker("integration")


GUARD = Guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    GUARD.unit = None if "integration" in item.keywords else item.name
    result = yield
    GUARD.unit = None
    return result


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return _skipped_without_extra(report, report.call.excinfo, collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    return _skipped_without_extra(report, call.excinfo, item.path)


def _skipped_without_extra(report: Any, error: pytest.ExceptionInfo[BaseException] | None, file: Path) -> Any:
    """A report, which says that a test is skipped if it failed for want of a package that is not installed."""
    reason = missing_extra(error.value) if report.failed and error is not None else None
    if reason is not None:
        report.outcome, report.longrepr = "skipped", (str(file), 0, f"Skipped: {reason}")
    return report


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def checked_by_default() -> Iterator[None]:
    """Values are checked unless a test says otherwise; ``torch.compile`` switches that off where it first runs."""
    from torch.distributions import Distribution

    default = Distribution._validate_args
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(default)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch, device: str) -> Iterator[None]:
    """Triton kernels run in the interpreter, with tiles so small that short sentences need several, or on a GPU."""
    from structattn.kernels import gpu

    if device == "cpu":
        if os.environ.get("STRUCTATTN_TRITON") != "interpret":
            pytest.skip("the interpreter needs a process of its own: make test-triton")
        from triton import language
        from triton.language import core
        from triton.runtime import interpreter

        from structattn.kernels.gpu import launch, token2token_kernels

        patch = interpreter._patch_lang

        def once(function: object) -> object:
            """It patches Triton's language for each function of a kernel again, which takes half of its time."""
            return patch(function) if core.is_builtin(language.load) or core.is_builtin(core.load) else None

        monkeypatch.setattr(interpreter, "_patch_lang", once)
        # Sums of whole numbers are computed twice, to see whether they overflow: of short sentences none does.
        builder = interpreter.interpreter_builder
        monkeypatch.setattr(builder, "options", dataclasses.replace(builder.options, sanitize_overflow=False))
        for tile in (launch.CHART_TILE, launch.SEQUENCE_TILE, token2token_kernels.TILE):
            for name in tile:
                monkeypatch.setitem(tile, name, 4)
    monkeypatch.setattr(gpu, "_FAILED", {})
    yield
    assert not gpu._FAILED


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr of a command."""
    from structattn.cli import main

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser, of Playwright."""
    from explorer_pages import browser

    with browser() as found:
        yield found


@pytest.fixture
def mutants(request: pytest.FixtureRequest) -> int:
    """How many mutants of each file are tried."""
    return 200 if request.config.getoption("--slow") else 12


@pytest.fixture(scope="session")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a backbone and an adapter, as ``every_model.model_of`` reads them."""
    from every_model import write_backbones

    return write_backbones(tmp_path_factory.mktemp("backbones"))
