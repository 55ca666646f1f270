"""The same model as a Hugging Face model.

After ``import structattn.training.hugging_face``, ``AutoModelForSequenceClassification.from_pretrained(folder)`` reads
the folders of sentence models; nothing else registers them. Needs the extra ``train``. The classes here inherit from
concrete classes, ``PreTrainedModel`` and its configuration, as transformers requires.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import cached_file

from structattn.data import SentenceBatch
from structattn.data.model_config import FORMAT_VERSION, MODEL_TYPE, check_trusted, read_model_config
from structattn.data.model_folder import VOCABULARY, read_vocabulary
from structattn.errors import ConfigError
from structattn.syntax import Sentence
from structattn.tasks import Prediction, SentenceModel, Task, TaskBatch
from structattn.tasks.answering import Item


class StructAttnConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """The arguments of ``SentenceModel.from_config`` as a Hugging Face configuration.

    One made by calling this class is trusted; for one that was read, ``module:function`` encoders need ``trust_code``.
    """

    model_type = MODEL_TYPE
    _was_read = False

    def __init__(
        self,
        encoder: str = "ms_san",
        options: dict[str, Any] | None = None,
        *,
        embedder: dict[str, Any] | None = None,
        vocab_size: int = 2,
        task: dict[str, Any] | None = None,
        labels: list[str] | None = None,
        classifier: dict[str, Any] | None = None,
        trees: dict[str, Any] | None = None,
        nodes: bool = False,
        kind: str = SentenceModel.kind,
        structattn_version: str = "",
        format_version: int = FORMAT_VERSION,
        **kwargs: Any,
    ) -> None:
        self.encoder = encoder
        self.options = options or {}
        self.embedder = embedder or {}
        self.vocab_size = vocab_size
        self.task = task or Task("classification").to_dict()
        self.labels = labels or ["0", "1"]
        self.classifier = classifier or {}
        self.trees = trees or {}
        self.nodes = nodes
        self.kind = kind
        self.structattn_version = structattn_version
        self.format_version = format_version
        kwargs.setdefault("id2label", dict(enumerate(self.labels)))
        kwargs.setdefault("label2id", {label: index for index, label in enumerate(self.labels)})
        super().__init__(**kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in transformers; the configuration counts as read, so it is not trusted."""
        made = super().from_dict(config_dict, **kwargs)
        (made[0] if isinstance(made, tuple) else made)._was_read = True
        return made

    @classmethod
    def from_json_file(cls, json_file: Any) -> Any:
        """As in transformers; the configuration counts as read, so it is not trusted."""
        return cls.from_dict(cls._dict_from_json_file(json_file))

    def to_dict(self) -> dict[str, Any]:
        """As in transformers."""
        return {name: value for name, value in super().to_dict().items() if name != "_was_read"}

    def build(self) -> SentenceModel:
        """A fresh model without a vocabulary."""
        names = ("encoder", "options", "embedder", "vocab_size", "task", "labels", "classifier", "trees", "nodes")
        plain = {name: getattr(self, name) for name in names}
        return SentenceModel.from_config(plain, Path(self.name_or_path or ""), has_vocabulary=False)


class StructAttnForSequenceClassification(PreTrainedModel):  # type: ignore[misc]  # transformers is untyped here
    """A ``SentenceModel`` behind the interface of transformers.

    Args:
        config: what to build.
        trust_code: whether an encoder ``module:function`` of a configuration that was read from a file may be imported
            and run. ``from_pretrained`` also takes transformers' own argument for this, ``trust_remote_code=True``.

    Raises:
        ConfigError: if the configuration was read from a file and names code that is not trusted.

    Example:
        >>> config = StructAttnConfig("emb_s2t", {"dim": 4}, vocab_size=5)
        >>> model = StructAttnForSequenceClassification(config)
        >>> model(input_ids=torch.tensor([[2, 3], [4, 0]])).logits.shape
        torch.Size([2, 2])
    """

    config_class = StructAttnConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"

    def __init__(self, config: StructAttnConfig, *, trust_code: bool = False) -> None:
        if config._was_read:
            check_trusted(config.encoder, source=config.name_or_path or "this configuration", trust_code=trust_code)
        super().__init__(config)
        self.model: SentenceModel = config.build()
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        batch: TaskBatch | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Logits, and the loss where there are labels.

        Args:
            input_ids: ``(batch, word)`` ids of the model's own vocabulary, 0 at padding. Enough for encoders that
                need no structure, on tasks with one sentence.
            attention_mask: ``(batch, word)``, true at words; by default where ``input_ids`` is not 0. Padding may be on
                either side.
            labels: ``(batch,)`` class indices.
            batch: what ``model.collate(examples)`` returns, with trees and pairs; instead of the three above.
            **kwargs: arguments of other models raise an error.

        Raises:
            ConfigError: if neither or both of ``batch`` and ``input_ids`` are given, an argument is unknown, or
                ``labels`` are not one class for each text.
        """
        unknown = [name for name in kwargs if name not in ("return_dict", "output_attentions", "output_hidden_states")]
        if unknown:
            raise ConfigError(f"unknown argument {unknown[0]!r}; known: input_ids, attention_mask, labels, batch")
        if (batch is None) == (input_ids is None):
            raise ConfigError("expected either batch= or input_ids=")
        if batch is None and input_ids is not None:
            mask = input_ids != 0 if attention_mask is None else attention_mask.bool()
            batch = self._batch(input_ids, mask, labels)
        logits = self.model(batch)
        loss = self.model.loss_of(logits, batch) if batch is not None and batch.num_labelled else None
        return SequenceClassifierOutput(loss=loss, logits=logits)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As in transformers; the vocabulary is read too, so that ``predict`` takes texts."""
        trust_code = kwargs.pop("trust_code", False) or kwargs.get("trust_remote_code") is True
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, trust_code=trust_code, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        folder = Path(cached_file(pretrained_model_name_or_path, VOCABULARY)).parent
        read_model_config(folder, (SentenceModel.kind,), trust_code=True)
        model.model.vocabulary = read_vocabulary(folder / VOCABULARY, size=model.config.vocab_size)
        # Transformers builds models on the meta device and then loads the saved tensors. Buffers that a module computes
        # and does not save would stay empty.
        fresh = dict(model.config.build().named_buffers())
        saved = model.model.state_dict().keys()
        for name, buffer in model.model.named_buffers():
            if name not in saved:
                buffer.copy_(fresh[name])
        return loaded

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Write the model folder, as ``SentenceModel`` does."""
        self.model.save_pretrained(save_directory)

    def predict(self, examples: Sequence[Item] | TaskBatch, *, batch_size: int = 64) -> list[Prediction]:
        """Answers, see ``SentenceModel.predict``."""
        return self.model.predict(examples, batch_size=batch_size)

    def collate(self, examples: Sequence[Item]) -> TaskBatch:
        """Examples as tensors, see ``SentenceModel.collate``."""
        return self.model.collate(examples)

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Do nothing: every layer initialises itself when it is built."""

    def _batch(self, tokens: Tensor, mask: Tensor, labels: Tensor | None) -> TaskBatch:
        # Encoders expect words first.
        order = (~mask).long().argsort(dim=1, stable=True)
        tokens, mask = tokens.gather(1, order), mask.gather(1, order)
        # The words are not known here, only the lengths of the sentences.
        sentences = tuple(Sentence(["?"] * int(length)) for length in mask.sum(-1))
        batch = SentenceBatch(tokens * mask, mask, mask.sum(-1), sentences=sentences)
        target = torch.zeros(len(tokens), len(self.model.labels), device=tokens.device)
        names = tuple(map(str, range(len(tokens))))
        if labels is None:
            return TaskBatch((batch,), target, target[:, 0], names)
        is_class = labels.shape == mask.shape[:1] and not labels.is_floating_point()
        if not is_class or not bool(((labels >= 0) & (labels < target.shape[1])).all()):
            expected = f"a class number from 0 to {target.shape[1] - 1} for each of {len(tokens)} texts"
            raise ConfigError(f"labels: expected {expected}, got {labels.tolist()}")
        target[torch.arange(len(tokens)), labels] = 1.0
        return TaskBatch((batch,), target, target.sum(-1), names, len(tokens))


def register() -> None:
    """Register this model with the ``Auto`` classes of transformers; idempotent."""
    AutoConfig.register(MODEL_TYPE, StructAttnConfig, exist_ok=True)
    AutoModelForSequenceClassification.register(StructAttnConfig, StructAttnForSequenceClassification, exist_ok=True)


register()
