"""Surprisal of words in causal language models, beside a loop over tokens, and minimal pairs."""

import json
import math

import pytest
import torch

import structattn as sa
from backbones import decoder_tokenizer, minilm_tokenizer, tiny, tiny_decoder
from structattn.backbones import inject, word_surprisals
from structattn.backbones.word_scoring import Surprisals, pair_accuracies, sample_pairs, word_perplexity
from structattn.errors import ConfigError, StructAttnError

TEXTS = ["the dog near trees barks", "two kids wash their hippopotami , near the dog", "barks"]
NAMES = ["forward/word", "word", "none", "backward"]


def by_hand(model, text, *, with_end=False):
    """The bits of each token, from one call for each: only the last row of the logits is read."""
    tokenizer = decoder_tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    ids += [tokenizer.eos_token_id] * with_end
    bits = []
    for end in range(1, len(ids)):
        logits = model(input_ids=torch.tensor([ids[:end]])).logits[0, -1]
        bits.append(-logits.double().log_softmax(0)[ids[end]].item() / math.log(2))
    return bits


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
@pytest.mark.parametrize("with_end", [False, True])
@torch.no_grad()
def test_surprisals_are_those_of_a_loop_over_tokens(kind, with_end):
    """In batches of any size: beside longer texts, and shorter ones."""
    model = tiny_decoder(kind)
    for size in (1, 3):
        options = {"tokenizer": decoder_tokenizer(), "count_eos": with_end, "batch_size": size}
        for text, scores in zip(TEXTS, word_surprisals(model, TEXTS, **options), strict=True):
            bits = by_hand(model, text, with_end=with_end)
            assert scores.total == pytest.approx(sum(bits), abs=2e-5)
            assert sum(scores.pieces) == len(bits)
            assert scores.bits[0] == pytest.approx(sum(bits[: scores.pieces[0]]), abs=2e-5)
            assert scores.words == (*text.split(), *["</s>"] * with_end)


@torch.no_grad()
def test_an_unknown_word_has_a_probability():
    from transformers import BertLMHeadModel

    model = BertLMHeadModel(tiny("bert", is_decoder=True).config).eval()
    (scores,) = word_surprisals(model, ["two \u2603\u2603 kids"], tokenizer=minilm_tokenizer())
    assert scores.pieces == (1, 1, 1)
    assert min(scores.bits) > 0


def test_an_injected_model_scores_with_its_priors():
    model = inject(tiny_decoder("llama"), ["none"] * 4, tokenizer=decoder_tokenizer())
    plain = [scores.bits for scores in word_surprisals(model.remove(), TEXTS, tokenizer=decoder_tokenizer())]
    free = inject(tiny_decoder("llama"), ["none"] * 4, tokenizer=decoder_tokenizer())
    assert [scores.bits for scores in word_surprisals(free, TEXTS)] == [pytest.approx(bits, abs=1e-5) for bits in plain]
    near = inject(tiny_decoder("llama"), NAMES, tokenizer=decoder_tokenizer())
    (scores,) = word_surprisals(near, TEXTS[:1])
    assert max(abs(bits - before) for bits, before in zip(scores.bits, plain[0], strict=True)) > 1e-2
    changed = next(word_surprisals(near, ["the dog near trees wash"]))
    assert changed.bits[:4] == pytest.approx(scores.bits[:4], abs=1e-5), "no word depends on a later one"


def test_perplexity_of_words_by_hand():
    """Five words of probabilities .1, .2, .05, .5 and, in two pieces, .25 and .4."""
    shares = (0.1, 0.2, 0.05, 0.5, 0.25 * 0.4)
    scores = Surprisals(tuple("abcde"), (1, 1, 1, 1, 2), tuple(-math.log2(share) for share in shares))
    assert word_perplexity([scores]) == pytest.approx(7.247797, abs=1e-6)
    assert scores.total / 5 == pytest.approx(2.857542, abs=1e-6)
    assert math.isnan(word_perplexity([]))


def test_pairs_are_averaged_over_templates_and_ties_are_halves():
    low, high, other = (Surprisals((word,), (1,), (bits,)) for word, bits in (("u", 1.0), ("v", 2.0), ("w", 1.0)))
    pairs = [(low, high)] * 3 + [(high, low)] + [(low, other), (low, low)]
    rows, mean = pair_accuracies(["many"] * 4 + ["few"] * 2, pairs)
    assert [(row.template, row.count, row.accuracy, row.same) for row in rows] == [
        ("many", 4, 0.75, 0),
        ("few", 2, 0.5, 1),
    ]
    assert mean == 0.625


def test_a_sample_has_its_size_in_every_template_and_repeats_with_its_seed():
    templates = ["a"] * 50 + ["b"] * 3 + ["a"] * 50
    drawn = sample_pairs(templates, 7, seed=1)
    assert [templates[index] for index in drawn].count("a") == 7
    assert [templates[index] for index in drawn].count("b") == 3
    assert drawn == sorted(set(drawn)) == sample_pairs(templates, 7, seed=1) != sample_pairs(templates, 7, seed=2)


def without_numbers():
    model = tiny_decoder("gpt2")
    torch.nn.init.constant_(model.transformer.ln_f.weight, math.nan)
    return model


def without_beginning():
    import copy

    tokenizer = copy.deepcopy(decoder_tokenizer())
    tokenizer.bos_token = None
    return tokenizer


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: word_surprisals(tiny("bert"), TEXTS, tokenizer=minilm_tokenizer()), ConfigError, "got BertModel"),
        (lambda: word_surprisals(tiny_decoder("gpt2"), TEXTS), ConfigError, "expected tokenizer="),
        (
            lambda: word_surprisals(tiny_decoder("gpt2"), TEXTS, tokenizer=without_beginning()),
            ConfigError,
            "no token for the beginning",
        ),
        (
            lambda: word_surprisals(tiny_decoder("gpt2"), ["a", "barks " * 99], tokenizer=decoder_tokenizer()),
            ConfigError,
            "sentence 2 has [0-9]+ subwords; the model reads 96",
        ),
        (
            lambda: word_surprisals(without_numbers(), ["", "barks"], tokenizer=decoder_tokenizer()),
            StructAttnError,
            r"the scores of sentence 2 \(barks ...\) are not numbers",
        ),
    ],
)
def test_faults_of_whoever_asks(call, error, message):
    with pytest.raises(error, match=message):
        list(call())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2")
    model = tiny_decoder("gpt2")
    model.save_pretrained(path)
    decoder_tokenizer().save_pretrained(path)
    inject(model, NAMES, tokenizer=decoder_tokenizer()).save_pretrained(path / "priors")
    return path


def test_the_command_scores_sentences_and_pairs(folder, tmp_path, call):
    file, table, out = tmp_path / "a.txt", tmp_path / "pairs.tsv", tmp_path / "s.tsv"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    code, shown, _ = call("score", folder, file, "--out", out)
    assert code == 0
    expected = list(word_surprisals(tiny_decoder("gpt2"), TEXTS, tokenizer=decoder_tokenizer()))
    assert shown.startswith(f"15 words of 3 sentences: word perplexity {word_perplexity(expected):.2f}, ")
    lines = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == ["sentence", "word", "pieces", "bits"]
    assert lines[1][:3] == ["1", "the", str(expected[0].pieces[0])]
    assert float(lines[1][3]) == pytest.approx(expected[0].bits[0], abs=1e-4)
    assert len(lines) == 16
    injected = inject(tiny_decoder("gpt2"), NAMES, tokenizer=decoder_tokenizer())
    code, shown, _ = call("score", folder, file, "--priors", folder / "priors")
    assert f"word perplexity {word_perplexity(word_surprisals(injected, TEXTS)):.2f}, " in shown
    rows = [("x", "the dog barks", "the dog bark"), ("x", "two kids wash", "two kids washs"), ("y", "the", "the")]
    table.write_text("\n".join(["\t".join(row) for row in (("template", "grammatical", "ungrammatical"), *rows)]))
    code, shown, _ = call("score", folder, table, "--pairs")
    assert code == 0
    blimp = tmp_path / "blimp.jsonl"
    named = [dict(zip(("UID", "sentence_good", "sentence_bad"), row, strict=True)) for row in rows]
    blimp.write_text("".join(json.dumps(row) + "\n" for row in named), encoding="utf-8")
    assert call("score", folder, blimp, "--pairs")[1] == shown
    assert "pairs of equal sentences, which count one half each: 1 (y)" in shown


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("template\tgrammatical\na\tb c\n", ("--pairs",), "ungrammatical"),
        ("template\tgrammatical\tungrammatical\na\tb c\t\n", ("--pairs",), "expected two sentences, got"),
        ("the dog\n", ("--sample", "3"), "--sample 3 needs --pairs"),
    ],
)
def test_faults_of_files(folder, tmp_path, call, content, options, message):
    file = tmp_path / "pairs.tsv"
    file.write_text(content, encoding="utf-8")
    code, _, error = call("score", folder, file, *options)
    assert (code, message in error) == (2, True), error


def test_a_sentence_without_words_has_no_bits():
    (scores,) = word_surprisals(tiny_decoder("gpt2"), [sa.Sentence([])], tokenizer=decoder_tokenizer())
    assert scores == Surprisals((), (), ())
