"""`hazard.passes.MaterializeEscapes` copies the branch results that a plan would lose, and no others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import hazard
from corpus.experiment import Experiment, floats
from hazard.passes import MaterializeEscapes

#: What is copied: results of the higher-order operators, by case.
COPIED = {
    "seed_two_conds": ["cond[0]"],
    "c03_three_siblings": ["cond[0]", "cond_1[0]"],
    "c07_cond_then_map": ["cond[0]"],
    "c12d_two_conds_no_alloc_output": ["cond[0]"],
    "c17_dynamic_cond": ["cond[0]"],
    "c20_xnnpack_around_cond": ["cond[0]"],
    "c29c_operand_reversed_read": ["cond[0]"],
    "d01f_view_of_inner_cond_output_in_branch": ["cond[0]"],
    "d11_remove_clone_transform": ["cond[0]"],
    "f33_view_of_cond_output_then_second_cond": ["cond[0]"],
    "g13_nested3": ["cond[0]", "cond[0]"],
    "h06_cond_view_parent_slot_shares_live": ["cond[0]"],
    "r01_cross_attention_cache": ["cond[0]", "cond[1]"],
    # Right as they are:
    "c04_same_pred_chain_one_output": [],
    "c05_nested_true": [],
    "c07b_map_then_cond": [],
    "l04_view_of_two_level_cond": [],
}


pytestmark = pytest.mark.usefixtures("quiet")


def with_copies(experiment: Any, **more: Any) -> tuple[Any, MaterializeEscapes]:
    from executorch.exir.passes import MemoryPlanningPass

    planner = experiment.options.get("mpp", {})
    copying = MaterializeEscapes(MemoryPlanningPass(**planner) if isinstance(planner, dict) else planner, **more)
    return experiment._replace(options={**experiment.options, "mpp": copying}), copying


@pytest.mark.parametrize("name", COPIED)
def test_copies_what_would_be_lost(name: str, runner: ModuleType) -> None:
    build = runner.load_build(name)
    experiment, copying = with_copies(build())
    assert runner.observe(build, runner.export(experiment)) == {"outcome": "match"}
    assert copying.copied == COPIED[name]
    assert copying.report.verdict == "proved"


def test_what_copies_do_not_cure_is_refused(runner: ModuleType) -> None:
    experiment, copying = with_copies(runner.load_build("c15e_return_input_noalloc")())
    with pytest.raises(hazard.HazardError):
        runner.export(experiment)
    assert copying.copied == []


class MiddleOfThree(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)) + 1
        b = torch.cond(y.sum() > 0, lambda v: v * 2, lambda v: v * 3, (a,))
        c = torch.cond(x.sum() > 1, lambda v: v / 2, lambda v: v / 3, (a,))
        return b - c


class OneOfTwoResults(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        a, b = torch.cond(x.sum() > 0, lambda v: (v + 1, v * 2), lambda v: (v - 1, v * 3), (x,))
        b = b + 1
        return a, b, torch.cond(y.sum() > 0, lambda v: v * 2 - 1, lambda v: v * 3 - 1, (x,))


class DeadBeforeTheNext(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)) * 2
        return a + torch.cond(y.sum() > 0, lambda v: v * 2, lambda v: v * 3, (x,))


class AllButTheLast(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        found = []
        for k in range(4):
            found.append(torch.cond(x.sum() > k, lambda v: v + 1, lambda v: v - 1, (x,)))
            x = x + y
        return found[0] + found[1], found[2] * found[3]


@pytest.mark.parametrize("options", [{}, {"alloc_graph_output": False}], ids=["planned outputs", "caller's outputs"])
@pytest.mark.parametrize(
    ("model", "copied"),
    [
        (MiddleOfThree, ["cond_1[0]"]),
        (OneOfTwoResults, ["cond[0]"]),
        (DeadBeforeTheNext, []),
        (AllButTheLast, ["cond[0]", "cond_1[0]", "cond_2[0]"]),
    ],
)
def test_copies_no_result_that_is_safe(
    model: type[nn.Module], copied: list[str], options: dict[str, Any], runner: ModuleType
) -> None:
    def build() -> Experiment:
        calls = [(floats(a, 2 * a), floats(b, b + 1)) for a in (1.0, -1.0, 2.0) for b in (1.0, -3.0)]
        return Experiment(model(), calls[0], options={"mpp": options}, sequences=[calls, calls[::-1]])

    experiment, copying = with_copies(build())
    assert runner.observe(build, runner.export(experiment)) == {"outcome": "match"}
    assert copying.copied == copied
