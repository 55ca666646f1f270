"""The figures of attention over trees, for one small tree: what is accumulated, indices, mask, and what the root sees.

python examples/tree_attention_figures.py [--out figures] [--tree "(S (NP (D the) (N dog)) (VP (V barks)))"]
"""

import argparse
from pathlib import Path

import torch

import structattn as sa
from structattn.inspection import (
    accumulation_figure,
    attention_maps,
    embedding_index_figure,
    phrase_query_figure,
    subtree_mask_figure,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("figures"))
    parser.add_argument("--tree", default="(S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (A big) (N cat))))")
    options = parser.parse_args()
    tree = sa.ConstituencyTree.from_brackets(options.tree)
    sentence = sa.Sentence(tree.words, constituency=tree)
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary.from_examples([sentence])
    encoder = sa.encoders.build("tree_transformer", vocabulary_size=len(vocabulary), num_layers=1, num_heads=2)
    (found,) = (each for each in attention_maps(encoder, sentence, vocabulary=vocabulary) if each.kind == "attention")
    leaves = [float(place + 1) for place in range(len(tree))]
    figures = {
        "accumulation": accumulation_figure(
            tree, leaves, [10.0 * (1 + number) for number in range(len(tree.spans))], [1.0] * len(tree)
        ),
        "indices": embedding_index_figure(tree),
        "mask": subtree_mask_figure(tree),
        "root": phrase_query_figure(found, 0),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for name, svg in figures.items():
        path = options.out / f"tree-{name}.svg"
        path.write_text(svg, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
