"""Stories and questions as tensors, and their vectors for every step of a selection.

Memory networks and chains of facts share this reader.

Reference: Sukhbaatar et al. (2015), End-to-end memory networks, sections 2.2 and 4.1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from structattn_papers.facts.fact_memory import FactEmbedding


@dataclass(frozen=True, eq=False)
class FactBatch:
    """Stories, questions and answers as tensors.

    Attributes:
        facts: word ids of each fact, 0 at padding.
        mask: ``True`` at facts.
        question: word ids of each question, 0 at padding.
        target: index of the answer, 0 where it is unknown.
        weight: factor of each example's loss, zero where the answer is unknown.
        dropped: how many facts at the start of each story were dropped, as only the last ones are kept.
        ids: the examples' ids.
        num_labelled: how many examples have an answer that the model knows.
    """

    facts: Int64[Tensor, "batch fact word"]
    mask: Bool[Tensor, "batch fact"]
    question: Int64[Tensor, "batch word_of_question"]
    target: Int64[Tensor, " batch"]
    weight: Float[Tensor, " batch"]
    dropped: Int64[Tensor, " batch"]
    ids: tuple[str, ...] = ()
    num_labelled: int = 0

    def __len__(self) -> int:
        return len(self.facts)

    def to(self, device: torch.device | str) -> "FactBatch":
        """The same batch on another device."""
        if self.facts.device == torch.device(device):
            return self
        return FactBatch(
            self.facts.to(device),
            self.mask.to(device),
            self.question.to(device),
            self.target.to(device),
            self.weight.to(device),
            self.dropped.to(device),
            self.ids,
            self.num_labelled,
        )


class FactReader(nn.Module):
    """Embeds a question and its facts, with one table more than steps, as neighbouring steps share a table.

    The first table embeds the question; step ``k`` takes its keys from table ``k`` and its values from table ``k + 1``
    (adjacent tying: Sukhbaatar et al. 2015, section 2.2).

    The last table starts with four times the standard deviation of the others, .2. Its values carry the answer earlier
    in training than those of other steps, so that the last step selects the fact with the answer and the steps before
    it the facts that lead there. With equal deviations, chains select their facts in either order; and with
    the variance of one tenth in the code of Kim et al. (2017) models memorise more stories.

    Args:
        vocab_size: number of word ids.
        dim: width of the vectors.
        num_steps: number of facts that are selected.
        num_facts: maximum number of facts.
    """

    def __init__(self, vocab_size: int, dim: int, *, num_steps: int, num_facts: int) -> None:
        super().__init__()
        first, *others = [
            FactEmbedding(vocab_size, dim, num_times=num_facts, deviation=0.2 if step < num_steps else 0.8)
            for step in range(num_steps + 1)
        ]
        self.first = first
        self.others = nn.ModuleList(others)

    def forward(
        self, batch: FactBatch
    ) -> tuple[Float[Tensor, "batch step fact dim"], Float[Tensor, "batch step fact dim"], Float[Tensor, "batch dim"]]:
        """Keys and values of each step, and the question."""
        number = batch.mask.sum(-1)
        read = torch.stack([table(batch.facts, number) for table in (self.first, *self.others)], 1)
        # A question has no temporal encoding.
        question = self.first.words_only(batch.question.unsqueeze(1)).squeeze(1)
        return read[:, :-1], read[:, 1:], question
