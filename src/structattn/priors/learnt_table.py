"""Learnt biases of distances: a number for each head and offset of words, or path between two words in a tree.

Raffel et al. 2020 (T5), section 2.1, buckets of offsets; Ying et al. 2021 (Graphormer), spatial encoding; Liu et al.
2021 (Swin), relative position bias.
"""

from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.errors import ConfigError
from structattn.priors.prior import AttentionBias, Prior, Scope
from structattn.priors.tree import Missing, Structure, check_missing, climb

Distance = Literal["word", "dependency", "constituency", "path"]


class LearntTable(Prior):
    r"""A learnt bias of every distance, for each head: ``B_h[q, k] = table[h, cell(q, k)]``, zero at first.

    ================  =============================================================  ===================
    ``of``            cell of a query and a key                                      cells
    ================  =============================================================  ===================
    ``word``          their offset ``key - query``, at most ``clip`` either way      ``2 clip + 1``
    ``dependency``    arcs between them, at most ``clip`` (Ying et al. 2021)         ``clip + 1``
    ``constituency``  edges between them in the phrase tree, at most ``clip``        ``clip + 1``
    ``path``          arcs up from the query and then down to the key, at most       ``(clip + 1)^2``
                      ``clip`` each: ``cell = (clip + 1) up + down``
    ================  =============================================================  ===================

    With ``buckets``, offsets of words share cells as in T5 (Raffel et al. 2020, section 2.1; 32 buckets, ``clip`` 128):
    half of the cells for keys after the query, and of each half one half for one distance each and the other for
    ranges that grow as powers up to ``clip``.

    Args:
        heads: number of heads.
        of: what the bias depends on.
        clip: the largest distance with a cell of its own, which it shares with all larger ones.
        buckets: for ``word``, the number of cells.
        missing: what to do with a sentence without a tree: ``"error"`` raises, ``"none"`` adds no bias there,
            ``"word"`` reads it as if each word hung from the one in front of it.

    Raises:
        ValueError: for another value of ``of`` or ``missing``, no head, a negative ``clip``, or buckets of trees, that
            are not a multiple of 4 or that ``clip`` does not reach.
        MissingStructure: in ``forward``, if a sentence has no tree and ``missing`` is ``"error"``.

    Example:
        >>> import structattn as sa
        >>> sentence = sa.Sentence(["dogs", "bark", "loudly"], dependency=sa.DependencyTree([2, 0, 2]))
        >>> batch = sa.collate([sentence], sa.Vocabulary([]))
        >>> table = LearntTable(1, "path", clip=1)
        >>> with torch.no_grad():
        ...     _ = table.table.copy_(torch.arange(4.0))
        >>> table(batch).bias[0, 0].tolist()
        [[0.0, 2.0, 3.0], [1.0, 0.0, 1.0], [3.0, 2.0, 0.0]]
    """

    def __init__(
        self,
        heads: int,
        of: Distance = "word",
        clip: int = 16,
        *,
        buckets: int | None = None,
        missing: Missing = "error",
    ) -> None:
        super().__init__()
        if of not in get_args(Distance):
            raise ValueError(f"LearntTable expects of to be one of {', '.join(get_args(Distance))}, got {of!r}")
        check_missing(missing, "LearntTable")
        if heads < 1 or clip < 0:
            raise ValueError(f"LearntTable expects at least 1 head and a clip of at least 0, got {heads} and {clip}")
        if buckets is not None and (of != "word" or buckets < 4 or buckets % 4 or clip <= buckets // 4):
            raise ValueError(
                "LearntTable expects buckets of word offsets, a multiple of 4 whose quarter is below clip, "
                f"got {buckets} of {of!r} with a clip of {clip}"
            )
        self.of, self.clip, self.buckets, self.missing = of, clip, buckets, missing
        self.table = nn.Parameter(torch.zeros(heads, self._count_cells(clip)))

    def extra_repr(self) -> str:
        """The options."""
        buckets = "" if self.buckets is None else f", buckets={self.buckets}"
        return f"{len(self.table)}, {self.of!r}, clip={self.clip}{buckets}, missing={self.missing!r}"

    @property
    def name(self) -> str:
        """``table``, after the kind of distance unless it is that of words."""
        return "table" if self.of == "word" else f"{self.of} table"

    @property
    def num_heads(self) -> int | None:
        """The number of rows."""
        return len(self.table)

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """Positions alone for offsets of words; a tree is one of the whole text."""
        return "positions" if self.of == "word" else "text"

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The bias, shape ``(batch, head, query, key)``, or ``(1, head, query, key)`` for offsets of words."""
        if self.of == "word":
            position = torch.arange(batch.tokens.shape[1], device=batch.device)
            return AttentionBias(None, self._read(self._offset_cells(position - position[:, None])[None]))
        structure: Structure = "constituency" if self.of == "constituency" else "dependency"
        up = climb(batch, structure, self.missing, wanted_by="LearntTable")
        if self.of == "path":
            up = up.clamp(max=self.clip)
            cells = (self.clip + 1) * up + up.mT
        else:
            cells = (up + up.mT).clamp(max=self.clip)
        counts = batch.mask[:, :, None] & batch.mask[:, None, :]
        if self.missing == "none":
            counts = counts & getattr(batch, f"has_{structure}")[:, None, None]
        # The distance of padding is 0: its bias would teach that of a word to itself.
        return AttentionBias(None, torch.where(counts[:, None], self._read(cells), 0.0))

    def _count_cells(self, clip: int) -> int:
        return self.buckets or {"word": 2 * clip + 1, "path": (clip + 1) ** 2}.get(self.of, clip + 1)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        stored = state_dict.get(f"{prefix}table")
        if stored is not None and stored.shape != self.table.shape:
            rows, cells = stored.shape
            clip = next((clip for clip in range(cells) if self._count_cells(clip) == cells), None)
            written = "" if clip is None or self.buckets else f", as with clip={clip}"
            raise ConfigError(
                f"{self!r} expects a table of {len(self.table)} rows and {self.table.shape[1]} cells, "
                f"got one of {rows} and {cells}{written}"
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _offset_cells(self, offset: Int64[Tensor, "query key"]) -> Int64[Tensor, "query key"]:
        if self.buckets is None:
            return offset.clamp(-self.clip, self.clip) + self.clip
        starts = torch.tensor(self._starts(self.buckets // 2), device=offset.device)
        return self.buckets // 2 * (offset > 0) + torch.bucketize(offset.abs(), starts, right=True)

    def _starts(self, count: int) -> list[int]:
        """The smallest distance of each of ``count`` buckets but the first; in integers, as logarithms are rounded."""
        exact, rest = count // 2, count - count // 2
        powers = [exact ** (rest - step) * self.clip**step for step in range(1, rest)]
        later = [next(d for d in range(exact, self.clip + 1) if d**rest >= power) for power in powers]
        return [*range(1, exact + 1), *later]

    def _read(self, cells: Int64[Tensor, "#batch query key"]) -> Float[Tensor, "#batch head query key"]:
        return F.embedding(cells, self.table.mT).movedim(-1, 1)
