"""What a model may ask about the graph that it is being traced into."""

import torch

_CANNOT_TELL = torch.__version__ < "2.13"


def is_exporting() -> bool:
    """Whether ``torch.export`` is tracing a program that has to run without this package.

    PyTorch 2.10 answers ``torch.compiler.is_exporting`` by yes within ``torch.compile`` too. There Dynamo tells the two
    apart, which traces for ``torch.compile`` and, unless ``strict`` is asked for, not for ``torch.export``.

    Example:
        >>> is_exporting()
        False
    """
    if _CANNOT_TELL and torch.compiler.is_dynamo_compiling():
        return False
    return torch.compiler.is_exporting()
