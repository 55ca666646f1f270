"""Answers of an exported program, with torch or onnxruntime alone: ``python load_exported.py model.pt2 "a text"``."""

import json
import sys
import zipfile
from typing import Any

from structattn.syntax.tokenisation import split_words


class Exported:
    """A program of ``structattn export``; call it with a list of texts, or of pairs of texts."""

    def __init__(self, path: str) -> None:
        self.about, self.run, self.array = (open_onnx if path.endswith(".onnx") else open_torch)(path)
        if further := {name for side in self.about["inputs"] for name in side} - {"tokens", "mask", "lengths"}:
            raise RuntimeError(f"{path} reads more than words, such as trees: {', '.join(sorted(further))}")
        self.ids = {word: number for number, word in enumerate(self.about["words"]) if number > 1}

    def __call__(self, texts: list[Any]) -> list[dict[str, Any]]:
        """The answer to each text or pair."""
        sides = zip(*((text,) if isinstance(text, str) else text for text in texts), strict=True)
        return [self._decide(row) for row in self.run(*map(self._batch, sides)).tolist()]

    def _batch(self, texts: tuple[str, ...]) -> dict[str, Any]:
        spell = str.lower if self.about["lowercase"] else str
        words = [[*map(spell, split_words(text)[: self.about["max_length"]])] for text in texts]
        lengths = [*map(len, words)]
        tokens = [[*(self.ids.get(word, 1) for word in row), *[0] * (max(lengths) - len(row))] for row in words]
        mask = [[token > 0 for token in row] for row in tokens]
        named = (("tokens", tokens, int), ("mask", mask, bool), ("lengths", lengths, int))
        return {name: self.array(rows, kind) for name, rows, kind in named}

    def _decide(self, row: list[float]) -> dict[str, Any]:
        rule, probabilities = self.about["calibration"], dict(zip(self.about["labels"], row, strict=True))
        if rule["separate"]:
            labels = [label for label, value in probabilities.items() if value >= rule["thresholds"].get(label, 0.5)]
            return {"labels": labels, "probabilities": probabilities}
        allowed = {label: value >= rule["thresholds"].get(label, 0.0) for label, value in probabilities.items()}
        label = max(probabilities, key=lambda name: (allowed[name], probabilities[name]))
        abstained = not allowed[label] or probabilities[label] < rule["abstain"]
        return {"label": label, "abstained": abstained, "probabilities": probabilities}


def open_torch(path: str) -> tuple[dict[str, Any], Any, Any]:
    """What a program says of itself, its function of one mapping of arrays for each text, and what makes arrays."""
    import torch

    with zipfile.ZipFile(path) as file:
        name = next(name for name in file.namelist() if name.endswith("extra/description.json"))
        about = json.loads(file.read(name))
    try:
        program = torch.export.load(path).module()
    except Exception as error:  # of any kind: torch has none of its own for another version
        made = f"{path} was made by torch {about['torch']}"
        raise RuntimeError(f"{made}; torch {torch.__version__} cannot read it: {error}") from None
    return about, program, lambda rows, kind: torch.tensor(rows, dtype=torch.bool if kind is bool else torch.long)


def open_onnx(path: str) -> tuple[dict[str, Any], Any, Any]:
    """The same for ONNX."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(path)

    def run(*sides: dict[str, Any]) -> Any:
        named = ((f"sentences_{number}_{name}", side[name]) for number, side in enumerate(sides) for name in side)
        arrays = {name.replace(".", "_"): np.asarray(array) for name, array in named}
        return session.run(None, {value.name: arrays[value.name] for value in session.get_inputs()})[0]

    return json.loads(session.get_modelmeta().custom_metadata_map["description.json"]), run, np.array


if __name__ == "__main__":
    print("\n".join(map(json.dumps, Exported(sys.argv[1])(sys.argv[2:]))))
