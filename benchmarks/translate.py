"""Sentences translated per second: our decoders, and Marian (Junczys-Dowmunt et al. 2018) as transformers has it.

Two layers each on both sides, width 256, four heads, 8,000 target words, all untrained; batches of 64 sentences of 13
words. No translation may end before its 23rd token, so that every model takes as many steps. Greedy search and a beam
of 5 with scores per token. Ours includes collating the sentences; Marian's batch is collated before. Models take turns.

    python -m benchmarks.translate [--turns 7] [--threads 1]
"""

import argparse
import dataclasses
import random
from collections.abc import Callable

import torch
from transformers import MarianConfig, MarianMTModel

import structattn as sa
from benchmarks import markdown
from benchmarks.sentences import WORDS, random_sentence
from benchmarks.turns import medians, seconds
from structattn.data.text_vocabulary import END_ID, TextVocabulary
from structattn.encoders import build
from structattn.tasks import get_task
from structattn.tasks.answer_config import Search
from structattn.tasks.decoding import build_decoder
from structattn.tasks.sequence_model import SequenceModel, TextProcessor

BATCH, LENGTH, STEPS, WIDTH, HEADS, LAYERS, TARGETS = 64, 13, 23, 256, 4, 2, 8000
BEAMS = (1, 5)
PEER = "Marian, transformers"
OURS = ("transformer", "tree_transformer", "lstm")
SIZE = {"num_layers": LAYERS, "num_heads": HEADS, "hidden": 2 * WIDTH}


def our_model(name: str, beam: int) -> SequenceModel:
    source, target = (
        sa.Vocabulary(WORDS),
        TextVocabulary.from_texts([" ".join(f"t{number}" for number in range(TARGETS))]),
    )
    of_encoder, of_decoder = ({}, {"num_layers": LAYERS}) if name == "lstm" else (SIZE, SIZE)
    encoder = build(name, vocab_size=len(source), dim=WIDTH, **of_encoder)
    decoder = build_decoder(name, encoder, len(target), **of_decoder)
    # A limit of LENGTH + 10 tokens; what is improbable does not end the search before.
    search = Search(beam, length_penalty=1.0, max_length_ratio=1.0)
    model = SequenceModel(encoder, decoder, get_task("translation"), texts=TextProcessor(source, target), search=search)
    bias = decoder.bias if name != "lstm" else decoder.scores.bias
    with torch.no_grad():
        bias[END_ID] = -1e4
    return model.eval()


def ours(name: str, beam: int) -> Callable[[], object]:
    model = our_model(name, beam)
    generator = random.Random(0)
    sentences = [random_sentence(generator, LENGTH) for _ in range(BATCH)]
    if name == "tree_transformer":
        sentences = [
            dataclasses.replace(
                sentence, constituency=sa.ConstituencyTree.from_dependency(sentence.words, sentence.dependency)
            )
            for sentence in sentences
        ]
    return lambda: model.predict(sentences, batch_size=BATCH)


def marian(beam: int) -> Callable[[], object]:
    config = MarianConfig(
        vocab_size=TARGETS + 4,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=2 * WIDTH,
        decoder_ffn_dim=2 * WIDTH,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=END_ID,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    words = torch.randint(4, len(WORDS), (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(words)
    options = {"num_beams": beam, "do_sample": False, "min_new_tokens": STEPS, "max_new_tokens": STEPS}

    def translate() -> None:
        with torch.inference_mode():
            tokens = model.generate(input_ids=words, attention_mask=mask, **options)
        assert tokens.shape == (BATCH, STEPS + 1)

    return translate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads, median of {options.turns} batches of {BATCH}\n")
    print(markdown.header(["beam", "model", "sentences/s", f"to {PEER.split(',')[0]}"]), flush=True)
    for beam in BEAMS:
        torch.manual_seed(0)
        works = {PEER: marian(beam), **{name: ours(name, beam) for name in OURS}}
        times = medians(list(works), lambda name, _, works=works: seconds(works[name]), turns=options.turns)  # type: ignore[misc]
        for name, taken in times.items():
            print(markdown.line([beam, name, f"{BATCH / taken:.1f}", f"{times[PEER] / taken:.2f}x"]), flush=True)


if __name__ == "__main__":
    main()
