r"""Gradient × input: a first-order attribution of a prediction to the words, beside leave-one-out.

.. math:: G_i = x_i \cdot \frac{\partial}{\partial x_i} \log \frac{p(y)}{1 - p(y)}

with :math:`x_i` the vector that the embedder gives word *i*; for scores, the gradient of the score. It is the change,
to first order, relative to how much the vector is scaled. Log-odds rather than probabilities, as these hardly change
where a model is certain. Shrikumar et al. (2016), Not just a black box, arXiv 1605.01713; Denil et al. (2014),
arXiv 1412.6815.
"""

from typing import Any

import torch
from torch import Tensor

from structattn.errors import ConfigError
from structattn.inspection.occlusion import WordAttribution
from structattn.layers.evaluation_mode import evaluation_mode
from structattn.tasks import TaskModel
from structattn.tasks.answering import Item, to_example
from structattn.tasks.classifier import expected_scores


def has_gradient(model: TaskModel) -> bool:
    """Whether ``gradient_times_input`` is defined: the model judges texts, from vectors of their words."""
    embedder = getattr(model.encoder, "embedder", None)
    reads_words = getattr(embedder, "nodes", "words") == "words" and not hasattr(embedder, "tokenizer")
    return model.task.judges_texts and embedder is not None and reads_words and hasattr(model, "probabilities")


def gradient_times_input(model: TaskModel, item: Item) -> tuple[WordAttribution, ...]:
    """One attribution for each sentence of an item, as ``leave_one_out`` gives it, by one backward pass.

    A ``ConfigError`` for a model without, see ``has_gradient``.
    """
    if not has_gradient(model):
        raise ConfigError(
            "gradient × input: expected a model that predicts a label or a score from vectors of words, got one of "
            f"task {model.task.name!r} that does not"
        )
    (example,) = model.with_trees([to_example(item, 0, model.task)])
    vectors: list[Tensor] = []

    def cut(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
        vectors.append(output.detach().requires_grad_())
        return vectors[-1]

    hook = model.encoder.embedder.register_forward_hook(cut)
    try:
        with evaluation_mode(model), torch.enable_grad():
            logits = model(model.collate([example]).to(model.device)).double()
            probabilities = model.probabilities(logits)  # type: ignore[operator]
            (prediction,) = model.predict([example])
            answer = prediction.judged_class
            if model.task.score_range is not None:
                value = expected_scores(probabilities, model.task.score_range)[0]
            else:
                value = probabilities[0, list(model.labels).index(str(answer))].logit()
            inputs = vectors[: len(vectors) // 2]  # the others are those of the prediction
            gradients = torch.autograd.grad(value, inputs, allow_unused=True)
    finally:
        hook.remove()
    rows: list[float] = []
    for states, gradient in zip(inputs, gradients, strict=True):
        products = torch.zeros_like(states) if gradient is None else states * gradient
        rows += products.detach()[0].double().sum(-1).tolist()
    sizes = [len(sentence) for sentence in example.sentences]
    if len(rows) != sum(sizes):
        raise ConfigError(f"gradient × input: expected a vector for each of {sum(sizes)} words, got {len(rows)}")
    shown = prediction.answer if answer is None else answer
    return tuple(
        WordAttribution(sentence, shown, tuple(rows[sum(sizes[:number]) : sum(sizes[: number + 1])]))
        for number, sentence in enumerate(example.sentences)
    )
