"""Names of the losses between scores of pairs and a relation; see `relation_loss`."""

from typing import Literal

Objective = Literal["mse", "bce", "ce", "kl"]
Reduction = Literal["sentences", "pairs"]
OBJECTIVES: tuple[Objective, ...] = ("mse", "bce", "ce", "kl")
