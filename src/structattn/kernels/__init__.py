"""The performance-critical inner loops: one file for each family of structures, with its `Operators`.

Compiled programs are in ``native`` and ``gpu``. The plain-torch programs here are exact at any spread of the scores,
run on any device, and serve as the reference that the compiled ones are tested against.
"""

from structattn.kernels.programs import plain_torch

__all__ = ["plain_torch"]
