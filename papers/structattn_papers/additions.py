"""What structattn's tables get from this package: tasks, a kind of model, and what its card says."""

from collections.abc import Mapping
from typing import Any

from structattn.data.model_card import ModelCard
from structattn.errors import ConfigError
from structattn.lazy import outline
from structattn.options.checking import check, check_options, list_options
from structattn.tasks.task import Task
from structattn.tasks.task_table import ModelKind
from structattn_papers.formulas import TESTED_ON

#: Tree transduction: arithmetic in prefix notation, to be written in infix notation.
TRANSDUCTION = Task(
    "transduction",
    fallback_format="parallel",
    metrics=("correct_prefix", "accuracy", *(f"correct_prefix_depth{depth}" for depth in TESTED_ON)),
    answer="text",
    generated="formulas",
)
#: Questions about stories of bAbI.
FACT_SELECTION = Task("fact_selection", fallback_format="babi", arity=2, answer="facts", metrics=("accuracy",))

#: From the name of a model that selects facts to its builder.
FACT_MODELS: Mapping[str, str] = {
    name: f"structattn_papers.facts.fact_models:{name}" for name in ("memn2n", "unary", "binary")
}


def fact_model_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model that selects facts, defaults included; nothing is imported.

    Raises:
        ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> fact_model_options("unary", {"dim": 10})
        {'dim': 10, 'num_steps': 2, 'num_facts': 25, 'linear_start': 20}
    """
    if name not in FACT_MODELS:
        raise ConfigError(f"unknown encoder {name!r} of a model that selects facts; known: {', '.join(FACT_MODELS)}")
    function = outline(FACT_MODELS[name])
    chosen = {**list_options(function), **check_options(options, function, f"encoder {name!r}")}
    for size in ("num_steps", "num_facts"):
        check(chosen[size] >= 1, f"option {size!r} of encoder {name!r}", "at least 1", chosen[size])
    return chosen


FACTS = ModelKind(
    "structattn_papers.facts.fact_selection:FactModel",
    check_encoder=lambda name, options, embedder: fact_model_options(name, options),
)
FACTS_CARD = ModelCard(
    "Answers a question about a story and selects the facts that the answer rests on.",
    'import structattn as sa\n\nmodel = sa.load("FOLDER")\nmodel.predict(EXAMPLES)',
    "question-answering",
)
