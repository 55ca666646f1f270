"""Gradient × input against finite differences, and what it leaves as it was."""

import math
from typing import Any

import pytest
import torch

from small_models import sentence_model
from structattn.data import Example, Vocabulary
from structattn.errors import ConfigError
from structattn.inspection.gradient_input import gradient_times_input, has_gradient
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import get_task
from structattn.tasks.answer_config import ClassifierConfig

VOCABULARY = Vocabulary(["a", "cat", "dog", "sees"])
SEES = Sentence(["a", "dog", "sees", "cat"], dependency=DependencyTree([2, 3, 0, 3]))
DOG = Sentence(["a", "dog"], dependency=DependencyTree([2, 0]))
CASES: list[tuple[str, str, Example]] = [
    *((name, "agreement", Example((SEES,))) for name in ("ms_san", "disan", "transformer", "bilstm_s2t", "emb_s2t")),
    ("dependency_tree_lstm", "agreement", Example((SEES,))),
    ("disan", "pair_classification", Example((SEES, DOG))),
    ("decomposable", "pair_classification", Example((SEES, DOG))),
]


def model_of(name: str, task: str) -> Any:
    torch.manual_seed(0)
    options = {"dim": 12} if name != "emb_s2t" else {"dim": 6}
    extra = {"classifier": ClassifierConfig(combine="together")} if name == "decomposable" else {}
    labels = {"agreement": ["plural", "singular"], "pair_classification": ["no", "yes", "maybe"]}[task]
    return sentence_model(name, get_task(task), vocabulary=VOCABULARY, labels=labels, options=options, **extra).double()


@pytest.mark.parametrize(("name", "task", "example"), CASES, ids=[f"{name}-{task}" for name, task, _ in CASES])
def test_it_is_the_slope_as_one_vector_is_scaled(name: str, task: str, example: Example) -> None:
    model = model_of(name, task)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.train()
    attributions = gradient_times_input(model, example)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.encoder.embedder._forward_hooks
    (prediction,) = model.predict([example])
    assert {attribution.answer for attribution in attributions} == {prediction.label}
    flat = [change for attribution in attributions for change in attribution.changes]
    assert len(flat) == sum(map(len, example.sentences))
    for place, change in enumerate(flat):
        values = [log_odds_scaled(model, example, place, 1 + step) for step in (1e-4, -1e-4)]
        assert change == pytest.approx((values[0] - values[1]) / 2e-4, abs=1e-6)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def log_odds_scaled(model: Any, example: Example, place: int, factor: float) -> float:
    """The log-odds of the model's label if the vector of one word, counted over the sentences, is scaled."""
    (prediction,) = model.predict([example])
    done = 0

    def scale(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        nonlocal done
        scaled = output.clone()
        if done <= place < done + output.shape[1]:
            scaled[0, place - done] *= factor
        done += output.shape[1]
        return scaled

    hook = model.encoder.embedder.register_forward_hook(scale)
    try:
        (other,) = model.predict([example])
    finally:
        hook.remove()
    share = float(other.probabilities[prediction.label])
    return math.log(share / (1 - share))


def test_scores_are_attributed_as_scores() -> None:
    torch.manual_seed(0)
    model = sentence_model("disan", get_task("sick"), vocabulary=VOCABULARY, options={"dim": 12})
    attributions = gradient_times_input(model, Example((SEES, DOG)))
    (prediction,) = model.predict([Example((SEES, DOG))])
    assert attributions[0].answer == prediction.score


def test_models_without_one_are_refused() -> None:
    model = model_of("disan", "agreement")
    assert has_gradient(model)
    model.encoder.embedder.tokenizer = None
    assert not has_gradient(model)
    with pytest.raises(ConfigError, match="gradient × input: expected a model that predicts a label or a score"):
        gradient_times_input(model, SEES)
