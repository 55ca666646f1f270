"""Options of configurations: what is refused, with which words."""

import pytest
import torch

from structattn.errors import ConfigError
from structattn.options.checking import check_options, explain, list_options, suggest
from structattn.options.hardware import Hardware
from structattn.options.sections import check_sections


def build(embedder, *, dim: int = 3, hidden: int | None = None):
    """A builder with two options."""


def test_options_of_a_function():
    assert list_options(build) == {"dim": 3, "hidden": None}
    assert check_options({"dim": 4}, build, "encoder 'mine'") == {"dim": 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": 4}, r"unknown option 'dims' for encoder 'mine' \(did you mean 'dim'\?\); known: dim, hidden"),
        ({"dim": "4"}, "option 'dim' of encoder 'mine': expected int, got '4'"),
        ({"dim": True}, "option 'dim' of encoder 'mine': expected int, got True"),
        ({"hidden": 0.5}, r"option 'hidden' of encoder 'mine': expected int \| None, got 0.5"),
        ({"hidden": 0}, "option 'hidden' of encoder 'mine': expected at least 1, got 0"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ConfigError, match=message):
        check_options(options, build, "encoder 'mine'")


def test_a_name_that_is_close():
    assert suggest("disann", ["disan", "ms_san"]) == " (did you mean 'disan'?)"
    assert suggest("transformer", ["disan", "ms_san"]) == ""


def test_messages_of_jsonargparse_as_plain_sentences():
    assert explain("data.holdout: Expected a <class 'float'>. Got value: z") == "data.holdout: expected float, got z"
    union = "Does not validate against any of the Union subtypes Subtypes: [<class 'int'>, <class 'NoneType'>]"
    message = explain(f"batch_tokens: {union} Errors: no int Given value: z")
    assert message == "batch_tokens: expected int or null, got z"


def test_sections_are_keys_and_values():
    names = ["seed", "data.train"]
    check_sections({"seed": 1, "data": {"train": "a.txt"}}, names, ConfigError)
    for values, message in (
        ({"data": "other.yaml"}, "data: expected keys and values, got 'other.yaml'"),
        ({"data": {"test": 1}}, "data.test"),
        ({"seed": "[&a [1], *a]"}, "seed: expected a plain value, got a text that is YAML"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_sections(values, names, ConfigError)


def test_products_have_the_precision_of_the_hardware():
    cpu = Hardware("cpu", "bf16")
    assert cpu.torch_device() == torch.device("cpu")
    with cpu.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with pytest.raises(ConfigError, match="fp16 needs a GPU"):
        Hardware("cpu", "fp16")
