"""HYDRA with a task head and the interface of transformers: labels in, loss and logits out.

HYDRA (arXiv 2109.05349), fine-tuning: a fully connected layer on the ``[CLS]`` row of the layer's output for labels and
scores, on every row for labels of tokens and for the two ends of an answer; losses as in BERT (Devlin et al. 2019).
"""

import json
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from structattn.backbones.backbone import has_text_at_end
from structattn.backbones.backbone_embedding import text_state
from structattn.backbones.backbone_files import read_backbone_config
from structattn.backbones.hydra import HydraModel
from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.relation_heads import INITIAL_DEVIATION
from structattn.data.model_config import MODEL, find_model_folder, make_header, read_model_config
from structattn.data.model_folder import read_model
from structattn.data.saved_model import SavedModel
from structattn.data.tensors import build_and_load, read_tensors
from structattn.errors import ConfigError, ParseError, require
from structattn.files.json_yaml import naming_description, write_json
from structattn.files.text import parse_json

_BACKBONE = "backbone"
_DESCRIPTION = "description"  # a tensor's name
_BLOCK = 16_384  # bytes
_DROPOUT = 0.1
_Model = TypeVar("_Model", bound="_HydraTaskModel")


class _HydraTaskModel(SavedModel):
    """The common base: a backbone with heads, a last layer, and a folder."""

    # Arguments after ``hydra``, each an attribute of the same name; dropout is a module.
    settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, hydra: HydraModel, num_outputs: int) -> None:
        super().__init__()
        if num_outputs < 1:
            raise ConfigError(f"num_labels: expected at least 1, got {num_outputs}")
        self.hydra = hydra
        self.classifier = nn.Linear(hydra.dim, num_outputs)
        nn.init.normal_(self.classifier.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.classifier.bias)
        self.classifier.to(hydra.hydra.value.weight.dtype)
        self.register_state_dict_post_hook(_describe)
        self.register_load_state_dict_pre_hook(_without_description)

    @abstractmethod
    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        """Loss and logits."""

    def _states(self, input_ids: Tensor | None, attention_mask: Tensor | None, inputs: dict[str, Any]) -> Tensor:
        states: Tensor = self.hydra(input_ids, attention_mask, **{**inputs, "return_dict": True}).last_hidden_state
        return states

    @property
    def num_labels(self) -> int:
        """Number of outputs."""
        return self.classifier.out_features

    @property
    def config(self) -> Any:
        """The configuration of the backbone, which transformers' ``Trainer`` reads and writes."""
        return self.hydra.config

    @property
    def description(self) -> dict[str, Any]:
        """Plain values that describe everything but the backbone and the parameters."""
        values = {name: getattr(self, name) for name in self.settings}
        plain = {name: value.p if isinstance(value, nn.Dropout) else value for name, value in values.items()}
        return {"hydra": self.hydra.hydra_config.to_dict(), **plain}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the configuration of the backbone, and return ``description``."""
        self.config.save_pretrained(folder / _BACKBONE)
        return self.description

    @classmethod
    def from_config(cls: type[_Model], config: Mapping[str, Any], folder: Path) -> _Model:
        """The model that ``config`` describes, backbone included, with fresh parameters."""
        hydra = HydraModel(_fresh_backbone(folder / _BACKBONE), HydraConfig.from_dict(config["hydra"]))
        return cls(hydra, **{name: config[name] for name in cls.settings})

    @classmethod
    def from_pretrained(cls: type[_Model], folder: str | Path) -> _Model:
        """Read a folder that ``save_pretrained`` wrote, or a checkpoint that a ``Trainer`` of transformers wrote."""
        path, weights = find_model_folder(folder), Path(folder) / MODEL.weights
        if (path / MODEL.config).is_file() or not weights.is_file():
            model: _Model = read_model(folder, [cls.kind])
            return model
        with tempfile.TemporaryDirectory() as temporary:
            described = Path(temporary)
            _write_description(weights, described)
            try:
                config = read_model_config(described, [cls.kind])
            except ConfigError as error:
                raise ConfigError(str(error).replace(str(described / MODEL.config), str(weights))) from None
            with naming_description(weights):
                model = build_and_load(lambda: cls.from_config(config, described), weights)
        return model.eval()


class HydraModelForSequenceClassification(_HydraTaskModel):
    """Labels, or with a single output a score, of whole texts.

    Args:
        hydra: the backbone with its heads.
        num_labels: number of classes; 1 for a score, learnt by squared error.
        dropout: on the state of the text: that of ``[CLS]``, or of the last token of a decoder, see ``text_state``.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from structattn.backbones import HydraConfig, add_heads
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> model = HydraModelForSequenceClassification(add_heads(backbone, HydraConfig(num_heads=2)), 3)
        >>> model(input_ids=torch.tensor([[2, 5, 3]]), labels=torch.tensor([1])).logits.shape
        torch.Size([1, 3])
    """

    kind: ClassVar[str] = "hydra_sequence_classification"
    settings: ClassVar[tuple[str, ...]] = ("num_labels", "dropout")

    def __init__(self, hydra: HydraModel, num_labels: int, *, dropout: float = _DROPOUT) -> None:
        super().__init__(hydra, num_labels)
        self.dropout = nn.Dropout(dropout)
        self.has_text_at_end = has_text_at_end(hydra.base)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """A ``SequenceClassifierOutput``.

        Args:
            input_ids: subword ids, ``(batch, subword)``.
            attention_mask: 1 at subwords, 0 at padding, ``(batch, subword)``; no padding if ``None``.
            labels: class numbers, or scores where there is one output; ``(batch,)`` or ``(batch, 1)``.
            **inputs: whatever else the backbone takes.

        Raises:
            ValueError: if there is not one score per text.
        """
        states = self._states(input_ids, attention_mask, inputs)
        mask = torch.ones_like(states[..., 0]) if attention_mask is None else attention_mask
        text = text_state(states, mask.bool(), at_end=self.has_text_at_end)
        logits = self.classifier(self.dropout(text))
        loss = None
        if labels is not None:
            labels = labels.squeeze(1) if labels.dim() > 1 else labels
            loss = _squared_error(logits[:, 0], labels) if self.num_labels == 1 else F.cross_entropy(logits, labels)
        return require("transformers", "train").modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


class HydraModelForTokenClassification(_HydraTaskModel):
    """Labels of tokens; label -100 marks tokens that do not count, such as special ones and later tokens of words.

    Args:
        hydra: the backbone with its heads.
        num_labels: number of classes.
        dropout: on the states.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from structattn.backbones import HydraConfig, add_heads
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> model = HydraModelForTokenClassification(add_heads(backbone, HydraConfig(num_heads=2)), 3)
        >>> model(input_ids=torch.tensor([[2, 5, 3]]), labels=torch.tensor([[-100, 1, -100]])).logits.shape
        torch.Size([1, 3, 3])
    """

    kind: ClassVar[str] = "hydra_token_classification"
    settings: ClassVar[tuple[str, ...]] = ("num_labels", "dropout")

    def __init__(self, hydra: HydraModel, num_labels: int, *, dropout: float = _DROPOUT) -> None:
        super().__init__(hydra, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """A ``TokenClassifierOutput``; the loss is the mean over tokens that count, zero if none does.

        Args:
            input_ids: subword ids, ``(batch, subword)``.
            attention_mask: 1 at subwords, 0 at padding, ``(batch, subword)``; no padding if ``None``.
            labels: class numbers, -100 at tokens that do not count, ``(batch, subword)``.
            **inputs: whatever else the backbone takes.
        """
        states = self._states(input_ids, attention_mask, inputs)
        logits = self.classifier(self.dropout(states))
        loss = None
        if labels is not None:
            total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
            loss = total / (labels != -100).sum().clamp(min=1)
        return require("transformers", "train").modeling_outputs.TokenClassifierOutput(loss=loss, logits=logits)


class HydraModelForQuestionAnswering(_HydraTaskModel):
    """First and last token of an answer in a text.

    Args:
        hydra: the backbone with its heads.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from structattn.backbones import HydraConfig, add_heads
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> model = HydraModelForQuestionAnswering(add_heads(backbone, HydraConfig(num_heads=2)))
        >>> model(input_ids=torch.tensor([[2, 5, 3]])).start_logits.shape
        torch.Size([1, 3])
    """

    kind: ClassVar[str] = "hydra_question_answering"

    def __init__(self, hydra: HydraModel) -> None:
        super().__init__(hydra, 2)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """A ``QuestionAnsweringModelOutput``; the loss is the mean of the cross-entropies of both ends.

        Padding is never an end. A window without the answer has both ends at its first token.

        Args:
            input_ids: subword ids, ``(batch, subword)``.
            attention_mask: 1 at subwords, 0 at padding, ``(batch, subword)``; no padding if ``None``.
            start_positions: the first token of each answer, ``(batch,)``.
            end_positions: the last token of each answer, ``(batch,)``.
            **inputs: whatever else the backbone takes.
        """
        states = self._states(input_ids, attention_mask, inputs)
        start, end = self.classifier(states).unbind(-1)
        if attention_mask is not None:
            lowest = torch.finfo(start.dtype).min
            start, end = (logits.masked_fill(attention_mask == 0, lowest) for logits in (start, end))
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (F.cross_entropy(start, start_positions) + F.cross_entropy(end, end_positions)) / 2
        outputs = require("transformers", "train").modeling_outputs
        return outputs.QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)


def _squared_error(scores: Tensor, labels: Tensor) -> Tensor:
    if labels.shape != scores.shape:  # broadcasting would pair every score with every label
        raise ValueError(f"labels: expected one score for each of {len(scores)} texts, got shape {tuple(labels.shape)}")
    return F.mse_loss(scores, labels.to(scores.dtype))


def _describe(model: _HydraTaskModel, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """Add the model's description to its parameters, as JSON, because a ``Trainer`` saves nothing else of the model."""
    backbone = json.loads(model.config.to_json_string())
    content = json.dumps({**make_header(model.kind), **model.description, _BACKBONE: backbone}).encode()
    # Padded with blanks, so that its shape does not depend on the version of transformers.
    size = -(-len(content) // _BLOCK) * _BLOCK
    state[prefix + _DESCRIPTION] = torch.tensor(list(content.ljust(size)), dtype=torch.uint8)


def _without_description(model: _HydraTaskModel, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    state.pop(prefix + _DESCRIPTION, None)


def _write_description(weights: Path, folder: Path) -> None:
    """Write the files that ``from_config`` reads, from the description among the parameters."""
    description = read_tensors(weights).get(_DESCRIPTION)
    if description is None:
        raise ParseError(f"expected a model of structattn, with a tensor {_DESCRIPTION!r}; it is missing", file=weights)
    try:
        content = parse_json(bytes(description.flatten().tolist()).decode())
        backbone = content.pop(_BACKBONE)
        write_json(folder / MODEL.config, content)
        (folder / _BACKBONE).mkdir()
        write_json(folder / _BACKBONE / MODEL.config, backbone)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ParseError(f"expected a description of the model in tensor {_DESCRIPTION!r}", file=weights) from None


def _fresh_backbone(folder: Path) -> nn.Module:
    config = read_backbone_config(folder)
    backbone: nn.Module = require("transformers", "train").AutoModel.from_config(config, trust_remote_code=False)
    return backbone
