"""Language features that the kernels use and that Triton 3.6, the version of PyTorch 2.11, lacks."""

import functools
from typing import Any


@functools.cache  # once per process, however many devices it has
def let_functions_return_none(generator: Any, constant: type) -> None:
    """Let functions of kernels return None for absent values, as Triton 3.7 does.

    Triton 3.6 converts every constant that a function returns to a tensor, and fails for None. Programs that it can
    compile are compiled as before.

    Args:
        generator: Triton's ``CodeGenerator``.
        constant: Triton's ``constexpr``.
    """
    compiled = generator.visit_Return

    @functools.wraps(compiled)
    def visit_return(self: Any, node: Any) -> Any:
        to_tensor = self.semantic.to_tensor

        def unless_none(value: Any, *options: Any, **named: Any) -> Any:
            is_none = isinstance(value, constant) and value.value is None  # type: ignore[attr-defined]  # of constexpr
            return value if is_none else to_tensor(value, *options, **named)

        self.semantic.to_tensor = unless_none
        try:
            return compiled(self, node)
        finally:
            self.semantic.to_tensor = to_tensor

    generator.visit_Return = visit_return
