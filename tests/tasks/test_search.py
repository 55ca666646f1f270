"""Search: exact against every sequence there is, and greedy against a loop by hand."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from structattn.errors import ConfigError
from structattn.tasks.answer_config import Search
from structattn.tasks.decoding import State, beam_search, greedy_search

END = 3


def bigrams(seed: int, batch: int = 2, tokens: int = 4) -> Tensor:
    """Logarithms of probabilities of the next token given the last, for each item of a batch."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(batch, tokens, tokens, generator=generator)).log_softmax(-1)


def step(last: Tensor, state: State) -> tuple[Tensor, State]:
    return state["table"][torch.arange(len(last)), last], state


def score(table: Tensor, sequence: tuple[int, ...], penalty: float) -> float:
    total, last = 0.0, 0
    for token in sequence:
        total, last = total + table[last, token].item(), token
    return total / len(sequence) ** penalty


def best_of_all(table: Tensor, limit: int, penalty: float) -> tuple[tuple[int, ...], float]:
    sequences = [(*tokens, END) for length in range(limit) for tokens in itertools.product(range(END), repeat=length)]
    best = max(sequences, key=lambda sequence: score(table, sequence, penalty))
    return best, score(table, best, penalty)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_best_of_all_sequences(seed: int, penalty: float) -> None:
    table = bigrams(seed)
    limits = torch.tensor([4, 2])
    found = beam_search(step, {"table": table}, limits=limits, begin=0, end=END, beam=64, length_penalty=penalty)
    for row in range(2):
        sequence, value = best_of_all(table[row], int(limits[row]), penalty)
        assert found.scores[row].item() == pytest.approx(value, abs=1e-5)
        assert tuple(found.tokens[row, : len(sequence)].tolist()) == sequence
        assert not found.tokens[row, len(sequence) :].any()


def trigrams(seed: int, batch: int = 4, tokens: int = 5) -> Tensor:
    """Logarithms of probabilities of the next token given the last two, for each item of a batch."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(batch, tokens, tokens, tokens, generator=generator)).log_softmax(-1)


def trigram_step(last: Tensor, state: State) -> tuple[Tensor, State]:
    """A model whose state holds a history: a search that mixes up its hypotheses scores other sequences."""
    row = torch.arange(len(last))
    return state["table"][row, state["previous"], last], {"table": state["table"], "previous": last}


def beam_by_hand(table: Tensor, limit: int, beam: int, penalty: float) -> tuple[tuple[int, ...], float]:
    """The best sequence that ends out of the ``beam`` best unfinished ones of each length, in lists."""
    kept, finished = [((0, 0), 0.0)], []
    for length in range(1, limit + 1):
        finished += [
            ((*words, END), (total + table[*words[-2:], END].item()) / length**penalty) for words, total in kept
        ]
        grown = [
            ((*words, token), total + table[*words[-2:], token].item())
            for words, total in kept for token in range(table.shape[-1]) if token != END
        ]  # fmt: skip
        kept = sorted(grown, key=lambda entry: -entry[1])[:beam]
    words, value = max(finished, key=lambda entry: entry[1])
    return words[2:], value


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_is_the_beam_by_hand(seed: int, beam: int, penalty: float) -> None:
    table = trigrams(seed)
    limits = torch.tensor([6, 5, 1, 4])
    state = {"table": table, "previous": torch.zeros(4, dtype=torch.long)}
    found = beam_search(trigram_step, state, limits=limits, begin=0, end=END, beam=beam, length_penalty=penalty)
    for row in range(4):
        sequence, value = beam_by_hand(table[row], int(limits[row]), beam, penalty)
        assert found.scores[row].item() == pytest.approx(value, abs=1e-5)
        assert tuple(found.tokens[row, : len(sequence)].tolist()) == sequence
        assert not found.tokens[row, len(sequence) :].any()
    assert found.tokens.shape[1] == max(len(beam_by_hand(table[r], int(limits[r]), beam, penalty)[0]) for r in range(4))


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_scores_at_least_as_much_as_greedy_search_and_none_more_than_the_best_of_all(seed: int) -> None:
    """A beam of one follows greedy search but may end at any step; a wider one may lose the greedy sequence."""
    table = bigrams(seed, batch=5, tokens=4)
    given = {"limits": torch.full((5,), 7), "begin": 0, "end": END}
    greedy = greedy_search(step, {"table": table}, **given)
    for row in range(5):
        sequence = tuple(greedy.tokens[row].tolist())
        end = sequence.index(END)
        assert greedy.scores[row].item() == pytest.approx(score(table[row], sequence[: end + 1], 0.0), abs=1e-5)
    exact = beam_search(step, {"table": table}, beam=64, **given)
    assert (exact.scores > greedy.scores + 1e-3).any(), "the greedy sequence is not the best of all in every table"
    assert (beam_search(step, {"table": table}, beam=1, **given).scores >= greedy.scores - 1e-5).all()
    for beam in (1, 2, 5):
        assert (beam_search(step, {"table": table}, beam=beam, **given).scores <= exact.scores + 1e-5).all()


@pytest.mark.parametrize("seed", range(8))
def test_greedy_search_takes_the_most_probable_token_of_each_step(seed: int) -> None:
    table = trigrams(seed)
    limits = torch.tensor([6, 5, 1, 4])
    state = {"table": table, "previous": torch.zeros(4, dtype=torch.long)}
    found = greedy_search(trigram_step, state, limits=limits, begin=0, end=END)
    for row in range(4):
        words, total = [0, 0], 0.0
        while words[-1] != END:
            logs = table[row, words[-2], words[-1]]
            token = END if len(words) - 1 == int(limits[row]) else int(logs.argmax())
            words, total = [*words, token], total + logs[token].item()
        assert found.tokens[row, : len(words) - 2].tolist() == words[2:]
        assert not found.tokens[row, len(words) - 2 :].any()
        assert found.scores[row].item() == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize(
    ("table", "penalty", "steps"),
    [
        # The next token does not depend on the last one: (1, 2) words, then the end.
        ([0.1, 0.0, 0.0, 0.9], 0.0, 1),  # ends at once, and nothing that goes on can be as probable
        ([0.4, 0.3, 0.1, 0.2], 0.0, 2),  # after one word .4, of which .2 ends: .08 < .2, and .16 < .2 stops
        ([0.4, 0.3, 0.1, 0.2], 1.0, 9),  # a mean of more words may still be higher, up to the limit
    ],
)
def test_a_beam_stops_when_nothing_longer_can_score_more(table: list[float], penalty: float, steps: int) -> None:
    calls = 0

    def counting(last: Tensor, state: State) -> tuple[Tensor, State]:
        nonlocal calls
        calls += 1
        return torch.tensor(table).log().expand(len(last), 4), state

    beam_search(counting, {}, limits=torch.tensor([9]), begin=0, end=END, beam=2, length_penalty=penalty)
    assert calls == steps


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_states_and_limits_stay_as_they_were(search: Any) -> None:
    state, limits = {"table": bigrams(0)}, torch.tensor([4, 2])
    before = state["table"].clone()
    found = search(step, state, limits=limits, begin=0, end=END)
    assert torch.equal(state["table"], before)
    assert limits.tolist() == [4, 2]
    assert found.tokens.dtype == limits.dtype


def test_an_item_does_not_depend_on_its_batch() -> None:
    table = bigrams(3, batch=4)
    limits = torch.tensor([6, 1, 3, 5])
    together = beam_search(step, {"table": table}, limits=limits, begin=0, end=END, beam=3, length_penalty=1.0)
    for row in range(4):
        alone = beam_search(
            step, {"table": table[row : row + 1]}, limits=limits[row : row + 1], begin=0, end=END, beam=3,
            length_penalty=1.0,
        )  # fmt: skip
        assert alone.scores[0].item() == pytest.approx(together.scores[row].item(), abs=1e-6)
        width = alone.tokens.shape[1]
        assert alone.tokens[0].tolist() == together.tokens[row, :width].tolist()


def test_a_sequence_ends_at_its_limit() -> None:
    table = torch.full((1, 4, 4), -20.0)
    table[:, :, 1] = 0.0
    for search in (greedy_search, beam_search):
        found = search(step, {"table": table}, limits=torch.tensor([3]), begin=0, end=END)
        assert found.tokens.tolist() in ([[1, 1, END]], [[END]])
        assert (found.tokens == END).sum() == 1


@pytest.mark.parametrize(("beam", "penalty", "limit"), [(0, 0.0, 2), (1, -1.0, 2), (1, 0.0, 0)])
def test_what_makes_no_sense_is_refused(beam: int, penalty: float, limit: int) -> None:
    with pytest.raises(ValueError, match="beam_search expects"):
        beam_search(
            step, {"table": bigrams(0)}, limits=torch.tensor([limit, limit]), begin=0, end=END, beam=beam,
            length_penalty=penalty,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "least", "below"), [("beam", 1, 0), ("length_penalty", 0.0, -0.1), ("max_length_ratio", 0.0, -0.1)]
)
def test_options_of_a_search_have_a_least_value(option: str, least: Any, below: Any) -> None:
    assert getattr(Search(**{option: least}), option) == least
    for value in [below] if option == "beam" else [below, float("inf"), math.nan]:
        with pytest.raises(ConfigError, match=f"decoder.{option}"):
            Search(**{option: value})


def test_five_hypotheses_are_kept_unless_another_number_is_given() -> None:
    rows = []

    def counting(last: Tensor, state: State) -> tuple[Tensor, State]:
        rows.append(len(last))
        return step(last, state)

    beam_search(counting, {"table": bigrams(0)}, limits=torch.tensor([4, 2]), begin=0, end=END)
    assert rows[0] == 2 * 5 == 2 * Search().beam
    assert Search().max_length_ratio == 2


def test_sequences_whose_search_is_over_leave_the_batch() -> None:
    rows = []

    def reluctant(last: Tensor, state: State) -> tuple[Tensor, State]:
        rows.append(len(last))
        return torch.tensor([-1.0, -1.0, -1.0, -10.0]).expand(len(last), 4), state

    limits = torch.tensor([2, 5, 2, 3])
    found = beam_search(reluctant, {"table": bigrams(0, batch=4)}, limits=limits, begin=0, end=END, beam=2)
    assert rows == [8, 8, 4, 2, 2]
    assert found.tokens.tolist() == [[END]] * 4


@pytest.mark.parametrize("seed", range(3))
def test_what_no_step_replaces_is_neither_copied_nor_mixed_up(seed: int) -> None:
    table, seen = bigrams(seed, batch=6), set()

    def counting(last: Tensor, state: State) -> tuple[Tensor, State]:
        seen.add((len(last), state["table"].data_ptr()))
        logs, _ = step(last, state)
        return logs, {**state, "steps": state["steps"] + 1}

    limits = torch.tensor([3, 9, 4, 9, 2, 6])
    state = {"table": table, "steps": torch.zeros(6)}
    found = beam_search(counting, state, limits=limits, begin=0, end=END, beam=3, length_penalty=1.0)
    assert len(seen) == len({rows for rows, _ in seen}) > 2
    for number, limit in enumerate(limits):
        alone = beam_search(
            step, {"table": table[[number]]}, limits=limit[None], begin=0, end=END, beam=3, length_penalty=1.0
        )
        row = found.tokens[number].tolist()
        assert row[: alone.tokens.shape[1]] == alone.tokens[0].tolist()
        assert not any(row[alone.tokens.shape[1] :])
        assert found.scores[number].item() == pytest.approx(alone.scores.item(), abs=1e-6)


def test_of_equal_scores_the_shorter_sequence_is_the_answer() -> None:
    table = torch.tensor([[0.0, 0.5, 0.25, 0.25], [0.0, 0.25, 0.25, 0.5], [0.25] * 4, [0.25] * 4]).log()[None]
    found = beam_search(step, {"table": table}, limits=torch.tensor([4]), begin=0, end=END)
    assert found.tokens.tolist() == [[END]]
    assert score(table[0], (END,), 0.0) == score(table[0], (1, END), 0.0)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_limits_begin_and_end_are_given_by_name(search: Any) -> None:
    with pytest.raises(TypeError):
        search(step, {"table": bigrams(0)}, torch.tensor([4, 2]), 0, END)
