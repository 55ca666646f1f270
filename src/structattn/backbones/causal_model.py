"""A causal language model as a task trains it: priors in its heads, and objectives that teach it syntax.

A text is read between a beginning and an end, and every token is predicted from those before it. Two objectives may be
added to the mean surprisal: tree planting (Yoshida et al. 2024), the divergence of some heads from priors, and TreeReg
(Nandi et al. 2025), the loss of states whose phrases do not split as their trees do. Neither reads a tree when the
trained model is used.
"""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from structattn.backbones.backbone import max_input_length, reads_leftwards
from structattn.backbones.backbone_files import DISK_ONLY, has_parameters, load_backbone, read_backbone_tokenizer
from structattn.backbones.inject import inject
from structattn.backbones.learnt_tokenizers import subword_tokenizer, word_tokenizer
from structattn.backbones.text_boundaries import add_boundaries, boundary_tokens, with_boundaries
from structattn.backbones.word_scoring import Surprisals, word_surprisals
from structattn.data import SentenceBatch, SubwordBatch, Vocabulary, collate, collate_subwords
from structattn.data.vocabulary import UNKNOWN_ID
from structattn.encoders.head_layout import heads_prior, parse_heads
from structattn.errors import ConfigError, MissingStructure, require
from structattn.options.checking import check, suggest
from structattn.syntax import Sentence

if TYPE_CHECKING:
    from structattn.backbones.injection import InjectedModel
    from structattn.backbones.planting import PlantedModel
    from structattn.layers.tree_regularity import TreeSplits

_SKELETON = "backbone"


@dataclass(frozen=True)
class Planting:
    """Heads that learn to attend as a prior prefers; see :func:`structattn.backbones.planting.plant`.

    Attributes:
        weight: factor of the loss; without one, nothing is planted.
        prior: the prior of the heads, by name, as in ``heads_prior``.
        layer: their layer, from 0; negative ones from the end.
        num_heads: how many heads of the layer, from the first on.
        beta: sharpness of the targets.
    """

    weight: float = 0.0
    prior: str = "dependency"
    layer: int = -1
    num_heads: int = 1
    beta: float = 1.0


@dataclass(frozen=True)
class Regularity:
    """States whose phrases learn to split as their trees do (``layers.tree_regularity``); off without a ``weight``.

    They are the output of a ``layer``, from 0 or negative from the end; a share of their first ``channels`` counts.
    """

    weight: float = 0.0
    layer: int = -2
    channels: float = 0.25


@dataclass(frozen=True, eq=False)
class CausalBatch:
    """Texts between a beginning and an end as tokens, with the word that each token counts for: 0 is the beginning.

    ``words`` with beginning and end are what planting reads, ``splits`` of the tokens after the beginning what TreeReg.
    """

    subwords: SubwordBatch
    weight: Float[Tensor, " batch"]
    owners: Tensor
    words: SentenceBatch | None = None
    splits: "TreeSplits | None" = None

    def __len__(self) -> int:
        return len(self.subwords)

    def to(self, device: torch.device | str) -> "CausalBatch":
        """The same batch on another device."""
        moved: dict[str, Any] = {
            name: None if (part := getattr(self, name)) is None else part.to(device) for name in self.__annotations__
        }
        return CausalBatch(**moved)


class CausalModel(nn.Module):
    """A causal language model with its tokenizer, and what it is trained on; made by :func:`causal`."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        injected: "InjectedModel | None",
        planting: Planting,
        regularity: Regularity,
        is_pretrained: bool,
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        # In a tuple, so that the parameters of the model are not counted a second time.
        self._injected = () if injected is None else (injected,)
        self.prior = None if injected is None else injected.prior
        self.planting = planting
        self.regularity = regularity
        self.is_pretrained = is_pretrained
        self.max_length = max_input_length(model, tokenizer)

    @property
    def language_model(self) -> Any:
        """What scores and continues texts: the model of transformers, or the injected one."""
        return self._injected[0] if self._injected else self.model

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the configuration of the model and the tokenizer, and return how a model's folder names them."""
        config: Any = self.model.config
        config.save_pretrained(folder / _SKELETON)
        tokenizer = copy.copy(self.tokenizer)
        # transformers notes how a tokenizer was read from a folder, and a copy would not have the same bytes.
        noted = {"is_local", *DISK_ONLY}
        tokenizer.init_kwargs = {name: each for name, each in tokenizer.init_kwargs.items() if name not in noted}
        tokenizer.save_pretrained(folder / _SKELETON)
        return {"name": _SKELETON, "folder": _SKELETON}

    def collate(self, sentences: Sequence[Sentence], weights: Sequence[float]) -> CausalBatch:
        """Sentences as a batch; a ``MissingStructure`` for one without the phrase tree that TreeReg learns from."""
        subwords, owners = add_boundaries(
            collate_subwords(sentences, self.tokenizer), self.tokenizer, with_end=True, max_length=self.max_length
        )
        for injected in self._injected:
            subwords = replace(subwords, text=injected.collate_words(subwords))
        words = collate([*map(with_boundaries, sentences)], Vocabulary([])) if self.planting.weight else None
        splits = _split(sentences, _inner_words(subwords, owners)) if self.regularity.weight else None
        return CausalBatch(subwords, torch.tensor(weights), owners, words, splits)

    def forward(self, batch: CausalBatch) -> tuple[Float[Tensor, "batch token"], Float[Tensor, ""]]:
        """The surprisal of each token after the beginning, in nats and 0 at padding, and the weighted objectives."""
        subwords, options = batch.subwords, {"use_cache": False, "output_hidden_states": batch.splits is not None}
        objectives = torch.zeros((), device=subwords.device)
        with contextlib.ExitStack() as stack:
            planted = None
            if batch.words is not None:
                planted = self.plant()
                stack.callback(planted.remove)
            if self._injected:
                output = self._injected[0](subwords, **options)
            else:
                output = self.model(input_ids=subwords.ids, attention_mask=subwords.mask.long(), **options)
            if planted is not None and batch.words is not None:
                objectives = objectives + self.planting.weight * planted.divergence(batch.words, batch.owners)
        if batch.splits is not None:
            from structattn.layers.tree_regularity import tree_regularity

            layer = self.regularity.layer % (len(output.hidden_states) - 1)
            states, mask = output.hidden_states[layer + 1][:, 1:], _inner_words(subwords, batch.owners) >= 0
            loss = tree_regularity(states, batch.splits, mask, channels=self.regularity.channels)
            objectives = objectives + self.regularity.weight * loss
        targets = subwords.ids[:, 1:]
        surprisals = F.cross_entropy(output.logits[:, :-1].flatten(0, 1).float(), targets.flatten(), reduction="none")
        return surprisals.view_as(targets).masked_fill(~subwords.mask[:, 1:], 0.0), objectives

    def surprisals(self, sentences: Sequence[Sentence]) -> Iterator[Surprisals]:
        """The surprisal of the words of each sentence, see ``word_surprisals``."""
        return word_surprisals(self.language_model, sentences, tokenizer=self.tokenizer)

    def plant(self) -> "PlantedModel":
        """The model with its planted heads, until ``remove``; nothing of them is left in a trained model."""
        from structattn.backbones.planting import plant

        prior = heads_prior([self.planting.prior]).to(next(self.model.parameters()).device)
        heads = {(self.planting.layer, head): prior for head in range(self.planting.num_heads)}
        return plant(self.model, heads, tokenizer=self.tokenizer, beta=self.planting.beta)

    def check_objectives(self) -> None:
        """Refuse values out of range, and objectives of layers, heads or priors that the model lacks."""
        config: Any = self.model.config
        count, regularity, planting = int(config.num_hidden_layers), self.regularity, self.planting
        for name, weight in (("planting", planting.weight), ("regularity", regularity.weight)):
            check(0 <= weight < math.inf, f"{name}.weight", "at least 0", weight)
        check(planting.num_heads >= 1, "planting.num_heads", "at least 1", planting.num_heads)
        check(0 < regularity.channels <= 1, "regularity.channels", "a share above 0", regularity.channels)
        is_layer = not regularity.weight or -count <= regularity.layer < count
        check(is_layer, "regularity.layer", f"-{count} to {count - 1} for this model", regularity.layer)
        if planting.weight:
            self.plant().remove()


def _inner_words(subwords: SubwordBatch, owners: Tensor) -> Int64[Tensor, "batch token"]:
    """The word of each token after the beginning; -1 at the end and at padding."""
    words = owners[:, 1:] - 1
    return torch.where((words >= 0) & (words < subwords.num_words[:, None]), words, -1)


def _split(sentences: Sequence[Sentence], words: Int64[Tensor, "batch token"]) -> "TreeSplits":
    from structattn.layers.tree_regularity import tree_splits

    trees = []
    for index, (sentence, row) in enumerate(zip(sentences, words.tolist(), strict=True)):
        if len(sentence) and sentence.constituency is None:
            message = f"TreeReg learns from phrase trees, {' '.join(sentence.words[:6])!r} ... has none"
            raise MissingStructure(message, index=index, structure="constituency")
        # A tokenizer may have dropped all characters of a word.
        trees.append(sentence.constituency if len({*row} - {-1}) == len(sentence) else None)
    return tree_splits(trees, words)


def causal(
    sentences: Sequence[Sentence],
    vocabulary: Vocabulary,
    folder: str = "",
    *,
    config: dict[str, Any] | None = None,
    tokenizer: str = "",
    num_subwords: int | None = None,
    heads: str | Sequence[str | Sequence[str]] | None = None,
    layers: Sequence[int] | None = None,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    planting: Planting = Planting(),
    regularity: Regularity = Regularity(),
) -> CausalModel:
    """A causal language model of transformers, plain, with priors in its heads, or trained on trees as well.

    Args:
        sentences: the training data, from which subwords are learnt.
        vocabulary: its words.
        folder: of a causal language model, with its tokenizer; its parameters are fresh if it has none.
        config: without a folder, the configuration of the model, such as ``{"model_type": "gpt2", "n_layer": 4,
            "n_embd": 256, "n_head": 8}``; sizes that are not given are those of transformers.
        tokenizer: without a folder, that of a fast tokenizer; if empty, each word of the vocabulary is a token.
        num_subwords: learn at most so many subwords from the training data, in place of its words.
        heads: the priors of the heads, see ``heads_prior``, repeated if the model has a multiple of that number; none
            may read later words. Plain heads if ``None``.
        layers: the layers with priors, from 0, negative ones from the end; all if ``None``.
        alpha: weight of the distances, or ``"alibi"`` for a geometric series over the heads (Press et al. 2022).
        learnable_alpha: whether ``alpha`` is the initial value of a learnt weight for each head.
        planting: heads that learn from a prior; off by default.
        regularity: states that learn from phrase trees (TreeReg); off by default.

    Raises:
        ConfigError: for neither a folder nor a configuration, or both; for a model that is not causal; for a tokenizer
            without tokens for the beginning and the end of a text; as ``inject`` and ``plant``.
        ParseError: if a file of a folder is damaged.
    """
    if folder and (config is not None or tokenizer or num_subwords is not None):
        raise ConfigError("options: a folder has its own config, tokenizer and subwords; leave out either of them")
    if folder:
        model, reader = load_backbone(folder, reader="AutoModelForCausalLM")
    elif config is None:
        raise ConfigError(
            "a language model needs the folder of one (--backbone FOLDER, in Python embedder={'folder': FOLDER}), or "
            "the configuration of a new one: --options.config.model_type gpt2 --options.config.n_layer 4 "
            "--options.config.n_embd 256 --options.config.n_head 8"
        )
    else:
        reader = _choose_tokenizer(sentences, vocabulary, tokenizer, num_subwords)
        model = _new_model(config, reader)
    if not reads_leftwards(model):
        raise ConfigError(f"expected a causal language model, got {type(model).__name__}, which reads both ways")
    boundary_tokens(reader, with_end=True)
    injected = None
    settings: Any = model.config
    if heads is not None:
        names = ["/".join(pair) for pair in parse_heads(heads)]
        count = int(settings.num_attention_heads)
        if count % len(names):
            raise ConfigError(f"heads: expected a number that divides the model's {count} heads, got {len(names)}")
        injected = inject(
            model,
            names * (count // len(names)),
            layers,
            alpha=alpha,
            learnable_alpha=learnable_alpha,
            tokenizer=reader,
        )
    elif layers is not None or alpha != 1.0 or learnable_alpha:
        raise ConfigError("options: layers and alpha are those of priors; expected heads beside them")
    is_pretrained = bool(folder) and has_parameters(folder)
    made = CausalModel(
        model, reader, injected=injected, planting=planting, regularity=regularity, is_pretrained=is_pretrained
    )
    made.check_objectives()
    return made


def _choose_tokenizer(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, folder: str, num_subwords: int | None
) -> Any:
    if folder and num_subwords is not None:
        raise ConfigError("num_subwords: expected none beside a tokenizer, which has its own")
    if folder:
        return read_backbone_tokenizer(folder)
    if num_subwords is None:
        words = vocabulary.words[UNKNOWN_ID + 1 :]
        check(len(words) >= 2, "training data", "at least two different words", words)
        return word_tokenizer(vocabulary)
    check(num_subwords >= 1, "num_subwords", "at least 1", num_subwords)
    return subword_tokenizer((" ".join(sentence.words) for sentence in sentences), num_subwords)


def _new_model(config: Mapping[str, Any], tokenizer: Any) -> nn.Module:
    """A model of a configuration with fresh parameters, for the tokens of a tokenizer."""
    transformers = require("transformers", "train")
    kinds = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    values = dict(config)
    kind = values.pop("model_type", None)
    if kind not in kinds:
        raise ConfigError(
            f"config.model_type: expected that of a causal language model, such as gpt2 or llama, got {kind!r}"
            f"{suggest(str(kind), kinds)}"
        )
    usual = transformers.AutoConfig.for_model(kind)
    names = {*usual.to_dict(), *usual.attribute_map} - {"vocab_size"}  # which is that of the tokenizer
    for name in values:
        check(name in names, "config", f"options of a {kind}{suggest(name, names)}", name)
    tokens = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    try:
        made = transformers.AutoConfig.for_model(kind, **{**tokens, **values, "vocab_size": len(tokenizer)})
        model: nn.Module = transformers.AutoModelForCausalLM.from_config(made, dtype=torch.float32)
    except Exception as error:  # whatever transformers raises for a value that does not fit
        raise ConfigError(f"config of a {kind}: {' '.join(str(error).split())[:200]}") from None
    return model
