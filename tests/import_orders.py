"""What a process answers that imports transformers after our classes, before them, or not at all."""

import importlib
import sys
from pathlib import Path

import structattn as sa

OUR_CLASSES = "structattn.training.hugging_face"


def structattn_first(model: Path) -> None:
    assert not {"transformers", OUR_CLASSES} & set(sys.modules)
    importlib.import_module(OUR_CLASSES)
    print_auto_class(model)


def transformers_first(model: Path) -> None:
    from transformers import AutoModelForSequenceClassification  # noqa: F401

    assert OUR_CLASSES not in sys.modules
    importlib.import_module(OUR_CLASSES)
    print_auto_class(model)


def print_auto_class(model: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    print(type(AutoModelForSequenceClassification.from_pretrained(model)).__name__)


def no_transformers(model: Path) -> None:
    sa.load(model).predict(["good"])
    assert "transformers" not in sys.modules
