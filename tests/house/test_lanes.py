"""Budgets of lanes: what one must open to follow one thing."""

import inspect

import pytest

import import_graph
import structattn as sa
from lanes import Lane, read_lanes
from structattn.encoders import BUILDERS

LANES = read_lanes()


@pytest.mark.parametrize("lane", LANES, ids=[lane.name.replace("`", "") for lane in LANES])
def test_lane_is_within_its_budget(lane: Lane) -> None:
    size = lane.size
    heaviest = import_graph.heaviest(lane.module)
    assert size.files <= lane.budget.files, f"{size}, of which {heaviest}"
    assert size.lines <= lane.budget.lines, f"{size}, of which {heaviest}"


def test_every_encoder_has_a_lane() -> None:
    modules = {str(BUILDERS.address(name)).partition(":")[0] for name in BUILDERS}
    assert modules <= {lane.module for lane in LANES}


def test_lanes_begin_where_things_are_defined() -> None:
    things = (
        sa.distributions.DependencyCRF,
        sa.layers.MultiHeadAttention,
        sa.load,
        sa.train,
        sa.inspection.attention_maps,
        sa.parse,
    )
    assert {inspect.unwrap(thing).__module__ for thing in things} <= {lane.module for lane in LANES}


def test_closure_follows_names_and_not_type_checking() -> None:
    assert import_graph.closure("structattn.errors") == {"structattn.errors"}
    layer = import_graph.closure("structattn.layers.attention")
    assert "structattn.functional.masked_attention" in layer, "from structattn.functional import attention: its file"
    assert "structattn.functional.token2token" not in layer, "and not what else the package has"
    batch = import_graph.imports("structattn.training.run_folder")
    assert not {module for module in batch if module.startswith("structattn.tasks")}, "imports for type checkers"
    dependency = import_graph.closure("structattn.distributions.nonprojective_crf")
    assert "structattn.kernels.matrix_tree" in dependency, "from structattn.kernels.matrix_tree import OPERATORS"


def test_heaviest_modules_are_what_a_lane_would_lose() -> None:
    module = "structattn.training.run"
    for weight in import_graph.heaviest(module):
        rest = import_graph.closure(module, without={weight.module})
        assert (
            import_graph.size(rest).lines + weight.size.lines == import_graph.size(import_graph.closure(module)).lines
        )
