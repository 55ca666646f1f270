"""Answers of an exported program, with torch alone: ``python load_exported.py model.pt2 "a text" "another"``."""

import json
import sys
import zipfile
from typing import Any

import torch

from structattn.syntax.tokenisation import split_words


class Exported:
    """A program of ``structattn export``; call it with a list of texts, or of pairs of texts."""

    def __init__(self, path: str) -> None:
        with zipfile.ZipFile(path) as file:
            name = next(name for name in file.namelist() if name.endswith("extra/description.json"))
            self.about = json.loads(file.read(name))
        try:
            self.program = torch.export.load(path).module()
        except Exception as error:  # of any kind: torch has none of its own for another version
            made = f"{path} was made by torch {self.about['torch']}"
            raise RuntimeError(f"{made}; torch {torch.__version__} cannot read it: {error}") from None
        if further := {name for side in self.about["inputs"] for name in side} - {"tokens", "mask", "lengths"}:
            raise RuntimeError(f"{path} reads more than words, such as trees: {', '.join(sorted(further))}")
        self.ids = {word: number for number, word in enumerate(self.about["words"]) if number > 1}

    def __call__(self, texts: list[Any]) -> list[dict[str, Any]]:
        """The answer to each text or pair."""
        sides = zip(*((text,) if isinstance(text, str) else text for text in texts), strict=True)
        return [self._decide(row) for row in self.program(*map(self._batch, sides)).tolist()]

    def _batch(self, texts: tuple[str, ...]) -> dict[str, torch.Tensor]:
        spell = str.lower if self.about["lowercase"] else str
        words = [map(spell, split_words(text)[: self.about["max_length"]]) for text in texts]
        ids = [[self.ids.get(word, 1) for word in row] for row in words]
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.long) for row in ids], batch_first=True)
        lengths = torch.tensor(list(map(len, ids)))
        return {"tokens": tokens, "mask": torch.arange(tokens.shape[1]) < lengths[:, None], "lengths": lengths}

    def _decide(self, row: list[float]) -> dict[str, Any]:
        rule, probabilities = self.about["calibration"], dict(zip(self.about["labels"], row, strict=True))
        if rule["separate"]:
            labels = [label for label, value in probabilities.items() if value >= rule["thresholds"].get(label, 0.5)]
            return {"labels": labels, "probabilities": probabilities}
        allowed = {label: value >= rule["thresholds"].get(label, 0.0) for label, value in probabilities.items()}
        label = max(probabilities, key=lambda name: (allowed[name], probabilities[name]))
        abstained = not allowed[label] or probabilities[label] < rule["abstain"]
        return {"label": label, "abstained": abstained, "probabilities": probabilities}


if __name__ == "__main__":
    print("\n".join(map(json.dumps, Exported(sys.argv[1])(sys.argv[2:]))))
