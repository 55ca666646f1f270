"""The configuration of a HYDRA layer, as a frozen dataclass that an adapter folder stores as JSON.

HYDRA (arXiv 2109.05349). What the paper leaves open (layer style, subword policy, special tokens) is an option here.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from structattn.data.relation_names import parse_relation
from structattn.errors import ConfigError

Objective = Literal["mse", "bce", "ce", "kl"]
Reduction = Literal["sentences", "pairs"]
LayerStyle = Literal["residual", "attention", "gated", "transformer"]
Subword = Literal["all", "first", "mean", "sgnet"]
Special = Literal["zero", "ignore"]


@dataclass(frozen=True)
class HydraConfig:
    """A HYDRA layer: its heads, their target relations, and how their output joins the backbone's states.

    Attributes:
        num_heads: number of heads; as many as the backbone has if ``None``.
        relation: target of the heads' scores, see ``structattn.data.parse_relation``: one relation for all heads, or
            one per head.
        layer_style: how the heads' output joins the backbone's states: ``residual`` (added), ``attention`` (mapped,
            added, normalised), ``gated`` (mapped and added with a weight; the map starts at 0, so that the layer
            changes nothing at first) or ``transformer`` (the paper's: a whole post-norm block).
        head_dim: width of a head; ``dim / num_heads`` if ``None``.
        feed_forward_dim: width of the hidden layer of ``transformer``; four times that of the states if ``None``.
        subword: which subwords have the relations of their word: ``all`` of them, the ``first``, or those of SG-Net's
            rule ``sgnet`` (every subword is a query, first subwords are keys). With ``mean``, the mean of all pairs of
            subwords is supervised.
        special: whether special tokens count as unrelated to everything (``zero``) or do not count (``ignore``).
        root_to_cls: also relate the root word of a tree to the first special token, such as ``[CLS]``, as if that were
            the artificial root of CoNLL-U (head 0): ``arc`` both ways, ``head`` and ``ancestor`` from the word to the
            token, ``child`` from the token to the word; other relations stay as they are. The paper relates words only.
        objective: the loss between scores and relation, see ``relation_loss``.
        reduction: mean over sentences, or over all pairs of a batch.
        target_scale: factor of the relation. Scores of 0 and 1 give soft attention; 4 to 6 make it sharper.
        gate_init: the weight that ``gated`` starts with. With 0 the map has a random initialisation instead, which
            trains badly: while the weight is near 0 the map gets hardly any gradient, and vice versa.
        dropout: on the attention weights and the mapped output.
        layer: where the layer is placed: an index into the backbone's hidden states, which the heads read. -1, the
            last, is on top of the backbone; otherwise the backbone's layers above read the HYDRA layer's output.

    Raises:
        ConfigError: for a value out of its range, or an unknown relation or option.

    Example:
        >>> HydraConfig(num_heads=2, relation=("head", "child")).relations
        ('head', 'child')
        >>> HydraConfig(layer_style="wide")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: layer_style: unknown value 'wide'; known: residual, attention, gated,
        transformer
    """

    num_heads: int | None = 12
    relation: str | Sequence[str] = "arc"
    layer_style: str = "gated"
    head_dim: int | None = None
    feed_forward_dim: int | None = None
    subword: str = "all"
    special: str = "zero"
    root_to_cls: bool = False
    objective: str = "mse"
    reduction: str = "sentences"
    target_scale: float | int = 1.0
    gate_init: float | int = 1.0
    dropout: float | int = 0.1
    layer: int = -1

    def __post_init__(self) -> None:
        choices = {
            "layer_style": get_args(LayerStyle),
            "subword": get_args(Subword),
            "special": get_args(Special),
            "objective": get_args(Objective),
            "reduction": get_args(Reduction),
        }
        for name, values in choices.items():
            if getattr(self, name) not in values:
                raise ConfigError(f"{name}: unknown value {getattr(self, name)!r}; known: {', '.join(values)}")
        for name in ("num_heads", "head_dim", "feed_forward_dim"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ConfigError(f"{name}: expected at least 1, got {size}")
        if not (0 < self.target_scale < math.inf and math.isfinite(self.gate_init)):
            raise ConfigError(
                f"expected a target_scale above 0 and a finite gate_init, got {self.target_scale} and {self.gate_init}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout: expected a share below 1, got {self.dropout}")
        if isinstance(self.relation, str) and len(names := self.relation.split()) > 1:
            object.__setattr__(self, "relation", names)
        if not isinstance(self.relation, str):
            object.__setattr__(self, "relation", tuple(self.relation))
            if self.num_heads is not None and len(self.relation) != self.num_heads:
                raise ConfigError(
                    f"relation: expected one name, or one for each of {self.num_heads} heads, got {len(self.relation)}"
                )
        for relation in self.relations:
            parsed = parse_relation(relation)
            if parsed.is_distance and self.objective != "mse":
                raise ConfigError(f"relation {relation!r} has negative targets, which {self.objective!r} cannot learn")
        if self.subword in ("mean", "sgnet") and self.root_to_cls:
            raise ConfigError(f"root_to_cls: there is no rule for it with subword={self.subword!r}")

    @property
    def relations(self) -> tuple[str, ...]:
        """The distinct relations, in the order of the heads."""
        return tuple(dict.fromkeys([self.relation] if isinstance(self.relation, str) else self.relation))

    @property
    def assignment(self) -> tuple[int, ...]:
        """For each head, the index of its relation in ``relations``."""
        if isinstance(self.relation, str):
            return (0,) * (self.num_heads or 1)
        return tuple(self.relations.index(name) for name in self.relation)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "HydraConfig":
        """The inverse of ``to_dict``.

        Args:
            values: options by name; defaults for those that are missing.

        Raises:
            ConfigError: for an unknown name.

        Example:
            >>> HydraConfig.from_dict(HydraConfig(num_heads=4).to_dict()) == HydraConfig(num_heads=4)
            True
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise ConfigError(f"unknown option {name!r} of HYDRA; known: {', '.join(names)}")
        return cls(**values)


def typed_objective(config: HydraConfig) -> tuple[Objective, Reduction]:
    """The objective and reduction as the types that ``relation_loss`` takes; the configuration has checked them."""
    objective: Any = config.objective
    reduction: Any = config.reduction
    return objective, reduction
