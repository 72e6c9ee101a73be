"""Programs from planned graphs: equal to what is emitted, and judged as the runtime behaves, over the whole corpus."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest
import torch

import hazard
from corpus import cases
from hazard.frontends import load, load_bytes
from hazard.frontends.emitted import differences, emitted_form
from hazard.frontends.fx import PlannedGraph, program_from_graphs
from hazard.pipeline import edge_signatures, from_manager
from hazard.program import Alias, Method, Program
from hazard.text import parse_program, print_program

#: The installed release: the current one, or the older one that CONTRIBUTING.md tells how to test.
RELEASE = metadata.version("executorch")
CURRENT = cases.CURRENT_RELEASE == RELEASE

#: What a fault of each kind is found as.
RULES = {
    "A": {"HZ101"},
    "A2": {"HZ101", "HZ102"},
    "B": {"HZ201"},
    "B2": {"HZ201"},
    "C": {"HZ301"},
    "C2": {"HZ302"},
    "D": {"HZ303"},
    "E1": {"HZ404", "HZ703"},
    "E1+E5": {"HZ103", "HZ403", "HZ404"},
    "E2": {"HZ403"},
    "E3": {"HZ403"},
    "E4": {"HZ103", "HZ402", "HZ403"},
    "E5": {"HZ103"},
    "E6": {"HZ404"},
    "F1": {"HZ501"},
    "F2": {"HZ502"},
    "G": {"HZ601"},
    "H": {"HZ602"},
    "I": {"HZ104"},
    "J": {"HZ103", "HZ402", "HZ403"},  # HZ103 where 1.4.1 gives the base away before what it backs has been read
    "K": {"HZ202"},
}

#: Findings in programs that the runtime does not get wrong, and why they are right all the same.
FOUND_ALTHOUGH_RIGHT = {
    "c16j_reinplace_extra_inplace_ops": {"HZ103", "HZ404"},  # does not load: the runtime lacks the in-place kernels
    "e01e_shared_different_sizes_same_fqn": {"HZ304", "HZ502", "HZ503", "HZ701"},  # a small arena or merged state
    "e05_custom_mem_id_parent2": {"HZ701"},  # does not load: an arena has no size
    "e08_cond_output_into_state_with_second_cond": {"HZ101"},  # by luck: the calls never show the corrupted state
    "f32_cond_output_as_index": {"HZ101"},  # the kernel refuses the clobbered indices
    "j06_noop_copy_buffer_noalloc_out": {"HZ303", "HZ703"},  # not emitted, but planned
    "k01_unbound_mode_cond": {"HZ101"},  # not emitted, but planned
    "k10_c07_no_mp_overlap_mem_id_banks": {"HZ701"},  # does not load: an arena has no size
    "m08_shared_cache_all_loaded_first": {"HZ502"},  # only because all methods are loaded before the first call
    "n05_reinplace_puts_own_values": {"HZ404"},  # each element is put onto itself
    "c23_while_loop": {"HZ801"},  # not emitted: nobody has planned the loop
}
if not CURRENT:
    # 1.4.1 knows no offsets: the slice lies on the start of its base, and the kernel happens to copy forwards.
    FOUND_ALTHOUGH_RIGHT |= {
        "e03e_custom_storage_offset_unaligned": {"HZ403"},
        "e03f_custom_storage_partial_overlap": {"HZ403"},
    }


@dataclass
class Planned:
    """A case after planning: with what was emitted, if anything was."""

    graphs: dict[str, PlannedGraph]
    manager: Any
    signatures: dict[str, Any]


class Keeping:
    """A planning pass that keeps what the wrapped one has planned, as it was before emission."""

    def __init__(self, planner: Any) -> None:
        self.__dict__.update(planner=planner, kept=[])

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        result = self.planner.run(graph_module, graph_signature)
        self.kept.append((result.graph_module, copy.deepcopy(graph_signature)))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["planner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.planner, name, value)


def planned(name: str) -> Planned | None:
    """The case as the installed release plans it, or None where export or planning fails."""
    from corpus import runner

    assert runner.RELEASE == RELEASE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            edge, config = runner.lower(runner.load_build(name)())
        except Exception:
            return None
        signatures = edge_signatures(edge)
        keeping = Keeping(config.memory_planning_pass)
        config.memory_planning_pass = keeping
        manager = None
        try:
            manager = edge.to_executorch(config)
        except Exception:
            if len(keeping.kept) < len(edge.methods):
                return None
        graphs = {
            method: PlannedGraph(module, signature, edge.exported_program(method), signatures[method])
            for method, (module, signature) in zip(edge._edge_programs, keeping.kept, strict=True)
        }
        return Planned(graphs, manager, signatures)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases.cases()])
def test_case(case: cases.Case) -> None:
    found = planned(case.name)
    outcome = case.outcome(RELEASE)["outcome"]
    if found is None:
        assert outcome == "EXPORT_ERROR"
        return
    if found.manager is None:
        assert outcome == "EXPORT_ERROR"
        judge(case, program_from_graphs(found.graphs))
        return
    by_edge = from_manager(found.manager, found.signatures)
    by_plan = from_manager(found.manager)
    emitted = load_bytes(bytes(found.manager.buffer))
    assert list(differences(by_edge, emitted)) == []
    assert list(differences(by_plan, emitted)) == []
    assert list(differences(by_edge, found.manager.executorch_program)) == []
    if case.reproducible:
        path = case.program(RELEASE)
        assert path is not None
        assert list(differences(by_edge, load(path))) == []
    judge(case, by_edge)
    judge(case, by_plan)
    compare(case.name, by_edge, emitted)
    assert parse_program(print_program(by_edge)) == without_origins(by_edge)


def judge(case: cases.Case, program: Program) -> None:
    """The verdict from the graph alone, with no assumption, against what the runtime did."""
    assert not any(m.doubts for m in program.methods)
    report = hazard.check(program)
    codes = {f.code for f in report.findings if f.severity != "note"}
    assert not any(m.assumptions for p in report.programs for m in p.methods)
    if case.name in FOUND_ALTHOUGH_RIGHT:
        expected = FOUND_ALTHOUGH_RIGHT[case.name]
        # Exports of such a case differ from each other, and with them what is wrong.
        assert codes == expected if case.reproducible else codes and codes <= expected
    elif case.outcome(RELEASE)["outcome"] == "MISMATCH":
        assert case.kind is not None
        assert codes
        assert codes <= RULES[case.kind]
        for finding in report.findings:
            if finding.severity != "note":
                told(finding)
    else:
        assert codes == set()
        assert report.verdict == "proved"


def told(finding: Any) -> None:
    """A finding names nodes of the model, and instructions that come from one."""
    use = finding.use
    assert use.name is not None
    for place in (finding.define, finding.clobber, use):
        if place is not None and place.instruction is not None:
            assert place.origin.node is not None
            assert place.origin.path.startswith(place.method or finding.method)


#: What a file alone cannot know, by the rule of the graph that then has no counterpart there.
UNKNOWN_TO_THE_FILE = {
    "HZ202": "what the model's state began with",
    "HZ301": "that a write is missing",
    "HZ302": "that a view without instruction is of the old state",
    "HZ303": "that an output means the old state",
    "HZ403": "that a slot meant its value before an operator changed it in place",
    "HZ404": "what a view without instruction is of, and of which time",
    "HZ503": "the names of buffers",
}

#: Reads that only the file's program is blamed for: a slot that is only ever changed in place looks like state.
ONLY_IN_THE_FILE = {
    "c16e_reinplace_base_of_view": {("forward", 2, 10)},
    "c16j_reinplace_extra_inplace_ops": {("forward", 3, 11)},
    "n04_reinplace_into_copy_of_input_view": {("forward", 0, 2), ("forward", 2, 2), ("forward", "output", 2)},
    "n05_reinplace_puts_own_values": {("forward", 4, 8), ("forward", "output", 8)},
}


def compare(name: str, graphs: Program, file: Program) -> None:
    """The file's findings are about reads that the graphs' findings are about; the rest needs the graph."""
    by_graph, by_file = reads_at_fault(graphs), reads_at_fault(file)
    assert by_file.keys() - by_graph.keys() == ONLY_IN_THE_FILE.get(name, set())
    for read in by_graph.keys() - by_file.keys():
        assert by_graph[read] <= UNKNOWN_TO_THE_FILE.keys()


def reads_at_fault(program: Program) -> dict[tuple[str, int | str, int | None], set[str]]:
    """Method, emitted instruction (or what else reads) and emitted slot of every read at fault, with the rules."""
    found: dict[tuple[str, int | str, int | None], set[str]] = {}
    for finding in hazard.check(program).findings:
        use = finding.use
        if finding.severity == "note" or use is None:
            continue
        method = program.method(finding.method)
        where: int | str = use.operator
        if use.instruction is not None:
            where = use.instruction
        slot = method.emitted_slot(use.slot) if use.slot is not None else None
        found.setdefault((method.name, where, slot), set()).add(finding.code)
    return found


def without_origins(program: Program) -> Program:
    """What the text form keeps."""
    from dataclasses import replace

    methods = []
    for method in program.methods:
        chains = tuple(tuple(replace(i, origin=None) for i in chain) for chain in method.chains)
        obstacles = tuple(replace(o, origin=type(o.origin)()) for o in method.obstacles)
        methods.append(replace(method, chains=chains, obstacles=obstacles))
    return Program(tuple(methods))


def test_indices_are_those_of_the_emitted_program() -> None:
    found = planned("c08b_cond_inside_scan")
    assert found is not None
    method = from_manager(found.manager).method("forward")
    assert any(isinstance(i, Alias) for i in method.chains[0])
    indices = [i.origin.index for i in method.chains[0] if not isinstance(i, Alias) and i.origin]
    assert indices == list(range(len(emitted_form(method).chains[0])))


def test_origins() -> None:
    found = planned("c05_nested_true")
    assert found is not None
    method: Method = from_manager(found.manager).method("forward")
    origins = [i.origin for i in method.chains[0] if i.origin is not None]
    assert any(o.path == "forward/cond/true/cond/true" for o in origins)
    assert all(o.file is None or o.file.endswith("c05_nested_true/model.py") for o in origins)
    assert any(o.line is not None and o.source for o in origins)


def test_buffers_have_their_names() -> None:
    found = planned("d02_fifo_views_writeback_order")
    assert found is not None
    report = hazard.check(from_manager(found.manager, found.signatures))
    written = [f.clobber.fqn for f in report.findings if f.clobber]
    assert written == ["s1", "s2"]
    assert [f.use.origin.line for f in report.findings if f.use and f.use.origin] == [18, 17]


def test_an_unplanned_graph_is_refused() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    exported = torch.export.export(Model(), (torch.ones(2),))
    with pytest.raises(hazard.InputError, match="run the memory planning pass first"):
        program_from_graphs(exported)


def test_other_things_are_refused() -> None:
    with pytest.raises(hazard.InputError, match="a int is no planned graph"):
        program_from_graphs(3)


def test_schemas_of_custom_operators_are_believed() -> None:
    from executorch.exir import EdgeCompileConfig, to_edge

    library = torch.library.Library("hazard_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    for key in ("CPU", "Meta"):
        library.impl("twice", lambda x: x * 2, key)
        library.impl("twice.out", lambda x, out: out.copy_(x * 2), key)

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            y = x + 1
            return torch.ops.hazard_test.twice(y) + y

    exported = torch.export.export(Model(), (torch.ones(3),))
    manager = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).to_executorch()
    program = from_manager(manager)
    assert program.method("forward").changes == (("hazard_test::twice.out", ()),)
    assert hazard.check(manager).verdict == "proved"
    assert parse_program(print_program(program)) == without_origins(program)
