"""Facts: the reader of bAbI, embeddings and hops by hand, chains against enumeration, and whole runs."""

import copy
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from structattn.cli import main
from structattn.data import Example, Vocabulary, read_examples
from structattn.errors import ConfigError, ParseError
from structattn.layers import binary_potentials, unary_potentials
from structattn.syntax import Sentence
from structattn.tasks import get_task
from structattn.training import DataConfig, OptimizationConfig, RunConfig, load, run
from structattn_papers.facts import FactChain, FactEmbedding, FactModel, MemoryHops, facts_of, support_of

pytestmark = pytest.mark.integration

TASK = get_task("fact_selection")
STORY = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel went back to the hallway.
5 Where is Daniel?\thallway\t4
1 The office is east of the hallway.
2 How do you go from the hallway to the office? \te,s\t1
"""


def story_file(path: Path, text: str = STORY) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# The reader.


def test_stories_questions_and_supporting_facts(tmp_path: Path) -> None:
    first, second, third = read_examples(story_file(tmp_path / "qa.txt"), format="babi")
    assert first.label == "bathroom"
    assert first.sentences[1].words == ("Where", "is", "Mary")
    assert facts_of(first) == (("Mary", "moved", "to", "the", "bathroom"), ("John", "went", "to", "the", "hallway"))
    assert (support_of(first), support_of(second), support_of(third)) == ((0,), (2,), (0,))
    assert len(facts_of(second)) == 3
    assert facts_of(third) == (("The", "office", "is", "east", "of", "the", "hallway"),)
    assert (third.label, third.id) == ("e,s", "2")
    plain = Example((Sentence(["a", "b"]), Sentence(["c"])))
    assert facts_of(plain) == (("a", "b"),)
    with pytest.raises(ValueError, match="expected the ends of facts in a story of 2 words"):
        facts_of(Example((Sentence(["a", "b"], metadata={"facts": "1 3"}), Sentence(["c"]))))


def test_a_truncated_story_has_the_facts_of_its_words(tmp_path: Path) -> None:
    story = next(read_examples(story_file(tmp_path / "qa.txt"), format="babi"))
    for length in range(1, len(story.sentences[0]) + 1):
        short = replace(story, sentences=tuple(sentence.truncated(length) for sentence in story.sentences))
        facts = facts_of(short)
        assert [word for fact in facts for word in fact] == list(story.sentences[0].words[:length])
        assert facts[:-1] == facts_of(story)[: len(facts) - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Mary moved.\n", r"qa.txt:1: expected a number, a space and a sentence, got 'Mary moved.'"),
        ("1 Mary moved.\n3 John left.\n", r"qa.txt:2: expected line 2 of the story, or 1 for a new one, got 3"),
        ("1 Mary moved.\n2 Who?\t\t1\n", r"qa.txt:2: expected an answer after the question"),
        ("1 Mary moved.\n2 Who?\tMary\t2\n", r"qa.txt:2: expected the numbers of facts before the question, got '2'"),
        ("1 Mary moved.\n2 Who?\tMary\tx\n", r"qa.txt:2: expected the numbers of facts before the question, got 'x'"),
        ("1 Mary moved.\n", r"expected at least one example in format 'babi'"),
    ],
)
def test_malformed_stories(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        list(read_examples(story_file(tmp_path / "qa.txt", text), format="babi"))


# Layers.


def test_embeddings_by_hand() -> None:
    embedding = FactEmbedding(5, 2, num_times=3)
    words = torch.tensor([[[2, 3, 0], [4, 0, 0]]])
    with torch.no_grad():
        table, times = embedding.words.weight, embedding.times.weight
        expected = torch.zeros(2, 2)
        for fact, ids in enumerate(([2, 3], [4])):
            for place, word in enumerate(ids, start=1):
                for feature in (1, 2):
                    share = place / len(ids)
                    weight = (1 - share) - feature / 2 * (1 - 2 * share)
                    expected[fact, feature - 1] += weight * table[word, feature - 1]
            expected[fact] += times[1 - fact]
        assert torch.allclose(embedding(words, torch.tensor([2]))[0], expected, atol=1e-6)
        # The last fact is always the most recent one, however much padding follows.
        padded = torch.cat([words, torch.zeros(1, 4, 3, dtype=torch.long)], 1)
        assert torch.allclose(embedding(padded, torch.tensor([2]))[0, :2], expected, atol=1e-6)


def random_facts(batch: int = 2, steps: int = 2, facts: int = 4, dim: int = 3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    keys, values = (torch.randn(batch, steps, facts, dim, generator=generator) for _ in range(2))
    mask = torch.arange(facts) < torch.tensor([[facts], [facts - 1]])
    return keys, values, mask, torch.randn(batch, dim, generator=generator)


def test_hops_by_hand() -> None:
    keys, values, mask, query = random_facts()
    output, weights = MemoryHops()(keys, values, mask, query)
    for row, number in enumerate((4, 3)):
        state = query[row]
        for step in range(2):
            attention = torch.softmax(keys[row, step, :number] @ state, 0)
            assert torch.allclose(weights[row, 0, step, :number], attention, atol=1e-6)
            state = state + attention @ values[row, step, :number]
        assert torch.allclose(output[row], state, atol=1e-5)
    assert not weights[1, 0, :, 3].any()


def test_a_linear_start_leaves_the_softmax_out() -> None:
    keys, values, mask, query = random_facts(steps=1)
    hops = MemoryHops()
    hops.is_linear = True
    output, weights = hops(keys, values, mask, query)
    expected = keys[1, 0, :3] @ query[1]
    assert torch.allclose(weights[1, 0, 0, :3], expected)
    assert torch.allclose(output[1], query[1] + expected @ values[1, 0, :3], atol=1e-6)


@pytest.mark.parametrize("potentials", [unary_potentials, binary_potentials])
def test_a_linear_start_of_a_chain_passes_means_forward(potentials: Any) -> None:
    keys, values, mask, query = random_facts(steps=3)
    torch.manual_seed(0)
    chain = FactChain(3, 3, potentials=potentials)
    chain.is_linear = True
    output, weights = chain(keys, values, mask, query)
    assert not weights[1, 0, :, 3].any()
    for row, number in enumerate((4, 3)):
        state, before, context = query[row], torch.zeros(number), torch.zeros(3)
        for step in range(3):
            own = keys[row, step, :number] @ state
            now = own.clone()
            if potentials is binary_potentials:
                now = 2 * own if step == 1 else own
                for fact in range(number) if step else ():
                    others = [other for other in range(number) if other != fact]
                    pairs = [before[i] * (keys[row, step - 1, i] @ keys[row, step, fact]) for i in others]
                    now[fact] = now[fact] + sum(pairs) / number
            assert torch.allclose(weights[row, 0, step, :number], now, atol=1e-5)
            context = context + now @ values[row, step, :number]
            last, state, before = state, chain.scorer.next_query(state), now
        assert torch.allclose(output[row], context + last, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("potentials", [unary_potentials, binary_potentials])
def test_chains_against_all_sequences(steps: int, potentials: Any) -> None:
    keys, values, mask, query = random_facts(steps=steps)
    torch.manual_seed(0)
    chain = FactChain(3, steps, potentials=potentials)
    output, weights = chain(keys, values, mask, query)
    best = chain.best(keys, values, mask, query)
    queries = [query]
    while len(queries) < steps:
        queries.append(chain.scorer.next_query(queries[-1]))
    for row, number in enumerate((4, 3)):
        scores = {}
        for sequence in itertools.product(range(number), repeat=steps):
            total = 0.0
            for step, fact in enumerate(sequence):
                own = (keys[row, step, fact] @ queries[step][row]).item()
                # On two edges counts twice, as the equation of the paper says.
                inner = potentials is binary_potentials and 0 < step < steps - 1
                total += own * (2 if inner else 1)
                if potentials is binary_potentials and step:
                    if sequence[step - 1] == fact:
                        total = -float("inf")
                    total += (keys[row, step - 1, sequence[step - 1]] @ keys[row, step, fact]).item()
            scores[sequence] = total
        probabilities = torch.softmax(torch.tensor(list(scores.values())), 0)
        expected = torch.zeros(steps, number)
        for sequence, probability in zip(scores, probabilities, strict=True):
            for step, fact in enumerate(sequence):
                expected[step, fact] += probability
        assert torch.allclose(weights[row, 0, :, :number], expected, atol=1e-5)
        context = sum(expected[step] @ values[row, step, :number] for step in range(steps))
        assert torch.allclose(output[row], context + queries[-1][row], atol=1e-4)
        assert tuple(best[row].tolist()) == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("is_linear", [True, False])
def test_the_switch_of_a_linear_start_is_kept_and_never_waited_for(is_linear: bool) -> None:
    facts = [tensor.to("meta") for tensor in random_facts(steps=2)]
    for build in (MemoryHops, lambda: FactChain(3, 2)):
        kept, again = build(), build()
        kept.is_linear, again.is_linear = is_linear, not is_linear
        again.load_state_dict(kept.state_dict())
        assert again.is_linear is copy.deepcopy(kept).is_linear is is_linear
        # Values on the device meta cannot be read: whoever asks for one raises.
        output, _ = again.to("meta")(*facts)
        assert output.shape == facts[-1].shape


def test_no_facts_give_zeros_and_no_nan() -> None:
    keys, values, mask, query = random_facts()
    keys.requires_grad_()
    linear = FactChain(3, 2)
    linear.is_linear = True
    for selection in (MemoryHops(), FactChain(3, 2), linear):
        output, weights = selection(keys, values, torch.zeros_like(mask), query)
        assert not weights.any()
        assert output.isfinite().all()
        (gradient,) = torch.autograd.grad(output.sum(), keys, retain_graph=True, allow_unused=True)
        assert gradient is None or not gradient.any()


# The model.


def model_of(name: str, **options: Any) -> tuple[FactModel, list[Example]]:
    torch.manual_seed(0)
    examples = two_fact_stories(40)
    vocabulary = Vocabulary.from_examples(examples)
    labels = sorted({str(example.label) for example in examples})
    return FactModel.build(name, TASK, labels, vocabulary=vocabulary, **options).eval(), examples


def two_fact_stories(number: int, seed: int = 0) -> list[Example]:
    """Somebody takes a thing and goes somewhere; where is the thing?"""
    generator = torch.Generator().manual_seed(seed)

    def draw(words: list[str]) -> str:
        return words[int(torch.randint(len(words), (1,), generator=generator))]

    found = []
    for index in range(number):
        lines = [f"{person} went to the {draw(['garden', 'office', 'kitchen'])}" for person in ("mary", "john")]
        taker = draw(["mary", "john"])
        place = lines[("mary", "john").index(taker)].split()[-1]
        facts = [f"{taker} took the milk", *lines]
        ends = list(itertools.accumulate(len(fact.split()) for fact in facts))
        metadata = {"facts": " ".join(map(str, ends)), "support": f"0 {1 + ('mary', 'john').index(taker)}"}
        story = Sentence(" ".join(facts).split(), metadata=metadata)
        found.append(Example((story, Sentence(["where", "is", "the", "milk"])), place, id=str(index)))
    return found


@pytest.mark.parametrize("name", ["memn2n", "unary", "binary"])
def test_company_and_padding_change_nothing(name: str) -> None:
    model, examples = model_of(name)
    longer = [
        *examples[:3],
        Example((Sentence(["mary", "took", "the", "milk"]), Sentence(["where"])), "office", id="x"),
    ]
    scores = model(model.collate(longer))
    for row, example in enumerate(longer):
        assert torch.allclose(model(model.collate([example]))[0], scores[row], atol=1e-5)
    together, alone = model.predict(longer, batch_size=4), model.predict(longer, batch_size=1)
    assert [(one.label, one.details) for one in together] == [(one.label, one.details) for one in alone]
    for one in together:
        assert sum(one.probabilities.values()) == pytest.approx(1)


def test_only_the_last_facts_are_read_and_named_as_they_stand_in_the_story() -> None:
    model, examples = model_of("binary", num_facts=2)
    for prediction in model.predict(examples):
        assert set(prediction.details["facts"]) == {1, 2}, "the first of three facts is out of reach"


def test_a_chain_learns_where_the_milk_is() -> None:
    model, examples = model_of("binary", dim=12)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        model.loss(examples).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    evaluation = model.evaluate(examples)
    assert evaluation.metrics["accuracy"] == 1.0
    assert evaluation.metrics["fact_set_accuracy"] >= evaluation.metrics["fact_accuracy"]
    assert evaluation.metrics["fact_set_accuracy"] > 0.5


def test_facts_are_measured_by_hand() -> None:
    model, examples = model_of("binary")
    predictions = model.predict(examples[:4])
    facts = [(0, 1), (1, 0), (0, 2), (2, 1)]
    wanted = [support_of(example) for example in examples[:4]]
    changed = [replace(one, details={"facts": chosen}) for one, chosen in zip(predictions, facts, strict=True)]
    metrics = model.measure(examples[:4], changed).metrics
    assert metrics["fact_accuracy"] == sum(a == b for a, b in zip(facts, wanted, strict=True)) / 4
    assert metrics["fact_set_accuracy"] == sum(set(a) == set(b) for a, b in zip(facts, wanted, strict=True)) / 4


def test_bad_models_and_examples_are_refused() -> None:
    vocabulary = Vocabulary(["a"])
    with pytest.raises(
        ConfigError, match="unknown encoder 'bilstm' of a model that selects facts; known: memn2n, unary"
    ):
        FactModel.build("bilstm", TASK, ["a", "b"], vocabulary=vocabulary)
    with pytest.raises(ConfigError, match="unknown option 'heads' for encoder 'binary'; known: dim"):
        FactModel.build("binary", TASK, ["a", "b"], vocabulary=vocabulary, heads=3)
    with pytest.raises(ConfigError, match="linear_start expects at least 0, got -1"):
        FactModel.build("binary", TASK, ["a", "b"], vocabulary=vocabulary, linear_start=-1)
    with pytest.raises(ConfigError, match="option 'num_steps' of encoder 'unary': expected at least 1, got 0"):
        FactModel.build("unary", TASK, ["a", "b"], vocabulary=vocabulary, num_steps=0)
    with pytest.raises(ConfigError, match="option 'dim' of encoder 'unary': expected int, got '3'"):
        FactModel.build("unary", TASK, ["a", "b"], vocabulary=vocabulary, dim="3")
    with pytest.raises(ConfigError, match="needs at least two answers"):
        FactModel.build("unary", TASK, ["a"], vocabulary=vocabulary)
    model, examples = model_of("binary")
    with pytest.raises(ValueError, match="takes 2 sentence"):
        model.predict(["where is the milk"])
    unknown = Example(examples[0].sentences, "moon", id="m")
    with pytest.raises(ValueError, match="has an answer that the model knows"):
        model.loss([unknown])
    assert model.evaluate([unknown, examples[0]]).metrics["unseen_labels"] == 1.0


# Runs.


def write_stories(path: Path, examples: list[Example]) -> Path:
    lines = []
    for example in examples:
        facts = [" ".join(fact) for fact in facts_of(example)]
        lines += [f"{number} {fact}." for number, fact in enumerate(facts, start=1)]
        support = " ".join(str(place + 1) for place in support_of(example))
        lines.append(f"{len(facts) + 1} {' '.join(example.sentences[1].words)}?\t{example.label}\t{support}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_run_its_linear_start_and_its_folder(tmp_path: Path) -> None:
    data = DataConfig(str(write_stories(tmp_path / "qa.txt", two_fact_stories(48))), limit=40)
    config = RunConfig(
        "fact_selection", "memn2n", data, options={"dim": 8, "linear_start": 2},
        optimization=OptimizationConfig(epochs=3, learning_rate=0.02, patience=None), out=str(tmp_path / "run"),
        device="cpu",
    )  # fmt: skip
    result = run(config)
    assert {"accuracy", "fact_accuracy", "fact_set_accuracy"} <= result.metrics.keys()
    model = load(result.folder)
    assert isinstance(model, FactModel)
    assert isinstance(model.selection, MemoryHops)
    # The model of the best epoch answers as it did then.
    assert bool(model.selection.is_linear) == (result.best["epoch"] <= 2)
    rows = [json.loads(line) for line in (result.folder / "predictions" / "dev.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    assert all(len(row["facts"]) == 2 for row in rows)
    with pytest.raises(ConfigError, match=r"data.limit: expected at least 1, got 0"):
        DataConfig("x", limit=0)


@pytest.mark.parametrize("name", ["memn2n", "unary", "binary"])
def test_long_stories_are_trained_on(tmp_path: Path, name: str) -> None:
    """Stories of 500 words, as in the third task, are longer than what the estimate of memory reads of them."""
    lines = [f"{number} Mary went to the hall." for number in range(1, 101)] + ["101 Where is Mary?\thall\t100 99 98"]
    other = [line.replace("hall", "garden") for line in lines]
    (tmp_path / "qa3.txt").write_text("\n".join([*lines, *other] * 20) + "\n", encoding="utf-8")
    config = RunConfig(
        "fact_selection", name, DataConfig(str(tmp_path / "qa3.txt")), options={"dim": 4, "num_steps": 3},
        optimization=OptimizationConfig(epochs=1, patience=None), out=str(tmp_path / "run"), device="cpu",
    )  # fmt: skip
    assert run(config).metrics.keys() >= {"accuracy", "fact_accuracy"}


def test_questions_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_stories(tmp_path / "qa.txt", two_fact_stories(30))
    out = tmp_path / "run"
    arguments = ["train", "--task", "fact_selection", "--encoder", "binary", "--options.dim", "8", "--data.train"]
    arguments += [str(file), "--optimization.epochs", "2", "--out", str(out)]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(["eval", str(out), "--data", str(file), "--json"]) == 0
    assert {"accuracy", "fact_accuracy", "examples"} <= json.loads(capsys.readouterr().out).keys()
    assert main(["predict", str(out), "--data", str(file)]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert set(first) == {"id", "label", "facts", "probabilities"}
    vectors = ["--data.vectors", str(file), "--out", str(tmp_path / "other")]
    assert main([*arguments[:-2], *vectors]) == 2
    assert "data.vectors: task 'fact_selection' learns its own vectors" in capsys.readouterr().err
