"""Batches as pytrees, so that ``torch.export`` and ``torch.utils`` see their tensors by name."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch.utils import _pytree

_Class = TypeVar("_Class")


@runtime_checkable
class Batch(Protocol):
    """A batch that can be taken apart into named tensors and plain facts, and put together again."""

    def tensors(self) -> dict[str, Any]:
        """All tensors by name."""
        ...

    def facts(self) -> dict[str, Any]:
        """Everything else that a computation may depend on, as JSON values."""
        ...

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "Batch":
        """The batch of these tensors, which are not checked."""
        ...


def register(cls: type[Batch]) -> None:
    """Make a class of batches a pytree: its tensors are the leaves, their names and the facts are the structure."""

    def flatten(batch: Batch) -> tuple[list[Any], str]:
        tensors = batch.tensors()
        return [*tensors.values()], json.dumps([[*tensors], batch.facts()], sort_keys=True)

    def flatten_with_keys(batch: Batch) -> tuple[list[tuple[Any, Any]], str]:
        leaves, context = flatten(batch)
        return [(_pytree.MappingKey(name), leaf) for name, leaf in zip(batch.tensors(), leaves, strict=True)], context

    def unflatten(leaves: Any, context: str) -> Batch:
        names, facts = json.loads(context)
        return cls.from_tensors(dict(zip(names, leaves, strict=True)), facts)

    _pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=lambda context: context,
        from_dumpable_context=lambda context: context,
        flatten_with_keys_fn=flatten_with_keys,
    )


def assemble(cls: type[_Class], **fields: Any) -> _Class:
    """A frozen dataclass with these fields, unchecked: a pytree may contain anything in place of a tensor.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Pair:
        ...     first: int
        >>> assemble(Pair, first="anything")
        Pair(first='anything')
    """
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def below(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors whose names begin with a prefix, without it.

    Example:
        >>> below("tree.", {"tree.parents": 1, "mask": 2})
        {'parents': 1}
    """
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
