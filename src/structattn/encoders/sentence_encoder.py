"""The skeleton of every sentence encoder: embed, contextualise, pool.

One final class; the published systems differ only in its three parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils._pytree import register_dataclass

from structattn.data import SentenceBatch
from structattn.data.saved_model import SavedModel
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.layers.linear import glorot_linear

if TYPE_CHECKING:
    from structattn.layers.structured_attention import PartDistribution


@dataclass(frozen=True)
class Encoding:
    """The output of an encoder for a batch of sentences.

    Attributes:
        states: one vector per node; nodes are the words, or the words followed by the phrases.
        mask: ``True`` where a node is real. Padded states are zero.
        vector: one vector per sentence; ``None`` before pooling.
        pool_mask: nodes the pooler reads, such as the roots of trees; all real ones if ``None``.

    Example:
        >>> encoding = Encoding(torch.zeros(1, 2, 4), torch.tensor([[True, False]]))
        >>> encoding.states.shape, encoding.vector
        (torch.Size([1, 2, 4]), None)
    """

    states: Float[Tensor, "batch node dim"]
    mask: Bool[Tensor, "batch node"]
    vector: Float[Tensor, "batch output_dim"] | None = None
    pool_mask: Bool[Tensor, "batch node"] | None = None


register_dataclass(Encoding, serialized_type_name=f"{Encoding.__module__}.Encoding")


class SentenceEncoder(SavedModel):
    """``vector = pooler(contextualizer(x))`` with ``x = dropout(W embedder(batch))``.

    Args:
        embedder: ``batch -> states``, shape ``(batch, word, embedder.output_dim)``; padding may hold anything.
        contextualizer: ``(states, batch) -> Encoding`` without a vector.
        pooler: ``(states, mask) -> (vector, weights)``; weights are ignored here and read by ``inspection``.
        output_dim: width of the sentence vector.
        state_dim: width of the states; that of the sentence vector if ``None``.
        input_dim: width of the states ``x`` that the contextualizer reads. ``W`` is the identity if this is the
            embedder's width or ``None``.
        dropout: applied to ``x``.

    Attributes:
        description: the name, options, embedder and vocabulary size from which ``build`` made the encoder, so that it
            can be saved; ``None`` for an encoder that was made in another way, or with an embedder of your own.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary.from_examples([sa.Example((sa.Sentence(["a", "dog"]),))])
        >>> encoder = sa.encoders.build("bilstm_s2t", vocab_size=len(vocabulary), dim=8)
        >>> encoder(sa.collate([sa.Sentence(["a", "dog"])], vocabulary)).vector.shape
        torch.Size([1, 16])
    """

    kind: ClassVar[str] = "encoder"

    def __init__(
        self,
        embedder: nn.Module,
        contextualizer: nn.Module,
        *,
        pooler: nn.Module,
        output_dim: int,
        state_dim: int | None = None,
        input_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedder = embedder
        self.project: nn.Module = nn.Identity()
        if input_dim is not None and input_dim != resolve_width(embedder):
            self.project = glorot_linear(resolve_width(embedder), input_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.contextualizer = contextualizer
        self.pooler = pooler
        self.output_dim = output_dim
        self.state_dim = output_dim if state_dim is None else state_dim
        self.description: Mapping[str, Any] | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The description from which the encoder is built when it is loaded.

        Raises:
            ConfigError: if the encoder was not made by ``build``.
        """
        if self.description is None:
            raise ConfigError(
                "this encoder cannot be saved: expected one that structattn.encoders.build made by name, over word "
                "vectors or a pretrained backbone"
            )
        return dict(self.description)

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Save what the encoder read from folders, such as a tokenizer; the configuration then names the copies.

        Args:
            folder: the model's folder.

        Returns:
            The configuration.

        Raises:
            ConfigError: if the encoder was not made by ``build``.
        """
        config = self.config
        options, embedder = dict(config["options"]), config["embedder"]
        if (write_embedder := getattr(self.embedder, "write_files", None)) is not None:
            embedder = write_embedder(folder)
        for part in self.modules():
            option = getattr(part, "folder_option", None)
            if option in options:
                part.save_skeleton(folder / option)  # type: ignore[operator]
                options[option] = option
        return {**config, "options": options, "embedder": embedder}

    def embed(self, batch: SentenceBatch, *following: SentenceBatch) -> Float[Tensor, "batch node dim"]:
        """The states that the contextualizer reads.

        Args:
            batch: sentences.
            following: the sentences that follow in each text, for encoders that read pairs together.
        """
        states: Tensor = self.embedder(batch, *following)
        mask = torch.cat([sentences.mask for sentences in (batch, *following)], 1)
        # The state of a whole text is never padding, even if the text has no words.
        if getattr(self.embedder, "nodes", "words") == "words" and states.shape[1] == mask.shape[1]:
            states = masked_states(states, mask)
        projected: Tensor = self.dropout(self.project(states))
        return projected

    def prepare(self, *batches: SentenceBatch) -> tuple[SentenceBatch, ...]:
        """The batches with what Python must compute from their sentences, such as a backbone's subword tokens.

        ``forward`` does the same for a batch that was not prepared; a graph of ``torch.compile`` or ``torch.export``
        expects prepared batches.
        """
        prepare = getattr(self.embedder, "prepare", None)
        return batches if prepare is None else prepare(*batches)

    @property
    def has_latent_trees(self) -> bool:
        """Whether the encoder attends to the heads of words under one distribution over trees."""
        return len(self._find_attention_to_heads()) == 1

    def latent_trees(self, batch: SentenceBatch) -> "PartDistribution":
        """The distribution over the heads of words that the encoder attends with, for its best tree or entropy.

        In the systems of Kim et al. (2017), sections 4.1 and 4.4, heads are scored from the word vectors; here from
        what the contextualizer's method ``read`` makes of them, if it has one.

        Raises:
            ConfigError: unless ``has_latent_trees``.

        Example:
            >>> import structattn as sa
            >>> batch = sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))
            >>> trees = sa.encoders.build("structured", vocab_size=4, dim=6).latent_trees(batch)
            >>> round(trees.log_count().exp().item())
            3
        """
        attention = self._find_attention_to_heads()
        if len(attention) != 1:
            raise ConfigError(
                f"expected an encoder that attends to heads, such as structured or decomposable with a latent tree, "
                f"got one with {len(attention)} such attentions"
            )
        states, read = self.embed(batch), getattr(self.contextualizer, "read", None)
        trees: PartDistribution = attention[0].distribution(states if read is None else read(states, batch), batch)
        return trees

    def _find_attention_to_heads(self) -> list[Any]:
        readers = ((module, getattr(module, "reader", None)) for module in self.modules())
        return [module for module, reader in readers if getattr(reader, "reads_heads", False)]

    if TYPE_CHECKING:  # for torch, the call of a module returns anything

        def __call__(self, batch: SentenceBatch, *following: SentenceBatch) -> Encoding: ...  # noqa: D102

    def forward(self, batch: SentenceBatch, *following: SentenceBatch) -> Encoding:
        """Encode a batch.

        Args:
            batch: sentences.
            following: the sentences that follow in each text, for encoders that read pairs together.

        Returns:
            The states of every node, and the pooled ``vector`` of each sentence or text.
        """
        if torch.compiler.is_compiling():
            batch, following = batch.in_graph(), tuple(sentences.in_graph() for sentences in following)
        encoding: Encoding = self.contextualizer(self.embed(batch, *following), batch, *following)
        vector, _ = self.pooler(encoding.states, encoding.mask if encoding.pool_mask is None else encoding.pool_mask)
        return replace(encoding, vector=vector)


def resolve_width(embedder: nn.Module, dim: int | None = None) -> int:
    """``dim``, or if that is ``None`` the width of the embedder's states, its ``output_dim``."""
    width = getattr(embedder, "output_dim", None) if dim is None else dim
    if not isinstance(width, int):
        raise ConfigError(
            f"expected an embedder with the width of its states as output_dim, got {type(embedder).__name__} without"
        )
    return width


def compute_head_width(dim: int, num_heads: int, *, multiple: int = 1) -> int:
    """Width of each of ``num_heads`` heads that share ``dim``; a multiple of 1 or 2."""
    if num_heads < 1:
        raise ConfigError(f"num_heads expects at least 1, got {num_heads}")
    below, remainder = divmod(dim, multiple * num_heads)
    if remainder:
        kind = "an even multiple" if multiple == 2 else "a multiple"
        nearest = ", ".join(str(times * multiple * num_heads) for times in (below, below + 1) if times)
        raise ConfigError(
            f"dim expects {kind} of the number of heads, got dim={dim} for {num_heads} heads; "
            f"the nearest are {nearest} (on the command line --options.dim)"
        )
    return dim // num_heads


class NoContext(nn.Module):
    """The contextualizer that adds no context.

    Args:
        nodes: what the embedder returns: a state for each of the ``words``, or one for the whole ``text``, which is
            real even where a sentence has no words.

    Example:
        >>> import structattn as sa
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> NoContext()(torch.ones(1, 1, 2), batch).states
        tensor([[[1., 1.]]])
    """

    def __init__(self, nodes: Literal["words", "text"] = "words") -> None:
        super().__init__()
        self.nodes = nodes

    def forward(
        self, states: Float[Tensor, "batch node dim"], batch: SentenceBatch, *following: SentenceBatch
    ) -> Encoding:
        """Return the states as they are; padded states are zero.

        Args:
            states: the nodes.
            batch: the sentences.
            following: the sentences that follow in each text.
        """
        mask = batch.mask if self.nodes == "words" else torch.ones_like(states[..., 0], dtype=torch.bool)
        return Encoding(masked_states(states, mask), mask)
