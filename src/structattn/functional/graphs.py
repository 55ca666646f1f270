"""Queries about the graph that a model is being traced into."""

import torch

_CANNOT_TELL = torch.__version__ < "2.13"


def is_exporting() -> bool:
    """Whether ``torch.export`` is tracing a program that has to run without this package.

    In PyTorch 2.10, ``torch.compiler.is_exporting`` is true within ``torch.compile`` too. There Dynamo tells the two
    apart: it traces for ``torch.compile`` but, unless ``strict`` is requested, not for ``torch.export``.

    Example:
        >>> is_exporting()
        False
    """
    if _CANNOT_TELL and torch.compiler.is_dynamo_compiling():
        return False
    return torch.compiler.is_exporting()
