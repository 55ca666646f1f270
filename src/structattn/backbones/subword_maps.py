"""Attention weights of backbones, and maps of them, over subwords rather than words; a pair is one text."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.errors import StructAttnError
from structattn.layers.attention_map import SUBWORDS, AttentionMap
from structattn.layers.evaluation_mode import evaluating

if TYPE_CHECKING:
    from structattn.backbones.injection import InjectedModel
    from structattn.data import SubwordBatch
    from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.backbones")
Weights = Float[Tensor, "batch head subword subword"]


@contextmanager
def computing_weights(model: Any) -> Iterator[None]:
    """Inside, a transformers model computes attention weights: it runs ``eager``, and logs so if it did not already.

    Under ``sdpa`` a model asked for its attentions returns none, without an error (transformers 5).
    """
    implementation = model.config._attn_implementation
    if implementation == "eager":
        yield
        return
    LOGGER.info("attention weights: running eager instead of %s, which does not return them", implementation)
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(implementation)


def subword_maps(
    subwords: "SubwordBatch",
    weights: Mapping[str, Weights],
    tokenizer: Any,
    texts: "Sequence[tuple[Sentence, ...]]",
    *,
    priors: Sequence[str] = ("head",),
    allowed: Bool[Tensor, "batch #head subword subword"] | None = None,
) -> list[AttentionMap]:
    """Weights of the modules of a backbone as maps, text by text.

    ``weights`` is from the name of a module to its weights; one name in ``priors`` is that of all heads.
    """
    maps = []
    first = 0
    for row, (ids, mask, text) in enumerate(zip(subwords.ids.cpu(), subwords.mask.cpu(), texts, strict=True)):
        pieces = tuple(tokenizer.convert_ids_to_tokens(ids[mask].tolist()))
        numbers, is_word = (part[row].cpu()[mask].tolist() for part in (subwords.words, subwords.is_word))
        words = tuple(number if real else None for number, real in zip(numbers, is_word, strict=True))
        for path, values in weights.items():
            heads = values[row].float().cpu()[:, mask][:, :, mask]
            names = priors if len(priors) == len(heads) else list(priors) * len(heads)
            head_names = tuple(
                f"{name.replace('/', ' · ')} {head + 1}" for head, name in enumerate(names[: len(heads)])
            )
            keys = None if allowed is None else allowed.expand(-1, len(heads), -1, -1)[row].cpu()[:, mask][:, :, mask]
            maps.append(
                AttentionMap(
                    path,
                    pieces,
                    pieces,
                    heads,
                    "attention",
                    head_names,
                    layer=SUBWORDS,
                    allowed=keys,
                    words=words,
                    sentence=text[0] if len(text) == 1 else None,
                    index=first,
                )
            )
        first += len(text)
    return maps


def injected_weights(injected: "InjectedModel", subwords: "SubwordBatch") -> dict[str, Weights]:
    """See ``InjectedModel.subword_weights``."""
    weights: dict[str, Tensor] = {}

    def record(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if not isinstance(output[1], Tensor):
                raise StructAttnError(f"{name} returned no attention weights")
            weights[name] = output[1].detach()

        return hook

    with ExitStack() as hooks, computing_weights(injected.model), evaluating(injected.model):
        for name, module in injected.biased_modules:
            hooks.callback(module.register_forward_hook(record(name)).remove)
        injected(subwords)
    return weights
