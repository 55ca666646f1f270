"""The same model as a Hugging Face model.

After ``import structattn.training.hugging_face``, ``AutoModelForSequenceClassification`` and ``AutoModel`` read the
folders of sentence models; nothing else registers them. Needs the extra ``train``. The classes here inherit from
concrete classes, ``PreTrainedModel`` and its configuration, as transformers requires.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizer,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import cached_file

from structattn.data import SentenceBatch
from structattn.data.model_config import FORMAT_VERSION, MODEL, MODEL_TYPE, check_trusted, read_model_config
from structattn.data.model_folder import VOCABULARY, read_model, read_vocabulary
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.json_yaml import naming_description
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
        self.task = Task("classification").to_dict() if task is None else task
        self.labels = ["0", "1"] if labels is None else labels
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
        """As in transformers; the configuration counts as read, so it is not trusted.

        Only the arguments of this class are read: a setting of transformers may name code or files to be loaded.

        Raises:
            ParseError: if it is damaged. Where it is no JSON object, ``model_type`` is another one or ``auto_map`` no
                mapping, an ``Auto`` class raises an error of transformers before any code of this library runs.
            ConfigError: if it is of another kind or version of model.
        """
        folder = kwargs.get("name_or_path") or config_dict.get("_name_or_path") or ""
        if (file := Path(folder) / MODEL.config).is_file():
            read_model_config(folder, (SentenceModel.kind,), trust_code=True)
        with naming_description(file, "a configuration"):
            parameters = inspect.signature(cls).parameters
            made = super().from_dict({name: config_dict[name] for name in parameters if name in config_dict}, **kwargs)
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
    accepts_loss_kwargs = False  # or a Trainer would pass num_items_in_batch

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
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Logits, and the loss where there are labels.

        Args:
            input_ids: ``(batch, word)`` ids of the model's own vocabulary, 0 at padding. Enough for encoders that
                need no structure, on tasks with one sentence.
            attention_mask: ``(batch, word)``, true at words; by default where ``input_ids`` is not 0. Padding may be on
                either side.
            labels: ``(batch,)`` class indices.
            batch: what ``model.collate(examples)`` returns, with trees and pairs; instead of the three above.
            **kwargs: ``return_dict=False`` gives a tuple. Arguments of other models raise an error unless they are
                ``None`` or false, as wrappers such as PEFT's pass them.

        Raises:
            ConfigError: if neither or both of ``batch`` and ``input_ids`` are given, an argument is unknown, or
                ``labels`` are not one class for each text.
        """
        return_dict = kwargs.pop("return_dict", None)
        unknown = [name for name, value in kwargs.items() if value is not None and value is not False]
        if unknown:
            raise ConfigError(f"unknown argument {unknown[0]!r}; known: input_ids, attention_mask, labels, batch")
        if (batch is None) == (input_ids is None):
            raise ConfigError("expected either batch= or input_ids=")
        if batch is None and input_ids is not None:
            mask = input_ids != 0 if attention_mask is None else attention_mask.bool()
            batch = self._batch(input_ids, mask, labels)
        logits = self.model(batch)
        loss = self.model.loss_of(logits, batch) if batch is not None and batch.num_labelled else None
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output.to_tuple() if return_dict is False else output

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As in transformers; the vocabulary is read too, so that ``predict`` takes texts.

        Raises:
            ParseError: if a file of the folder is missing or damaged; the message names it.
            ConfigError: if the folder has a model of another kind or names code that is not trusted.
        """
        trust_code = kwargs.pop("trust_code", False) or kwargs.get("trust_remote_code") is True
        is_reported = kwargs.pop("output_loading_info", False)
        try:
            loaded = cls._load(pretrained_model_name_or_path, *args, trust_code=trust_code, **kwargs)
        except Exception:
            if Path(pretrained_model_name_or_path).is_dir():  # the library's own reader names the file that is wrong
                read_model(pretrained_model_name_or_path, [SentenceModel.kind], trust_code=trust_code)
            raise
        return loaded if is_reported else loaded[0]

    @classmethod
    def _load(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        model, report = super().from_pretrained(name, *args, **kwargs, output_loading_info=True)
        if wrong := [*report["missing_keys"], *report["unexpected_keys"], *report["mismatched_keys"]]:
            raise ParseError(f"expected the tensors of this model, {shown(wrong[0])} does not fit", file=name)
        folder = Path(cached_file(name, VOCABULARY)).parent
        read_model_config(folder, (SentenceModel.kind,), trust_code=True)
        model.model.vocabulary = read_vocabulary(folder / VOCABULARY, size=model.config.vocab_size)
        # Transformers builds models on the meta device and then loads the saved tensors. Buffers that a module computes
        # and does not save would stay empty.
        fresh = dict(model.config.build().named_buffers())
        saved = model.model.state_dict().keys()
        for buffer_name, buffer in model.model.named_buffers():
            if buffer_name not in saved:
                buffer.copy_(fresh[buffer_name])
        return model, report

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


class NoTokenizer(PreTrainedTokenizer):  # type: ignore[misc]  # transformers is untyped here
    """What ``AutoTokenizer`` and ``pipeline`` are told: texts become words, and trees, in ``predict``."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Always a ``ConfigError``, which names the call that answers texts."""
        name = pretrained_model_name_or_path
        hint = f"sa.load({str(name)!r}).predict([...]) answers texts"
        raise ConfigError(f"{name}: a model of structattn has no tokenizer, so neither has a pipeline; {hint}")


def register() -> None:
    """Register this model with the ``Auto`` classes of transformers; idempotent."""
    AutoConfig.register(MODEL_TYPE, StructAttnConfig, exist_ok=True)
    for kind in (AutoModel, AutoModelForSequenceClassification):
        kind.register(StructAttnConfig, StructAttnForSequenceClassification, exist_ok=True)
    AutoTokenizer.register(StructAttnConfig, slow_tokenizer_class=NoTokenizer, exist_ok=True)


register()
