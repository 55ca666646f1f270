"""What a user's script looks like: it passes ``mypy --strict``."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

import structattn as sa
from structattn.encoders import SentenceEncoder
from structattn.layers import MultiHeadAttention
from structattn.priors import Backward, DependencyDistance, Forward, PerHead, Prior, WordDistance


def prior_of_heads(strength: float) -> Prior:
    return PerHead([Forward() + WordDistance(), Backward() + strength * DependencyDistance()])


def attend(texts: list[str]) -> tuple[Tensor, Tensor]:
    sentences: list[sa.Sentence] = sa.parse(texts)
    vocabulary = sa.Vocabulary.from_examples([sa.Example((sentence,)) for sentence in sentences])
    batch = sa.collate(sentences, vocabulary)
    attention = MultiHeadAttention(8, 2, prior_of_heads(0.5))
    states = torch.zeros(len(sentences), batch.mask.shape[1], 8)
    output, weights = attention(states, batch, need_weights=True)
    again, nothing = attention(states, batch)
    assert nothing is None
    return output + again, weights.sum(-1)


def train(file: Path, out: Path) -> sa.training.RunResult:
    result = sa.train(file, encoder="ms_san", out=str(out), options={"dim": 8}, optimization={"epochs": 1})
    evaluation = sa.evaluate(result.folder, file)
    print({name: round(value, 3) for name, value in evaluation.metrics.items()})
    return result


def labels(run: Path, texts: list[str]) -> Iterator[str]:
    model = sa.load(run)
    for prediction in model.predict(texts):
        if prediction.label is not None:
            yield prediction.label.upper()


def width(folder: Path) -> int:
    encoder = sa.load(folder, kind=SentenceEncoder)
    encoding = encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"])))
    return encoder.output_dim if encoding.vector is None else encoding.vector.shape[-1]


def heads(sentence: sa.Sentence) -> list[int]:
    tree = sentence.dependency
    return [] if tree is None else list(tree.heads)


if __name__ == "__main__":
    print(attend(["Dogs bark.", "They run."])[0].shape)
    print([heads(sentence) for sentence in sa.parse(["Dogs bark."])])
    print(list(labels(Path("run"), ["so fine"])), width(Path("encoder")))
