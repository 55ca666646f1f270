"""Error messages: where something is wrong, what came, and what to type."""

import io
import sys

import pytest

from structattn.errors import ConfigError, MissingExtra, MissingStructure, ParseError, naming, require, shown


def test_malformed_data_has_a_file_and_a_line():
    error = ParseError("expected 10 columns, got 3", file="a.conllu", line=7)
    assert (str(error), error.file, error.line) == ("a.conllu:7: expected 10 columns, got 3", "a.conllu", 7)
    assert str(ParseError("expected a tree")) == "expected a tree"
    assert str(ParseError("expected a tree", file=sys.stdin)) == "stdin: expected a tree"
    assert str(ParseError("expected a tree", file=io.BytesIO(), line=1)) == "stream:1: expected a tree"


def test_long_values_are_truncated():
    assert shown("a" * 100_000, width=5) == "'aaaaa'..."
    assert shown("a") == "'a'"
    assert len(shown(list(range(100_000)), width=10)) == 13


def test_the_file_of_an_option_is_named():
    with pytest.raises(ConfigError, match=r"^train.tsv: example 3 has no label$"), naming("train.tsv"):
        raise ConfigError("example 3 has no label")


def test_a_missing_tree_says_what_to_do():
    hint = "parse the sentence (--parser en, sa.parse), or train without (--options.missing_trees word)"
    assert str(MissingStructure("'hush' has no tree", structure="dependency")) == f"'hush' has no tree; {hint}"
    assert str(MissingStructure("'hush' has no 'coref'", structure="coref")) == "'hush' has no 'coref'"


def test_a_missing_package_says_how_to_install_it():
    assert require("json", "train").dumps([1]) == "[1]"
    with pytest.raises(MissingExtra, match=r"missing_package is not installed; run: pip install 'structattn\[train\]'"):
        require("missing_package.module", "train")
