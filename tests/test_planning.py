"""Programs that are planned with `hazard.SafePlanning` compute what eager computes, or are not let through."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import hazard
from corpus import cases
from hazard.frontends import load_bytes

CURED = ("A", "A2", "B", "B2", "C", "C2", "D", "E1", "E1+E5", "E2", "E3", "E4", "E5", "E6", "F1", "I", "J", "K")

#: The runtime refuses the last input, which is larger than the example; the shipped plan fails before.
BEYOND_ITS_BOUND = {"c18b_unbound_dynamic_mode"}

#: An operator works in place on a view that has no instruction; a file does not tell this from state.
UNCLEAR_AS_A_FILE = {"c16e_reinplace_base_of_view"}

#: The advice that a refusal carries, by kind. No plan can help these.
REFUSED = {"G": "HZ601", "H": "HZ602"}

#: Cases of H whose inputs the program itself changes, with how many.
CHANGED_INPUTS = {
    "l02_mutated_input_noalloc_input": 1,
    "m11_two_mutated_inputs_noalloc_input": 2,
    "m12_cache_as_input_and_output_noalloc": 1,
}

#: Programs that load only since their arenas have the size that they need.
UNLOADABLE = ("e05_custom_mem_id_parent2", "k10_c07_no_mp_overlap_mem_id_banks")


pytestmark = pytest.mark.usefixtures("quiet")


def exportable(kinds: tuple[str | None, ...]) -> list[Any]:
    found = [c for c in cases.cases() if c.kind in kinds and c.outcome()["outcome"] != "EXPORT_ERROR"]
    return [pytest.param(c, id=c.name) for c in found]


def planned_safely(build: Callable[[], Any], **more: Any) -> tuple[Any, Any]:
    """The experiment with `SafePlanning` in place of its planner, and that."""
    experiment = build()
    options = dict(experiment.options)
    planner = options.get("mpp", {})
    safe = hazard.SafePlanning(**planner, **more) if isinstance(planner, dict) else hazard.SafePlanning(planner, **more)
    options["mpp"] = safe
    return experiment._replace(options=options), safe


@pytest.mark.parametrize("case", exportable(CURED))
def test_cured(case: cases.Case, runner: ModuleType) -> None:
    build = runner.load_build(case.name)
    experiment, safe = planned_safely(build)
    program = runner.export(experiment)
    outcome = runner.observe(build, program)
    if case.name in BEYOND_ITS_BOUND:
        assert "set_inputs" in outcome["error"]
    else:
        assert outcome == {"outcome": "match"}
    assert safe.report.verdict == "proved"
    assert safe.repair.assumptions == []
    if case.name not in UNCLEAR_AS_A_FILE:
        assert hazard.check(program).verdict == "proved"


@pytest.mark.parametrize("name", CHANGED_INPUTS)
def test_inputs_that_the_program_changes_are_let_through_if_warnings_are(name: str, runner: ModuleType) -> None:
    """They are right on a host that attaches no output buffers; naming one that does makes them errors."""
    experiment, _ = planned_safely(runner.load_build(name))
    with pytest.raises(hazard.HazardError, match="HZ602"):
        runner.export(experiment)
    experiment, _ = planned_safely(runner.load_build(name), fail_on="error")
    data = bytes(runner.export(experiment))
    assert [f.severity for f in hazard.check(data).findings if f.code == "HZ602"] == ["warning"] * CHANGED_INPUTS[name]
    named = hazard.check(data, host="python-runtime").findings
    assert [f.severity for f in named if f.code == "HZ602"] == ["error"] * CHANGED_INPUTS[name]


@pytest.mark.parametrize(
    "case", [c for c in exportable(tuple(REFUSED)) if str(c.id) not in CHANGED_INPUTS]
)
def test_refused(case: cases.Case, runner: ModuleType) -> None:
    experiment, _ = planned_safely(runner.load_build(case.name))
    with pytest.raises(hazard.HazardError) as error:
        runner.export(experiment)
    codes = {f.code for f in error.value.report.findings}
    assert any(code.startswith(REFUSED[case.kind or ""]) for code in codes)
    assert all(f.help for f in error.value.report.findings)


@pytest.mark.parametrize("name", UNLOADABLE)
def test_arenas_have_the_size_that_they_need(name: str, runner: ModuleType) -> None:
    build = runner.load_build(name)
    assert cases.Case(name).outcome()["outcome"] == "RUN_ERROR"
    experiment, _ = planned_safely(build)
    assert runner.observe(build, runner.export(experiment)) == {"outcome": "match"}


RIGHT = [
    "c05_nested_true",
    "c08b_cond_inside_scan",
    "c12c_no_alloc_output_mixed",
    "c14_view_of_buffer_then_mutate_use",
    "c20b_xnnpack_inside_cond",
    "d02c_old_view_in_output_op_after",
    "e01c_stateful_and_stateless_method",
    "e02h_reinplace_fifo_cond",
    "f18_strided_buffers",
    "f40_view_of_cond_out_feeds_xnnpack",
    "g11_mutated_input_and_state",
    "h09b_same_but_share_flag",
    "j07b_kv_cache_reshape_no_reinplace",
    "j12_two_states_same_new_value_and_output",
]


def bytes_of(data: bytes) -> dict[tuple[str, int], int]:
    """Sizes of all arenas of a program file, by method and arena."""
    return {(m.name, a): arena.size for m in load_bytes(data).methods for a, arena in m.arenas.items()}


@pytest.mark.parametrize("name", [n for n in RIGHT if cases.Case(n).outcome()["outcome"] == "match"])
def test_what_was_right_stays_right_and_does_not_grow(name: str, runner: ModuleType) -> None:
    build = runner.load_build(name)
    experiment, safe = planned_safely(build)
    data = runner.export(experiment)
    assert runner.observe(build, data) == {"outcome": "match"}
    shipped = bytes_of(runner.export(build()))
    assert all(size <= shipped[arena] for arena, size in bytes_of(data).items())
    assert all(a.size <= a.shipped for a in safe.repair.arenas)


@pytest.fixture
def never_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """No placement is known to be the smallest."""
    from hazard.repair import fix

    place = fix.place

    def doubted(demand: Any) -> Any:
        placement = place(demand)
        placement.arenas = [dataclasses.replace(a, optimal=False) for a in placement.arenas]
        return placement

    monkeypatch.setattr(fix, "place", doubted)


@pytest.mark.usefixtures("never_sure")
@pytest.mark.parametrize("name", ["c05_nested_true", "m04_two_kv_caches_unshared", "h09b_same_but_share_flag"])
def test_the_shipped_algorithm_is_asked_where_the_new_plan_may_not_be_the_smallest(
    name: str, runner: ModuleType
) -> None:
    build = runner.load_build(name)
    experiment, safe = planned_safely(build)
    data = runner.export(experiment)
    assert runner.observe(build, data) == {"outcome": "match"}
    shipped, emitted = bytes_of(runner.export(build())), bytes_of(data)
    for a in safe.repair.arenas:
        assert (a.shipped, a.size) == (shipped[a.method, a.arena], emitted[a.method, a.arena])


@pytest.mark.usefixtures("never_sure")
@pytest.mark.parametrize("name", ["c01_two_sibling_both_out", "m04_two_kv_caches_unshared"])
def test_where_the_shipped_algorithm_fails_the_new_plan_stands(
    name: str, runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch.exir import memory_planning

    asked = []

    def fail(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        raise AssertionError("Allocation specs are not sorted")

    monkeypatch.setattr(memory_planning, "pick_shared_obj", fail)
    build = runner.load_build(name)
    experiment, safe = planned_safely(build)
    assert runner.observe(build, runner.export(experiment)) == {"outcome": "match"}
    assert asked
    assert safe.report.verdict == "proved"


def test_code_and_algorithm_of_the_planner_are_as_before(runner: ModuleType) -> None:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass

    planner = MemoryPlanningPass()
    edge, _ = runner.lower(runner.load_build("c01_two_sibling_both_out")())
    manager = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=hazard.SafePlanning(planner)))
    assert type(planner.memory_planning_algo) is MemoryPlanningAlgorithmSuite
    module = manager.exported_program().graph_module
    assert "recompile" not in module.__dict__
    code = module.code
    module.recompile()
    assert module.code == code


def test_a_planner_can_be_given(runner: ModuleType) -> None:
    from executorch.exir.passes import MemoryPlanningPass

    build = runner.load_build("c01_two_sibling_both_out")
    experiment = build()
    safe = hazard.SafePlanning(MemoryPlanningPass(alloc_graph_input=False))
    program = runner.export(experiment._replace(options={**experiment.options, "mpp": safe}))
    assert runner.observe(build, program) == {"outcome": "match"}
    assert safe.alloc_graph_input is False
    with pytest.raises(TypeError, match="alignment"):
        hazard.SafePlanning(MemoryPlanningPass(), alignment=64)


def test_alignment_is_kept(runner: ModuleType) -> None:
    experiment, safe = planned_safely(runner.load_build("c03_three_siblings"), alignment=64)
    runner.export(experiment)
    offsets = safe.repair.placement.offsets.values()
    assert len(offsets) > 5
    assert {offset % 64 for offset in offsets} == {0}


def test_a_refusal_can_be_a_warning(runner: ModuleType) -> None:
    experiment, safe = planned_safely(runner.load_build("c15e_return_input_noalloc"), on_hazard="warn")
    runner.export(experiment)
    assert {f.code for f in safe.report.findings if f.severity == "error"} == {"HZ602"}


def test_state_that_loading_resets_is_let_through_on_a_promise(runner: ModuleType) -> None:
    build = runner.load_build("h10_shared_state_lazy_second_load")
    experiment, _ = planned_safely(build)
    with pytest.raises(hazard.HazardError, match="HZ502") as error:
        runner.export(experiment)
    assert {f.severity for f in error.value.report.findings if f.code == "HZ502"} == {"warning"}
    for promise in ({"load": "eager"}, {"fail_on": "error"}):
        experiment, safe = planned_safely(build, **promise)
        runner.export(experiment)
        assert (safe.report.verdict == "proved") == ("load" in promise)


@pytest.mark.parametrize("name", ["c01_two_sibling_both_out", "d01_view_of_cond_output"])
def test_a_check_plans_an_edge_program_as_its_configuration_does(name: str, runner: ModuleType) -> None:
    edge, config = runner.lower(runner.load_build(name)())
    assert hazard.check(edge, config=config).verdict == "hazard"
    for planner in (
        hazard.SafePlanning(), hazard.passes.MaterializeEscapes(),
        hazard.CheckedPlanning(hazard.SafePlanning()),
    ):  # fmt: skip
        config.memory_planning_pass = planner
        assert hazard.check(edge, config=config).verdict == "proved"
        assert planner.report is None  # the pass itself has planned nothing


def two_methods_with_state(_: Any = None) -> Any:
    """Two methods, each with a state of its own that begins with zeros."""
    import torch

    from corpus.experiment import Experiment, floats

    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.total.add_(x)
            return self.total * 1

    x = floats(1, 2, 3, 4)
    return Experiment(
        options={"methods": {"a": (Sum(), (x,)), "b": (Sum(), (x,))}, "init": False},
        sequences=[[("a", (x,)), ("b", (x,)), ("a", (x,))]],
    )


def test_passes_of_several_methods_plan_together(runner: ModuleType) -> None:
    from executorch.exir.passes import MemoryPlanningPass

    one = hazard.SafePlanning()
    for passes in (
        {"a": hazard.SafePlanning(), "b": hazard.SafePlanning()}, {"a": one, "b": one},
        {"a": hazard.CheckedPlanning(MemoryPlanningPass()), "b": hazard.SafePlanning()},
    ):  # fmt: skip
        edge, config = runner.lower(two_methods_with_state())
        config.memory_planning_pass = passes
        data = bytes(edge.to_executorch(config).buffer)
        assert runner.observe(two_methods_with_state, data) == {"outcome": "match"}
        edge, _ = runner.lower(two_methods_with_state())
        assert hazard.check(edge, config=config).verdict == "proved"


def test_what_another_pass_plans_is_not_called_proved(runner: ModuleType) -> None:
    edge, config = runner.lower(two_methods_with_state())
    config.memory_planning_pass = {"a": hazard.SafePlanning()}
    with pytest.raises(hazard.HazardError, match="method b is planned by another pass"):
        edge.to_executorch(config)
    edge, config = runner.lower(two_methods_with_state())
    checked = hazard.CheckedPlanning(config.memory_planning_pass)
    config.memory_planning_pass = {"a": checked}
    edge.to_executorch(config)
    assert checked.report.verdict == "unknown"


def test_state_of_one_name_in_a_bank_of_its_own_is_not_merged(runner: ModuleType) -> None:
    from executorch.exir.passes import MemoryPlanningPass

    class Bank(MemoryPlanningPass):
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if node.op == "placeholder" and node.target in graph_signature.inputs_to_buffers:
                    node.meta["spec"].mem_id = 2
            return super().run(graph_module, graph_signature)

    edge, config = runner.lower(two_methods_with_state())
    config.memory_planning_pass = hazard.SafePlanning(Bank())
    with pytest.raises(hazard.HazardError, match="HZ503"):
        edge.to_executorch(config)
