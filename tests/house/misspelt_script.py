"""What a user's script gets wrong: ``mypy --strict`` finds an error in each line that says so, and in no other."""

from pathlib import Path

import torch

import structattn as sa
from structattn.encoders import SentenceEncoder
from structattn.layers import MultiHeadAttention
from structattn.priors import Forward, Prior


def name_of_function(run: Path) -> None:
    sa.lod(run)  # error
    sa.encoders.biuld("ms_san")  # error


def name_of_method(run: Path) -> None:
    model = sa.load(run)
    model.predictt(["so fine"])  # error
    model.predict(["so fine"], batchsize=8)  # error
    for prediction in model.predict(["so fine"]):
        prediction.lable  # error  # noqa: B018


def type_of_argument(run: Path) -> None:
    sa.load(run, parser=3)  # error
    sa.collate(["dogs bark"], 5)  # error
    sa.train(run, encoder="ms_san", resume="yes")  # error


def kind_of_model(folder: Path) -> None:
    encoder = sa.load(folder, kind=SentenceEncoder)
    encoder("dogs bark")  # error
    encoder.output_dim.upper()  # error


def weights_not_asked_for() -> torch.Tensor:
    attention = MultiHeadAttention(4, 2, Forward())
    output, weights = attention(torch.zeros(1, 2, 4))
    return output + weights  # error


def not_a_prior() -> Prior:
    return Forward() + "near"  # error
