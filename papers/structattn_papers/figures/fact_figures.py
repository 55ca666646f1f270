"""The lattice of facts that a chain selects for a question, and its three most probable sequences.

    python -m structattn_papers.figures.fact_figures RUN qa2_two-supporting-facts_test.txt --example 3 --out figures

RUN is one of fact selection with encoder binary or unary. A node is as dark as its fact is probable at that step, a
line as two facts are one after the other; supporting facts are ringed, if there are as many as steps.
"""

import argparse
from pathlib import Path

import torch

import structattn as sa
from structattn.data import Example
from structattn.distributions import LinearChainCRF
from structattn_papers.facts import FactModel
from structattn_papers.facts.babi import facts_of, support_of
from structattn_papers.facts.fact_memory import FactChain
from structattn_papers.figures.figure_parts import write
from structattn_papers.figures.lattice import lattice

BEST = 3


@torch.no_grad()
def chain_of(model: FactModel, example: Example) -> tuple[LinearChainCRF, int]:
    """The distribution over sequences of facts, and how many facts in front of the story are out of reach."""
    if not isinstance(model.selection, FactChain):
        raise SystemExit("a lattice needs a chain of facts: train with encoder binary or unary")
    batch = model.eval().collate([example]).to(model.device)
    keys, _, question = model.encoder(batch)
    return model.selection.distribution(keys, batch.mask, question)[0], int(batch.dropped)


def best_sequences(chain: LinearChainCRF) -> list[tuple[list[int], float]]:
    """The most probable sequences; fewer where a story has fewer."""
    sequences = chain.to_structure(chain.topk(BEST))[:, 0].tolist()
    probabilities = (chain.topk_scores(BEST) - chain.log_partition())[:, 0].exp().tolist()
    # A story of two facts has two sequences; the others have probability zero.
    return [found for found in zip(sequences, probabilities, strict=True) if found[1] > 0]


def figure(model: FactModel, example: Example) -> str:
    """Facts by steps with edge marginals, the best sequences and the answer below."""
    chain, dropped = chain_of(model, example)
    facts = [f"{number}. {' '.join(fact)}" for number, fact in enumerate(facts_of(example), start=1)][dropped:]
    steps = [f"step {number}" for number in range(1, chain.event_shape[0] + 1)]
    support = [place - dropped for place in support_of(example)]
    (answer,) = model.predict([example])
    said = f"answer: {answer.label} ({100 * answer.probabilities[str(answer.label)]:.0f}%), expected: {example.label}"
    return lattice(
        facts,
        steps,
        chain.marginals()[0],
        edges=list(chain.edge_marginals()[0]),
        path=support if len(support) == len(steps) and min(support) >= 0 else [],
        title=f"{' '.join(example.sentences[1].words)}?",
        notes=[
            said,
            *[f"{share:.3f} · {' → '.join(facts[place] for place in found)}" for found, share in best_sequences(chain)],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run, or the folder of a model")
    parser.add_argument("data", help="stories and questions")
    parser.add_argument("--example", nargs="+", default=["0"], help="ids: the number of the question, from 0")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    options = parser.parse_args()
    model = sa.load(options.run)
    if not isinstance(model, FactModel):
        parser.error(f"{options.run} is no run of fact selection")
    examples = {example.id: example for example in sa.data.read_examples(options.data, format="babi")}
    unknown = [name for name in options.example if name not in examples]
    if unknown:
        parser.error(f"--example: no {', '.join(unknown)} among the {len(examples)} questions of {options.data}")
    write(((f"facts-{name}", figure(model, examples[name])) for name in options.example), options.out)


if __name__ == "__main__":
    main()
