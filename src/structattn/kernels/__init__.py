"""The inner loops that decide the speed, one file per family, each behind two names: ``marginals`` and ``hvp``.

What is here is plain torch: exact at any spread of the scores, vectorised over sentences and spans, on any device.
"""

from structattn.kernels import chain, constituency, dependency, segments, spanning_tree

__all__ = ["chain", "constituency", "dependency", "segments", "spanning_tree"]
