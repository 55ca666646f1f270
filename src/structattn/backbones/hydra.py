"""HYDRA heads on a backbone: a wrapper with the backbone's interface, one more layer, and the scores of its heads.

HYDRA (arXiv 2109.05349). At test time it needs no parser: trees are needed only while the heads are trained to score
them (``training/heads.py``). The adapter folder is that of ``adapter.py``.
"""

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from structattn.backbones.backbone import reads_leftwards
from structattn.backbones.hydra_config import HydraConfig, typed_objective
from structattn.backbones.hydra_layer import HydraLayer, find_layer_above, run_with_layer
from structattn.backbones.relation_heads import relation_loss
from structattn.errors import ConfigError


class HydraModel(nn.Module):
    """A backbone with a HYDRA layer on top.

    On a decoder, which reads leftwards only, the layer attends to no later token either.

    Args:
        base: an encoder or decoder as ``AutoModel`` returns it, or a model with a classifier or a language model's
            head, whose backbone is taken.
        config: the layer.

    Raises:
        ConfigError: if the model is not an encoder, its width does not suit the heads, or it has no such layer.

    Warns:
        UserWarning: if a classifier or a language model's head is left out.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> backbone = BertModel(config).eval()
        >>> model = HydraModel(backbone, HydraConfig(num_heads=2)).eval()
        >>> ids = torch.tensor([[2, 5, 3]])
        >>> torch.equal(model(input_ids=ids).last_hidden_state, backbone(input_ids=ids).last_hidden_state)
        True
        >>> model.hydra_scores(input_ids=ids).shape
        torch.Size([1, 2, 3, 3])
    """

    def __init__(self, base: nn.Module, config: HydraConfig) -> None:
        super().__init__()
        whole, base = base, find_backbone(base)
        settings: Any = base.config
        if config.num_heads is None:
            config = dataclasses.replace(config, num_heads=int(settings.num_attention_heads))
        find_layer_above(base, config.layer)  # refuses a layer that there is not
        self.base = base
        self.hydra_config = config
        try:
            self.hydra = HydraLayer(int(settings.hidden_size), config, is_causal=reads_leftwards(base))
        except ValueError as error:
            raise ConfigError(f"HYDRA on a backbone of width {settings.hidden_size}: {error}") from None
        first = next(parameter for parameter in base.parameters() if parameter.is_floating_point())
        self.hydra.to(first.device, first.dtype)
        self.is_enabled = True
        _warn_of_parts(whole, base)
        # Lets saving distinguish parts that were never trained from those that were.
        self._fresh = {} if self.hydra.value.weight.is_meta else self.hydra.fingerprints()

    @property
    def config(self) -> Any:
        """The backbone's configuration."""
        return self.base.config

    @property
    def dim(self) -> int:
        """Width of the states."""
        return int(self.config.hidden_size)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        relation: Shaped[Tensor, "batch subword subword"] | Shaped[Tensor, "batch #head subword subword"] | None = None,
        output_hydra_scores: bool = False,
        **inputs: Any,
    ) -> Any:
        """The backbone's output, with the ``last_hidden_state`` of the HYDRA layer, or of the layers above it.

        Args:
            input_ids: subword ids.
            attention_mask: 1 at subwords, 0 at padding; ``(batch, subword)``.
            relation: target of the scores; if given, the output also has ``hydra_loss``.
            output_hydra_scores: whether the output also has ``hydra_scores``.
            **inputs: whatever else the backbone takes. With ``output_attentions`` it runs ``eager``, so that
                ``attentions`` has the weights of every layer, with the HYDRA layer's at its position.

        Raises:
            ConfigError: for ``past_key_values``, which stand for tokens that the heads have to read.
        """
        arguments = {"input_ids": input_ids, "attention_mask": attention_mask, **inputs}
        if not self.is_enabled:
            return self.base(**arguments)
        if inputs.get("past_key_values") is not None:
            raise ConfigError(
                "past_key_values: HYDRA heads read every token of a text; leave it out, and pass whole texts"
            )
        mask, need_weights = self._mask(arguments), self._is_requested("output_attentions", inputs)
        with self._computing_weights() if need_weights else contextlib.nullcontext():
            output, states, weights = run_with_layer(self.base, self.hydra, arguments, mask, need_weights=need_weights)
        above = find_layer_above(self.base, self.hydra_config.layer)
        pooler = getattr(self.base, "pooler", None)
        if above is None and pooler is not None and output.get("pooler_output") is not None:
            output.pooler_output = pooler(output.last_hidden_state)
        if weights is not None and output.get("attentions") is not None:
            layers = output.attentions
            above = len(layers) if above is None else above
            output.attentions = (*layers[:above], weights, *layers[above:])
        if output_hydra_scores or relation is not None:
            scores = self.hydra.heads.scores(states)
            if output_hydra_scores:
                output["hydra_scores"] = scores
            if relation is not None:
                objective, reduction = typed_objective(self.hydra_config)
                output["hydra_loss"] = relation_loss(scores, relation, mask, objective=objective, reduction=reduction)
        return output if self._is_requested("return_dict", inputs) else output.to_tuple()

    def hydra_scores(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> Float[Tensor, "batch head subword subword"]:
        """The heads' raw scores ``M^h``, rows are queries. Finite but meaningless at padding.

        Args:
            input_ids: subword ids, ``(batch, subword)``.
            attention_mask: 1 at subwords, 0 at padding, ``(batch, subword)``; no padding if ``None``.
            **inputs: whatever else the backbone takes.
        """
        states, _ = self.backbone_states(input_ids, attention_mask, **inputs)
        return self.hydra.heads.scores(states)

    def backbone_states(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> tuple[Float[Tensor, "batch subword dim"], Bool[Tensor, "batch subword"]]:
        """The states that the heads read, and the mask of real ones.

        Args:
            input_ids: subword ids, ``(batch, subword)``.
            attention_mask: 1 at subwords, 0 at padding, ``(batch, subword)``; no padding if ``None``.
            **inputs: whatever else the backbone takes.
        """
        arguments = {"input_ids": input_ids, "attention_mask": attention_mask, **inputs}
        mask, above = self._mask(arguments), find_layer_above(self.base, self.hydra_config.layer)
        inner = {} if above is None else {"output_hidden_states": True}
        output = self.base(**{**arguments, **inner, "return_dict": True})
        states: Tensor = output.last_hidden_state if above is None else output.hidden_states[above]
        return states, mask

    @contextlib.contextmanager
    def disable_adapter(self) -> Iterator["HydraModel"]:
        """Inside the ``with`` block the model is the backbone alone."""
        was_enabled, self.is_enabled = self.is_enabled, False
        try:
            yield self
        finally:
            self.is_enabled = was_enabled

    def freeze(self, *parts: str) -> "HydraModel":
        """Freeze some parameters.

        Args:
            parts: ``backbone``, ``heads`` (queries and keys) or the whole ``layer``.

        Returns:
            The model itself.

        Raises:
            ConfigError: for another name.
        """
        modules = {"backbone": self.base, "heads": self.hydra.heads, "layer": self.hydra}
        for part in parts:
            if part not in modules:
                raise ConfigError(f"freeze: unknown part {part!r}; known: {', '.join(modules)}")
            modules[part].requires_grad_(False)
        return self

    def trainable_parameters(self) -> tuple[int, int]:
        """Number of trainable parameters, and of all parameters."""
        counts = [(parameter.numel(), parameter.requires_grad) for parameter in self.parameters()]
        return sum(count for count, trained in counts if trained), sum(count for count, _ in counts)

    def print_trainable_parameters(self) -> None:
        """Print ``trainable params: T || all params: N || trainable%: P``, as PEFT does."""
        trained, every = self.trainable_parameters()
        print(f"trainable params: {trained:,} || all params: {every:,} || trainable%: {100 * trained / every:.4f}")

    def untrained_parts(self) -> set[str]:
        """Names of the layer's parameters that still have their initial values."""
        fingerprints = self.hydra.fingerprints()
        return {name for name, value in self._fresh.items() if fingerprints[name] == value}

    def save_pretrained(self, folder: str | os.PathLike[str], *, card: bool = True) -> None:
        """Write an adapter folder: ``adapter_config.json``, ``adapter_model.safetensors`` and ``README.md``.

        Queries, keys and values are always saved. The other parts of the layer are saved once they have been trained.
        Untrained ones are left out and initialised again when the folder is read; in the styles ``attention`` and
        ``transformer`` this is random, so the model that is read gives other states.
        """
        from structattn.backbones.adapter import save_adapter

        save_adapter(self.hydra, self.base, folder, untrained=self.untrained_parts(), card=card)

    @classmethod
    def from_pretrained(cls, base: nn.Module, folder: str | os.PathLike[str]) -> "HydraModel":
        """Add the heads of an adapter folder to a backbone; see ``add_heads``.

        Args:
            base: the backbone, or a model with a task's classifier, whose backbone is taken.
            folder: the folder.
        """
        return add_heads(base, folder)

    def _is_requested(self, name: str, inputs: dict[str, Any]) -> bool:
        """Whether a call, or else the backbone's configuration, asks for an output, as in transformers."""
        requested = inputs.get(name)
        return bool(getattr(self.config, name, False) if requested is None else requested)

    def _computing_weights(self) -> contextlib.AbstractContextManager[None]:
        from structattn.backbones.subword_maps import computing_weights

        return computing_weights(self.base)

    def _mask(self, arguments: dict[str, Any]) -> Bool[Tensor, "batch subword"]:
        mask: Tensor | None = arguments["attention_mask"]
        if mask is None:
            inputs = arguments["input_ids"] if arguments["input_ids"] is not None else arguments["inputs_embeds"]
            return torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        if mask.dim() != 2:
            raise ValueError(f"HYDRA expects attention_mask of shape (batch, subword), got {tuple(mask.shape)}")
        return mask.bool()


def add_heads(backbone_or_model: nn.Module, config_or_folder: HydraConfig | str | os.PathLike[str]) -> HydraModel:
    """Add HYDRA heads to a backbone: fresh ones for a configuration, trained ones from an adapter folder.

    Args:
        backbone_or_model: an encoder or decoder as ``AutoModel`` returns it, or a model with a classifier or a language
            model's head, whose backbone is taken.
        config_or_folder: a configuration, or a folder that ``HydraModel.save_pretrained`` wrote.

    Raises:
        ConfigError: if the heads do not fit the backbone; the message names what differs.
        ParseError: if a file of the folder is missing or damaged.

    Warns:
        UserWarning: if the heads were trained on a backbone with other parameters; if a classifier or a language
            model's head is left out.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> add_heads(backbone, HydraConfig(num_heads=2)).freeze("backbone").print_trainable_parameters()
        trainable params: 289 || all params: 57,113 || trainable%: 0.5060
    """
    if isinstance(config_or_folder, HydraConfig):
        return HydraModel(backbone_or_model, config_or_folder)
    from structattn.backbones import adapter
    from structattn.files.json_yaml import naming_description

    content = adapter.read_adapter_config(config_or_folder)
    backbone: Any = find_backbone(backbone_or_model)
    with naming_description(Path(config_or_folder) / adapter.LAYOUT.config, "heads"):
        config = adapter.layer_config(content, backbone, config_or_folder)
        with torch.device("meta"):  # no memory is allocated before the parts are known to fit
            planned = HydraLayer(int(backbone.config.hidden_size), config)
        parts = adapter.read_parts(planned, content, config_or_folder)
        model = HydraModel(backbone_or_model, config)
    adapter.fill_layer(model.hydra, model.base, parts, content, config_or_folder)
    return model


def _warn_of_parts(model: nn.Module, backbone: nn.Module) -> None:
    """Say which parts of a model are not those of its backbone: heads on the backbone leave them out."""
    named = [(name, part) for name, part in model.named_children() if part is not backbone]
    parts = [name for name, part in named if next(part.parameters(), None) is not None]
    if backbone is not model and parts:
        warnings.warn(
            f"heads are added to the {type(backbone).__name__} of this {type(model).__name__}; {', '.join(parts)} is "
            "left out, and with it logits, loss and generate(); give model.base_model to say that this is meant",
            stacklevel=4,
        )


def find_backbone(model: nn.Module) -> nn.Module:
    """The backbone of a transformers model: the model itself, or the part below its classifier."""
    settings: Any = getattr(model, "config", None)
    if settings is None or not hasattr(settings, "hidden_size") or not hasattr(settings, "num_hidden_layers"):
        raise ConfigError(f"expected an encoder of transformers, got {type(model).__name__}")
    if getattr(settings, "is_encoder_decoder", False):
        raise ConfigError(f"expected an encoder, got {type(model).__name__}, which has a decoder too")
    backbone: nn.Module = getattr(model, "base_model", model)
    return backbone
