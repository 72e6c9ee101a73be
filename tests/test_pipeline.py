"""Ways into ExecuTorch's pipeline: planning that is checked, managers, targets named on the command line."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

import hazard
from corpus.experiment import Experiment
from hazard.cli import main
from hazard.pipeline import CheckedPlanning, holds_graphs, load_target, plan_edge, program_of
from hazard.program import Planned

ROOT = Path(__file__).resolve().parent.parent
HAZARDOUS, SAFE = "c01_two_sibling_both_out", "c02b_first_dead_before_second"


def lowered(name: str) -> tuple[Any, Any]:
    from corpus import runner

    return lowered_experiment(runner.load_build(name)())


def lowered_experiment(experiment: Experiment) -> tuple[Any, Any]:
    from corpus import runner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return runner.lower(experiment)


def codes(report: Any) -> list[str]:
    return [f.code for f in report.findings if f.severity != "note"]


# --- whatever holds a graph -------------------------------------------------------------------------------------------


def test_managers_are_checked_as_they_are() -> None:
    edge, config = lowered(HAZARDOUS)
    assert codes(hazard.check(edge, config=config)) == ["HZ101"]
    assert codes(hazard.check((edge, config))) == ["HZ101"]
    assert codes(hazard.check(edge)) == ["HZ101"]
    assert codes(hazard.check(edge.to_executorch(config))) == ["HZ101"]


def test_a_planned_program_and_its_graph_module_are_checked() -> None:
    edge, config = lowered(HAZARDOUS)
    exported = edge.to_executorch(config).exported_program()
    assert codes(hazard.check(exported)) == ["HZ101"]
    assert codes(hazard.check(exported.graph_module, signature=exported.graph_signature)) == ["HZ101"]


def test_a_module_with_inputs_is_exported_with_defaults() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    assert hazard.check((Model(), (torch.ones(3),))).verdict == "proved"
    with pytest.raises(hazard.InputError, match="without example inputs"):
        hazard.check(Model())


def test_what_holds_no_program_is_refused() -> None:
    assert not holds_graphs(3)
    assert not holds_graphs((1, 2))
    with pytest.raises(hazard.InputError, match="cannot check a list"):
        hazard.check([])
    with pytest.raises(hazard.InputError, match="a list holds no program"):
        program_of([])


def test_nothing_of_the_callers_is_changed() -> None:
    edge, config = lowered("c14e_two_buffers_swap")
    exported = edge.exported_program()
    planner, passes = config.memory_planning_pass, list(config.passes)
    before = (str(exported.graph), str(exported.graph_signature), dict(exported.state_dict), vars(planner).copy())
    nodes = [dict(n.meta) for n in exported.graph.nodes]
    assert codes(hazard.check(edge, config=config)) == ["HZ301"]
    assert edge.exported_program() is exported
    assert (str(exported.graph), str(exported.graph_signature)) == before[:2]
    assert all(exported.state_dict[k] is v for k, v in before[2].items())
    assert [dict(n.meta) for n in exported.graph.nodes] == nodes
    assert config.memory_planning_pass is planner
    assert vars(planner) == before[3]
    assert config.passes == passes
    # A second planning of the same manager finds the same.
    assert codes(hazard.check(edge, config=config)) == ["HZ301"]


def test_graphs_that_contradict_the_file_are_not_believed() -> None:
    edge, config = lowered(SAFE)
    manager = edge.to_executorch(config)
    assert hazard.check(manager).verdict == "proved"
    moved = next(n for n in manager.exported_program().graph.nodes if n.name == "aten_sum_dim_int_list")
    moved.meta["spec"].mem_offset += 16
    report = hazard.check(manager)
    assert report.verdict == "unknown"
    (reason,) = report.programs[0].methods[0].reasons
    assert reason.startswith("the emitted program is not what the graphs say: forward: value ")


def test_an_unknown_release_is_told_unless_the_file_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    edge, config = lowered(SAFE)
    manager = edge.to_executorch(config)
    monkeypatch.setattr("hazard.frontends.fx.RELEASES", ("0.9",))
    report = hazard.check(manager.exported_program())
    assert report.verdict == "unknown"
    release = metadata.version("executorch")
    assert report.programs[0].methods[0].reasons == (
        f"how ExecuTorch {release} emits graphs is not known; hazard knows 0.9",
    )
    assert hazard.check(manager).verdict == "proved"


def told(name: str) -> str:
    edge, config = lowered(name)
    return str(hazard.check(edge.to_executorch(config)))


def test_lines_are_those_of_the_model_not_of_the_modules_that_it_calls() -> None:
    text = unwrapped(told("f36_conv_bn_view_mha_after_cond"))
    assert "read at corpus/f36_conv_bn_view_mha_after_cond/model.py:18 in forward: `q = self.q(h).view" in text
    assert "linear.py" not in text


def test_a_delegate_has_the_line_of_what_it_took_over() -> None:
    text = unwrapped(told("c20_xnnpack_around_cond"))
    assert "read at corpus/c20_xnnpack_around_cond/model.py:21 in forward: `return self.l2(a) + self.l2(b)`" in text


def test_a_read_that_updates_a_buffer_names_it() -> None:
    assert "`cond[0]` is read here, as the new value of buffer `layers.0.keys`" in told("r01_cross_attention_cache")


def test_a_call_without_a_line_lies_between_two_that_have_one() -> None:
    text = unwrapped(told("c16_reinplace_default_view_used_later"))
    here = "corpus/c16_reinplace_default_view_used_later/model.py"
    assert f"overwritten by what the exporter made, between {here}:12 in forward and {here}:14 in forward" in text


def unwrapped(text: str) -> str:
    return re.sub(r"\n {4,}", " ", text)


def test_lines_survive_reinplacing() -> None:
    program = plan_edge(*lowered("c16_reinplace_default_view_used_later"))
    (finding,) = hazard.check(program).findings
    assert (finding.code, finding.use.name, finding.clobber.name) == (
        "HZ404", "aten_view_copy_default", "aten_index_put__default",
    )  # fmt: skip
    assert [p.origin.line for p in (finding.define, finding.clobber, finding.use)] == [11, 13, 14]


def test_a_live_range_that_the_planner_took_too_short_is_told() -> None:
    (finding,) = hazard.check(plan_edge(*lowered("h01_inplace_result_lifetime"))).findings
    assert finding.code == "HZ103"
    assert ": the planner ends its live range at instruction 2 of the emitted program;" in finding.help
    assert finding.use.origin.index == 9


# --- inside to_executorch ---------------------------------------------------------------------------------------------


def test_checked_planning_raises_before_a_program_is_made() -> None:
    edge, config = lowered(HAZARDOUS)
    config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass)
    with pytest.raises(hazard.HazardError) as raised:
        edge.to_executorch(config)
    assert codes(raised.value.report) == ["HZ101"]
    assert "error[HZ101]" in str(raised.value)
    assert f"{HAZARDOUS}/model.py:12" in str(raised.value)


def test_checked_planning_gives_the_same_program() -> None:
    edge, config = lowered(SAFE)
    plain = edge.to_executorch(config).buffer
    edge, config = lowered(SAFE)
    checked = config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass)
    assert edge.to_executorch(config).buffer == plain
    assert checked.report.verdict == "proved"


def test_checked_planning_is_the_wrapped_pass_to_look_at() -> None:
    from executorch.exir.passes import MemoryPlanningPass

    inner = MemoryPlanningPass(alloc_graph_input=False)
    checked = CheckedPlanning(inner)
    assert checked.alloc_graph_input is False
    checked.enable_non_cpu_memory_planning = True
    assert inner.enable_non_cpu_memory_planning is True
    with pytest.raises(ValueError, match="on_hazard is raise or warn"):
        CheckedPlanning(inner, on_hazard="ignore")


def test_methods_are_checked_together_under_their_names() -> None:
    edge, config = lowered("c19d_multimethod_distinct_state_no_share")
    config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass, fail_on="warning")
    with pytest.raises(hazard.HazardError) as raised:
        edge.to_executorch(config)
    report = raised.value.report
    assert {m.name for m in report.programs[0].methods} == set(edge.methods)
    assert "HZ501" in codes(report)


def test_a_pass_for_each_method() -> None:
    from executorch.exir.passes import MemoryPlanningPass

    edge, config = lowered("c19d_multimethod_distinct_state_no_share")
    config.memory_planning_pass = {n: CheckedPlanning(MemoryPlanningPass()) for n in edge.methods}
    with pytest.raises(hazard.HazardError, match="HZ501"):  # each method for itself is right, together they are not
        edge.to_executorch(config)
    edge, config = lowered("c19d_multimethod_distinct_state_no_share")
    config.memory_planning_pass = {sorted(edge.methods)[0]: MemoryPlanningPass()}
    assert {m.name for m in plan_edge(edge, config).methods} == set(edge.methods)


def test_a_pass_is_used_again_after_it_raised() -> None:
    edge, config = lowered(HAZARDOUS)
    checked = config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass)
    with pytest.raises(hazard.HazardError):
        edge.to_executorch(config)
    edge, config = lowered(SAFE)
    config.memory_planning_pass = checked
    assert edge.to_executorch(config).buffer


# --- storage that is shared -------------------------------------------------------------------------------------------


class Slices(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        a = x * 2
        return a[4:8] * 3


class Ask:
    """A pass that sets metadata of the first slice."""

    def __init__(self, **meta: Any) -> None:
        self.meta = meta

    def __call__(self, graph_module: Any) -> Any:
        from torch.fx.passes.infra.pass_base import PassResult

        node = next(n for n in graph_module.graph.nodes if "slice_copy" in str(n.target))
        node.meta.update(self.meta)
        return PassResult(graph_module, True)


INDEX, OFFSET = "_share_alloc_with_arg_idx", "_shared_alloc_offset"

#: metadata -> what the finding says of the slice, None where the request is right
REQUESTS: list[tuple[dict[str, Any], str | None]] = [
    ({INDEX: 0, OFFSET: 16}, None),
    ({OFFSET: 16}, "asks for byte 16 of shared storage, but names no base"),
    ({INDEX: 9}, "shares the storage of argument 9, but has 4 arguments"),
    ({INDEX: 1}, "shares the storage of argument 1, which is no tensor"),
    ({INDEX: "x"}, "shares the storage of argument 'x', which is no number"),
]
if metadata.version("executorch") >= "1.5":
    # Older releases put everything at the start of its base.
    REQUESTS += [
        ({INDEX: 0, OFFSET: 24}, "starts at byte 24 of a base that begins at a multiple of 16: 24 is none"),
        ({INDEX: 0, OFFSET: 32}, "takes bytes 32 to 48 of a base of 32 bytes"),
        ({INDEX: 0, OFFSET: -16}, "takes bytes -16 to 0 of a base of 32 bytes"),
    ]


@pytest.mark.parametrize(("meta", "said"), REQUESTS)
def test_wrong_requests_to_share_storage_are_told(meta: dict[str, Any], said: str | None) -> None:
    example = (torch.arange(8.0),)
    edge, config = lowered_experiment(Experiment(Slices(), example, None, {"passes": [Ask(**meta)]}, []))
    config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass)
    if said is None:
        report_codes = []
        try:
            edge.to_executorch(config)
        except hazard.HazardError as error:
            report_codes = codes(error.report)
        # The copy reads the base while it writes the same bytes at another place of it.
        assert set(report_codes) <= {"HZ403"}
        return
    with pytest.raises(hazard.HazardError) as raised:
        edge.to_executorch(config)
    (finding,) = (f for f in raised.value.report.findings if said in f.message)
    assert finding.code == "HZ401"
    assert finding.use is not None
    assert finding.use.origin is not None
    assert finding.use.origin.file == __file__


def test_a_circle_of_bases_is_told() -> None:
    from executorch.exir.passes import MemoryPlanningPass

    class Circle(MemoryPlanningPass):  # type: ignore[misc]
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            result = super().run(graph_module, graph_signature)
            a, b = (n.meta["spec"] for n in result.graph_module.graph.nodes if "out" in n.kwargs)
            a.storage_base, b.storage_base = b, a
            return result

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sin().cos()

    edge, config = lowered_experiment(Experiment(Model(), (torch.ones(4),), None, {"mpp": Circle()}, []))
    report = hazard.check(edge, config=config)
    assert [f.message.split(" ", 1)[1] for f in report.findings if f.code == "HZ401"] == [
        "lives in storage whose base is, in the end, itself"
    ] * 2


# --- loops that nobody plans ------------------------------------------------------------------------------------------


def test_while_loop_is_named_with_what_has_no_memory() -> None:
    report = hazard.check(*lowered("c23_while_loop")[:1])
    (finding,) = (f for f in report.findings if f.severity != "note")
    assert finding.code == "HZ801"
    assert "while_loop" in finding.message
    assert "`aten_add_tensor`" in finding.message
    assert finding.use is not None
    origin = finding.use.origin
    assert origin is not None
    assert origin.file is not None
    assert (Path(origin.file).parent.name, origin.line) == ("c23_while_loop", 12)
    assert report.verdict == "hazard"


def planned_loop(overlapping: bool) -> Any:
    """A planner that places the graphs of a `while_loop` as well: tensors apart, or all of them on a carry."""
    from executorch.exir.passes import MemoryPlanningPass

    class Planner(MemoryPlanningPass):  # type: ignore[misc]
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            result = super().run(graph_module, graph_signature)
            sizes = result.graph_module.meta["non_const_buffer_sizes"]
            carried = next(n for n in result.graph_module.graph.nodes if "while_loop" in str(n.target))
            at = carried.meta["spec"][1].mem_offset if overlapping else sizes[1]
            for module in result.graph_module.children():
                module.meta["non_const_buffer_sizes"] = sizes
                for node in module.graph.nodes:
                    spec = node.meta.get("spec")
                    if node.kwargs.get("out") is not None:
                        spec.mem_id, spec.mem_offset = 1, at
                        at += 0 if overlapping else 16
            sizes[1] = max(sizes[1], at)
            return result

    return Planner()


@pytest.mark.parametrize("overlapping", [False, True])
def test_while_loop_planned_by_somebody_else_is_checked(overlapping: bool) -> None:
    edge, config = lowered("c23_while_loop")
    config.memory_planning_pass = planned_loop(overlapping)
    program = plan_edge(edge, config)
    method = program.method("forward")
    assert method.obstacles == ()
    assert all(isinstance(v.placement, Planned) for v in method.values if getattr(v, "name", None) == "aten_mul_tensor")
    report = hazard.check(program)
    assert report.verdict == ("hazard" if overlapping else "proved")
    if overlapping:
        paths = {p.origin.path for f in report.findings for p in (f.clobber, f.use) if p and p.origin}
        assert paths & {"forward/while_loop/test", "forward/while_loop/body"}


# --- the command line -------------------------------------------------------------------------------------------------

FACTORIES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        p = x.sum() > 0
        a = torch.cond(p, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(p, lambda v: v * 10, lambda v: v * 20, (x,))
        return a, b

def model():
    return Model(), (torch.ones(2),)

def broken():
    return nobody_knows_this

def number():
    return 3

def nothing():
    pass

def lines():
    raise ValueError("first\\nsecond")

def leaves():
    raise SystemExit(5)

def lazy():
    import neighbour
    return neighbour.number()
"""


@pytest.fixture
def factories(tmp_path: Path) -> Path:
    path = tmp_path / "factories.py"
    path.write_text(FACTORIES)
    return path


def test_a_file_and_a_function_are_a_target(factories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{factories}:model"]) == 1
    out = capsys.readouterr().out
    assert "HZ101" in out
    assert "factories.py:7" in out


def test_a_file_is_checked_together_with_its_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap of buffers is lost by the exporter; the file alone cannot know that there was to be one."""
    name = "c14e_two_buffers_swap"
    file = ROOT / "corpus" / name / f"{metadata.version('executorch')}.pte"
    if not file.exists():
        file = file.with_name("1.5.1.pte")
    source = f"from corpus import runner\n\ndef swap():\n    return runner.lower(runner.load_build({name!r})())\n"
    (tmp_path / "swap.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(file)]) == 0
    assert "HZ301" not in capsys.readouterr().out
    assert main(["check", str(file), "--graph", "swap.py:swap"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("error[HZ301]: the new value of buffer `a`, `b`, is never written to it")
    assert f"--> {file}: forward[0]" in out
    assert "model.py:15 in forward: `ta = self.a.clone()`" in unwrapped(out)

    other = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
    assert main(["check", str(other), "--graph", "swap.py:swap"]) == 2
    assert f"{other}: this is not what the graph becomes (forward: inputs are (1,)" in capsys.readouterr().err
    assert main(["check", str(file), str(other), "--graph", "swap.py:swap"]) == 2
    assert "--graph goes with one program file" in capsys.readouterr().err
    assert main(["check", str(file), "--graph", "swap"]) == 2
    assert "--graph swap: name a factory" in capsys.readouterr().err


def test_a_module_and_a_function_are_a_target() -> None:
    with pytest.raises(hazard.InputError, match="a Model without example inputs"):
        load_target(f"corpus.{SAFE}.model:Model")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("broken", "it raised NameError: name 'nobody_knows_this' is not defined ({place}:15)"),
        ("number", "it returned something of type int, which holds no program"),
        ("nothing", "it returned None, which holds no program"),
        ("lines", "it raised ValueError: first ({place}:24)"),
        ("leaves", "it ended Python, with the exit code 5"),
        ("lazy", "it returned something of type float"),
        ("missing", "there is no `missing` in {place}; there is Model, broken, lazy, leaves, lines, model, nothing"),
        ("modle", "there is no `modle` in {place}; did you mean `model`?"),
    ],
)
def test_errors_of_the_factory_are_its_own(
    factories: Path, function: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (factories.parent / "neighbour.py").write_text("def number():\n    return 0.5\n")
    assert main(["check", f"{factories}:{function}"]) == 2
    out, err = capsys.readouterr()
    first, *traceback = err.splitlines()
    assert out == ""
    assert said.replace("{place}", str(factories)) in first
    # What the factory raises itself comes with the traceback of its code, and of nobody else's.
    raised = {"broken": 15, "lines": 24}.get(function)
    assert traceback[:1] == ([f'  File "{factories}", line {raised}, in {function}'] if raised else [])
    assert "pipeline.py" not in err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("gone.py:model", "gone.py:model: there is no such file"),
        ("gone.module:model", "gone.module:model: there is no module `gone`"),
        ("wrong.py:model", "wrong.py:model: wrong.py:1: "),
        ("needy.py:model", "needy.py:model: it raised ModuleNotFoundError: No module named 'gone' (needy.py:1)"),
    ],
)
def test_modules_that_cannot_be_imported_are_named(
    target: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "wrong.py").write_text("def model(:\n")
    (tmp_path / "needy.py").write_text("import gone\n")
    assert main(["check", target]) == 2
    assert capsys.readouterr().err.startswith(f"hazard: error: {said}")


def test_nothing_heavy_is_imported_for_a_file() -> None:
    program = "import sys, hazard; hazard.check(sys.argv[1]); print('torch' in sys.modules)"
    path = ROOT / "corpus" / SAFE / "1.5.1.pte"
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"
