"""Where no Triton kernel can run, plain torch answers, and one line says why."""

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from structattn.distributions import DependencyCRF
from structattn.functional import token2token
from structattn.kernels import gpu, plain_torch, programs


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels are asked for, as they are for tensors on a GPU."""
    monkeypatch.setattr(programs, "IS_INTERPRETED", True)
    monkeypatch.setattr(gpu, "_FAILED", {})
    caches = (gpu._usable, gpu._triton, gpu._log_once)
    for cache in caches:
        cache.cache_clear()
    yield
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def answers() -> list[torch.Tensor]:
    scores = torch.linspace(-1, 1, 24, dtype=torch.float64).sin().view(2, 3, 4).requires_grad_()
    trees = DependencyCRF(scores, [3, 2])
    (gradient,) = torch.autograd.grad(trees.marginals().square().sum(), scores)
    return [trees.log_partition().detach(), trees.marginals().detach(), gradient, trees.argmax()]


def test_without_triton_one_line_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=missing))
    with caplog.at_level(logging.WARNING, logger="structattn"):
        found = [*answers(), *answers()]
    assert len(caplog.records) == 1
    assert "Triton is not installed: pip install 'structattn[gpu]'" in caplog.text
    assert "Triton is not installed" in gpu.status()
    with plain_torch():
        for own, twin in zip(found, 2 * answers(), strict=True):
            torch.testing.assert_close(own, twin, atol=1e-12, rtol=0)


def test_functions_of_kernels_return_none_in_triton_3_6(monkeypatch: pytest.MonkeyPatch) -> None:
    class Semantic:
        def to_tensor(self, value: Any) -> str:
            if value.value is None:
                raise TypeError("cannot convert None to tensor")
            return f"tensor of {value.value}"

    def returned(generator: Any, values: list[Any]) -> list[Any]:
        return [generator.semantic.to_tensor(value) for value in values]

    generator: Any = type("CodeGenerator", (), {"semantic": Semantic(), "visit_Return": returned})

    def made(name: str) -> SimpleNamespace:
        language = SimpleNamespace(constexpr=SimpleNamespace)
        return SimpleNamespace(__version__="3.6.0", language=language, CodeGenerator=generator)

    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=made))
    gpu.status(torch.device("cpu"))
    none, two = SimpleNamespace(value=None), SimpleNamespace(value=2)
    for _ in range(2):
        assert generator().visit_Return([none, two]) == [none, "tensor of 2"]
    with pytest.raises(TypeError, match="cannot convert"):
        generator.semantic.to_tensor(none)


def test_the_reason_of_a_failure_is_its_root_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        try:
            raise TypeError("at 13:8:\n    return (None, 0)\n    ^\ncannot convert None to tensor")
        except TypeError as error:
            raise RuntimeError("at 4:11:\n    form = distances(plane)") from error

    module = SimpleNamespace(__version__="9.9", marginals=broken, hvp=broken, argmax=broken)
    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=lambda name: module))
    answers()
    assert set(gpu._FAILED.values()) == {"cannot convert None to tensor"}


def test_a_kernel_that_cannot_be_compiled_is_reported_once_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def broken(*args: Any) -> None:
        calls.append(args)
        raise RuntimeError("ptxas: no room for registers\nand much more")

    module = SimpleNamespace(__version__="9.9", marginals=broken, hvp=broken, argmax=broken)
    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=lambda name: module))
    with caplog.at_level(logging.WARNING, logger="structattn"):
        found = [*answers(), *answers()]
    assert len(calls) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"dependency_{name} runs in plain torch, exact but slower: ptxas: no room for registers"
        for name in ("marginals", "hvp", "argmax")
    ]
    status = gpu.status()
    assert status.startswith("Triton 9.9: dependency_sample, spanning_tree_marginals, ")
    assert "; in plain torch: dependency_marginals (ptxas: no room for registers), dependency_hvp (" in status
    with plain_torch():
        for own, twin in zip(found, 2 * answers(), strict=True):
            torch.testing.assert_close(own, twin, atol=1e-12, rtol=0)


def test_without_its_kernel_token2token_runs_in_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("ptxas: no room for registers")

    def found() -> list[torch.Tensor]:
        tensors = [torch.linspace(-1, 1, 8).sin().view(1, 4, 2).roll(shift, 1).requires_grad_() for shift in range(3)]
        queries, keys, values = tensors
        output = token2token(queries, keys, torch.zeros(2), values, torch.ones(1, 4, 4, dtype=torch.bool).tril())
        return [output.detach(), *torch.autograd.grad(output.square().sum(), tensors)]

    module = SimpleNamespace(__version__="9.9", attend=broken, gradients=broken)
    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=lambda name: module))
    answers = found()
    assert list(gpu._FAILED) == ["token2token_attend", "token2token_gradients"]
    monkeypatch.undo()
    for own, twin in zip(answers, found(), strict=True):
        torch.testing.assert_close(own, twin, atol=1e-6, rtol=0)


def test_out_of_memory_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    module = SimpleNamespace(__version__="9.9", marginals=full, hvp=full)
    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(import_module=lambda name: module))
    with pytest.raises(torch.OutOfMemoryError):
        answers()
    assert not gpu._FAILED


def test_plain_torch_can_be_requested(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(gpu, "_CHOICE", "0")
    with caplog.at_level(logging.WARNING, logger="structattn"):
        assert programs.find_on_device("dependency_marginals", torch.zeros(1, 1, 2)) is None
    assert not caplog.records
    assert gpu.status() == "plain torch: asked for by STRUCTATTN_TRITON=0"


def test_tensors_on_the_cpu_do_not_import_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "IS_INTERPRETED", False)
    monkeypatch.setattr(gpu, "importlib", SimpleNamespace())  # importing anything would fail
    assert programs.find_on_device("dependency_marginals", torch.zeros(1, 1, 2)) is None
    assert gpu.status() == "plain torch: no NVIDIA GPU" or torch.cuda.is_available()
