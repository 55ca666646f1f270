"""Comparisons over several data sets: against enumeration, against the test of one data set, and from run folders."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_compare import coins, write_run

from structattn.errors import ConfigError
from structattn.files.json_yaml import write_json
from structattn.tasks import metric
from structattn.training import (
    Answers,
    RunFolder,
    bootstrap_family,
    compare_pooled,
    holm,
    pool,
)
from structattn.training.significance import bootstrap_pooled, compare_answers

pytestmark = pytest.mark.integration

ACCURACY = metric("accuracy")


def answers(gold: str, *, first: list[str], second: list[str]) -> Answers:
    systems = [[np.array(list(one)) for one in system] for system in (first, second)]
    return Answers(ACCURACY, np.array(list(gold)), first=systems[0], second=systems[1])


TINY = (
    [answers("aaa", first=["baa", "bba"], second=["aab"]), answers("aa", first=["bb"], second=["ba"])],
    [answers("aab", first=["aab"], second=["bbb"]), answers("ab", first=["ba", "aa"], second=["ab", "ab"])],
    [answers("a", first=["a", "b"], second=["a"]), answers("ab", first=["bb"], second=["aa"])],
)


def every_draw(one: Answers) -> np.ndarray:
    """The difference for each draw of examples and of the seeds of each system."""
    right = [np.array([answer == one.gold for answer in system]) for system in (one.first, one.second)]
    numbers = (len(one.gold), len(one.first), len(one.second))
    draws = itertools.product(*(itertools.product(range(number), repeat=number) for number in numbers))
    return np.array(
        [
            right[1][list(seeds)][:, list(examples)].mean() - right[0][list(others)][:, list(examples)].mean()
            for examples, others, seeds in draws
        ]
    )


def every_swap(one: Answers) -> np.ndarray:
    """The difference for each exchange of the answers of some examples."""
    change = np.mean([answer == one.gold for answer in one.second], axis=0) - np.mean(
        [answer == one.gold for answer in one.first], axis=0
    )
    return np.array([(change * signs).mean() for signs in itertools.product((1, -1), repeat=len(change))])


@pytest.mark.parametrize("parts", TINY)
def test_data_sets_are_resampled_by_themselves(parts: list[Answers]) -> None:
    """Against every pair of draws, one from each data set."""
    draws = [every_draw(one) for one in parts]
    means = np.add.outer(*draws).ravel() / 2
    found = compare_pooled(parts, samples=20_000)
    assert found.difference == pytest.approx(np.mean([one.difference for one in parts]))
    assert found.bootstrap_p == pytest.approx(
        np.mean(np.abs(means - found.difference) >= abs(found.difference) - 1e-9), abs=0.02
    )
    for end, share in ((found.low, 0.025), (found.high, 0.975)):
        # An end may lie on either side of a step of the distribution, by the luck of the draws.
        assert np.mean(means < end - 1e-9) <= share + 0.005
        assert np.mean(means <= end + 1e-9) >= share - 0.005


def test_answers_are_exchanged_in_every_data_set() -> None:
    parts = [answers("aab", first=["bba"], second=["aab"]), answers("ab", first=["aa"], second=["ab"])]
    means = np.add.outer(*[every_swap(one) for one in parts]).ravel() / 2
    found = compare_pooled(parts, samples=20_000)
    assert found.randomisation_p == pytest.approx(np.mean(np.abs(means) >= abs(found.difference) - 1e-9), abs=0.02)
    unpaired = answers("ab", first=["aa"], second=["ab", "ab"])
    assert compare_pooled([parts[0], unpaired], samples=10).randomisation_p is None


def sampled(seed: int, share: float = 0.8) -> Answers:
    generator = np.random.default_rng(seed)
    gold = np.array(["a", "b"] * 40)
    first, second = ([coins(generator, gold, one) for _ in range(3)] for one in (0.7, share))
    return Answers(ACCURACY, gold, first=first, second=second)


def test_one_data_set_is_the_test_of_one_data_set() -> None:
    one = sampled(0)
    alone = compare_answers(ACCURACY, one.gold, first=one.first, second=one.second, samples=500, seed=3)
    assert compare_pooled([one], samples=500, seed=3) == alone
    assert bootstrap_pooled([one], samples=500, seed=3) == dataclasses.replace(alone, randomisation_p=None)


def test_a_family_says_of_each_comparison_what_is_said_of_it_alone() -> None:
    short = answers("ab", first=["aa"], second=["ab"])
    family = [[sampled(0)], [sampled(1), short], [short, sampled(2, 0.9)], [sampled(3)]]
    found = bootstrap_family(family, samples=500, seed=3)
    assert found == [bootstrap_pooled(data_sets, samples=500, seed=3) for data_sets in family]
    assert len(set(found)) == len(family)


def test_a_data_set_without_a_difference_halves_the_other() -> None:
    one, equal = sampled(0), answers("ab", first=["aa"], second=["aa"])
    alone, both = compare_pooled([one], samples=500), compare_pooled([one, equal], samples=500)
    assert (both.difference, both.low, both.high) == pytest.approx(
        (alone.difference / 2, alone.low / 2, alone.high / 2)
    )
    assert both.bootstrap_p == alone.bootstrap_p


def test_more_data_sets_narrow_the_interval() -> None:
    """Of the mean over four independent data sets of one distribution: half as wide."""
    widths = {}
    for count in (1, 4):
        found = [compare_pooled([sampled(10 * start + n) for n in range(count)], samples=1000) for start in range(6)]
        widths[count] = np.mean([one.high - one.low for one in found])
    assert widths[4] / widths[1] == pytest.approx(0.5, abs=0.06)


def test_data_sets_draw_from_streams_of_their_own() -> None:
    """Twice the same answers are two samples: the interval shrinks by the square root of two, not by nothing."""
    one = sampled(0)
    alone, twice = compare_pooled([one], samples=4000), compare_pooled([one, one], samples=4000)
    assert (twice.high - twice.low) / (alone.high - alone.low) == pytest.approx(2**-0.5, abs=0.05)


def test_what_cannot_be_pooled() -> None:
    one = answers("ab", first=["aa"], second=["ab"])
    error = Answers(metric("mean_squared_error"), np.array([1.0, 2.0]), first=[np.ones(2)], second=[np.ones(2)])
    with pytest.raises(ValueError, match="or all better when smaller, got accuracy, mean_squared_error"):
        compare_pooled([one, error])
    with pytest.raises(ValueError, match="expected data sets"):
        compare_pooled([])
    with pytest.raises(ValueError, match="answers of both systems and at least one sample, got 1, 1, 0"):
        compare_pooled([one], samples=0)


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_the_closed_test_of_bonferroni(seed: int) -> None:
    """A hypothesis falls when every set of hypotheses that holds it does: the largest p-value of these sets."""
    p_values = (np.random.default_rng(seed).random(1 + seed % 5) ** 3).tolist()
    numbers = range(len(p_values))
    sets = [some for size in numbers for some in itertools.combinations(numbers, size + 1)]
    closed = [
        max(min(1.0, len(some) * min(p_values[one] for one in some)) for some in sets if number in some)
        for number in numbers
    ]
    assert holm(p_values) == pytest.approx(closed)


def test_holm_of_none_and_of_ties() -> None:
    assert holm([]) == []
    assert holm([0.03, 0.03, 0.03]) == pytest.approx([0.09] * 3)


# From run folders.


@pytest.fixture
def data_sets(tmp_path: Path) -> list[Path]:
    """Two data sets, three systems, two seeds."""
    right = {"plain": ["bbab", "aaba"], "tree": ["aabb", "babb"], "word": ["aaba", "aaba"]}
    for name in ("one", "two"):
        for system, runs in right.items():
            for seed, given in enumerate(runs):
                write_run(tmp_path / name / system / f"seed{seed}", list("aabb"), list(given), encoder="disan")
    return [tmp_path / "one", tmp_path / "two"]


def test_systems_are_compared_over_data_sets(data_sets: list[Path], call: Callable[..., tuple[int, str, str]]) -> None:
    found = pool(*data_sets, against="plain", samples=300)
    assert [one.system for one in found.differences] == ["tree", "word"]
    for one in found.differences:
        assert set(one.by_data_set) == {str(place) for place in data_sets}
        assert one.significance.difference == pytest.approx(np.mean(list(one.by_data_set.values())))
    assert [one.holm_p for one in found.differences] == holm(
        [one.significance.bootstrap_p for one in found.differences]
    )
    code, out, _ = call("compare", *data_sets, "--pooled", "plain")
    assert code == 0
    _, _, header, tree, word = out.splitlines()
    assert [f"{place} (accuracy)" in header for place in data_sets] == [True, True]
    assert tree.split()[:4] == ["tree", "+0.3750", "+0.3750", "+0.3750"]
    assert word.split()[:4] == ["word", "+0.2500", "+0.2500", "+0.2500"]
    _, out, _ = call("compare", *data_sets, "--pooled", "plain", "--json")
    assert json.loads(out)["differences"][0]["system"] == "tree"


def test_faults_of_data_sets(data_sets: list[Path], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"one contains no folder 'plan' \(did you mean 'plain'\?\); systems there: plain"
    ):
        pool(*data_sets, against="plan")
    with pytest.raises(ConfigError, match="a folder for each data set"):
        pool(against="plain")
    write_run(tmp_path / "three" / "plain" / "seed0", list("ab"), list("ab"))
    with pytest.raises(ConfigError, match="expected a second system beside 'plain' that all of them contain"):
        pool(*data_sets, tmp_path / "three", against="plain")
    write_run(tmp_path / "three" / "tree" / "seed0", list("abb"), list("abb"))
    with pytest.raises(ConfigError, match="runs are compared on the same examples only"):
        pool(tmp_path / "three", against="plain")


def test_metrics_of_two_directions_are_refused(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    for data_set, name in (("sick", "pearson"), ("error", "mean_squared_error")):
        for system in ("plain", "tree"):
            folder = RunFolder(write_run(tmp_path / data_set / system, [1.0, 2.0], [1.0, 2.0]))
            write_json(folder.result, {"main_metric": name, "metrics": {name: 0.5}})
    both = [tmp_path / "sick", tmp_path / "error"]
    with pytest.raises(ConfigError, match="or all better when smaller, got pearson, mean_squared_error"):
        pool(*both, against="plain")
    found = pool(*both, against="plain", metric="mean_squared_error", samples=10)
    assert found.differences[0].significance.difference == 0
    code, _, err = call("compare", *both, "--pooled", "plain", "--format", "latex")
    assert (code, "--pooled: expected no --data, --flips, --format or --cards" in err) == (2, True)
