"""The runtime as judge: what it confirms, what it cannot, and what its answers are good for."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import hazard
from corpus import runner
from corpus.cases import Case
from hazard.cli import main
from hazard.confirm.inputs import Generator, load_inputs, thresholds
from hazard.confirm.judge import confirm
from hazard.confirm.reference import close, reference_of
from hazard.confirm.session import run
from hazard.confirm.twin import make_twin
from hazard.frontends import load
from hazard.program import InputError


def program(name: str) -> Path:
    path = Case(name).program()
    assert path is not None
    return path


def outcomes(name: str, **options: object) -> list[tuple[str, str]]:
    result = confirm(str(program(name)), **{"budget": 5.0, **options})  # type: ignore[arg-type]
    assert not result.missed
    return [(e.finding.code, e.outcome) for e in result.evidence]


# --- the twin


@pytest.mark.parametrize(
    "name",
    ["seed_two_conds", "c01_two_sibling_both_out", "d01_view_of_cond_output", "f29_map_over_cond_output",
     "h01_inplace_result_lifetime", "h09_stateful_plus_big_stateless_method"],
)  # fmt: skip
def test_twin_matches_eager_where_the_program_does_not(name: str) -> None:
    data = program(name).read_bytes()
    report = hazard.check(data)
    twin = make_twin(data, [m.analysis for m in report.programs[0].methods])
    build = runner.load_build(name)
    assert runner.observe(build, data)["outcome"] == "MISMATCH"
    assert runner.observe(build, twin.data)["outcome"] == "match"


def test_no_two_tensors_of_a_twin_share_bytes_without_need() -> None:
    data = program("c01_two_sibling_both_out").read_bytes()
    report = hazard.check(data)
    (analysis,) = [m.analysis for m in report.programs[0].methods]
    assert not analysis.roles.views
    twin = make_twin(data, [analysis])
    regions = sorted((o, o + analysis.method.tensor(slot).nbytes) for (_, slot), o in twin.offsets.items())
    assert len(regions) > 5
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(regions))


def test_kept_together_the_fault_stays() -> None:
    data = program("c01_two_sibling_both_out").read_bytes()
    report = hazard.check(data)
    finding = report.findings[0]
    assert finding.define
    assert finding.clobber
    pair = [(0, finding.define.slot), (0, finding.clobber.slot)]
    analyses = [m.analysis for m in report.programs[0].methods]
    twin = make_twin(data, analyses, together=[pair])  # type: ignore[list-item]
    places = [analyses[0].method.tensor(slot).planned for _, slot in pair]  # type: ignore[arg-type]
    before = places[1].offset - places[0].offset  # type: ignore[union-attr]
    assert twin.offsets[pair[1]] - twin.offsets[pair[0]] == before  # type: ignore[index]


# --- evidence


def test_the_seed_program_is_confirmed_with_inputs_that_show_it() -> None:
    path = program("seed_two_conds")
    result = confirm(str(path), budget=20.0)
    assert {e.outcome for e in result.evidence} == {"confirmed"}
    assert not result.missed
    for e in result.evidence:
        assert e.difference is not None
        got = run(path.read_bytes(), e.calls)[-1].values[e.difference.output]  # type: ignore[index]
        expected = run(result.twin, e.calls)[-1].values[e.difference.output]  # type: ignore[index]
        assert torch.equal(got, e.difference.got)
        assert torch.equal(expected, e.difference.expected)
        assert not torch.equal(got, expected)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("c17_dynamic_cond", "HZ101"),
        ("d01_view_of_cond_output", "HZ201"),
        ("f41b_map_body_view_of_operand", "HZ201"),
        ("f29_map_over_cond_output", "HZ102"),
        ("h01_inplace_result_lifetime", "HZ103"),
        ("h09_stateful_plus_big_stateless_method", "HZ501"),
    ],
)
def test_each_kind_that_bytes_show_is_confirmed(name: str, code: str) -> None:
    assert (code, "confirmed") in outcomes(name)


def test_a_fault_that_the_twin_shares_is_called_not_confirmable() -> None:
    assert outcomes("c16g_reinplace_view_of_constant") == [("HZ703", "not-confirmable")]


def test_state_on_which_no_output_depends_is_called_not_confirmable() -> None:
    assert ("HZ101", "not-confirmable") in outcomes("e08_cond_output_into_state_with_second_cond", budget=1.0)


def test_a_right_program_stays_without_evidence() -> None:
    result = confirm(str(program("c05_nested_true")), budget=5.0)
    assert not result.evidence
    assert not result.missed
    assert result.calls >= 12


def test_a_difference_without_a_finding_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # With all rules but one switched off the hazard is there and no finding explains it.
    result = confirm(str(program("c01_two_sibling_both_out")), budget=5.0, select=["HZ701"])
    assert not result.evidence
    assert result.missed
    assert not torch.equal(result.missed[0].difference.got, result.missed[0].difference.expected)


# --- inputs


def test_inputs_are_the_same_for_the_same_seed_and_go_to_both_sides_of_a_constant() -> None:
    loaded = load(str(program("c01_two_sibling_both_out")))
    near = thresholds(loaded)
    made = [Generator(loaded, near, 3).sequence(k, 4) for k in range(2)]
    again = [Generator(loaded, near, 3).sequence(k, 4) for k in range(2)]
    for a, b in zip(made, again, strict=True):
        assert all(torch.equal(x, y) for (_, i), (_, j) in zip(a, b, strict=True) for x, y in zip(i, j, strict=True))
    generator = Generator(loaded, near, 0)
    sums = [float(inputs[0].sum()) for k in range(20) for _, inputs in generator.sequence(k, 4)]
    assert min(sums) < 0 < max(sums)


def test_inputs_of_a_file_are_the_calls_that_are_made(tmp_path: Path) -> None:
    path = program("seed_two_conds")
    calls = [(torch.tensor([v], dtype=torch.float64),) for v in (5.0, 6.0)]
    torch.save(calls, tmp_path / "calls.pt")
    (sequence,) = load_inputs(str(tmp_path / "calls.pt"), load(str(path)))
    assert [name for name, _ in sequence] == ["forward", "forward"]
    result = confirm(str(path), sequences=[sequence])
    assert result.runs == 1
    assert {float(e.difference.got) for e in result.evidence if e.difference} == {7.0}
    assert {float(e.difference.expected) for e in result.evidence if e.difference} == {6.0}


def test_a_file_that_is_no_inputs_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"bad\.pt: not a file of tensors") as caught:
        load_inputs(str(tmp_path / "bad.pt"), load(str(program("seed_two_conds"))))
    assert "\n" not in str(caught.value)


def test_a_method_that_is_not_there_is_named(tmp_path: Path) -> None:
    torch.save({"backward": [[torch.zeros(1)]]}, tmp_path / "calls.pt")
    with pytest.raises(InputError, match="no method `backward`; it has forward"):
        load_inputs(str(tmp_path / "calls.pt"), load(str(program("seed_two_conds"))))


# --- the command


def test_command_writes_a_reproducer_that_runs_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["confirm", str(program("seed_two_conds")), "--reproducers", str(tmp_path), "--color", "never"])
    out = capsys.readouterr().out
    assert code == 1
    assert "confirmed: HZ101 clobbered-branch-result" in out
    assert "call 2, forward, output 0: got" in out
    scripts = sorted(tmp_path.glob("*.py"))
    assert scripts
    for script in scripts:
        assert str(script) in out
        ran = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "WRONG call 2 forward output 0: got" in ran.stdout


def test_large_programs_lie_beside_their_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hazard.confirm import reproducer

    monkeypatch.setattr(reproducer, "EMBEDDED", 0)
    path = program("c01_two_sibling_both_out")
    result = confirm(str(path), budget=5.0)
    target = str(tmp_path / "shown.py")
    written = reproducer.write_reproducer(target, result.confirmed[0], result.data, result.twin, path.name)
    assert [Path(w).name for w in written] == ["shown.py", "shown-program.pte", "shown-twin.pte"]
    assert (tmp_path / "shown-program.pte").read_bytes() == path.read_bytes()
    ran = subprocess.run([sys.executable, target], capture_output=True, text=True, check=True)
    assert "WRONG" in ran.stdout


def test_command_says_so_when_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", str(program("c05_nested_true")), "--budget", "2"]) == 0
    assert "0 confirmed, 0 not reproduced, 0 not confirmable this way" in capsys.readouterr().out


def test_command_refuses_what_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.pte").write_bytes(b"no program at all" * 10)
    assert main(["confirm", str(tmp_path / "no.pte")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hazard: error: ")
    assert error.count("\n") == 1
    assert main(["confirm", str(tmp_path / "absent.pte")]) == 2


def test_a_program_that_the_runtime_refuses_is_no_missed_hazard() -> None:
    result = confirm(str(program("e05_custom_mem_id_parent2")), budget=1.0)
    assert {(e.finding.code, e.outcome) for e in result.evidence} == {("HZ701", "confirmed")}
    assert not result.missed
    assert next(iter(result.failures)).startswith("Failed to load method")


def test_command_refuses_text_which_no_runtime_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(program("c05_nested_true")), "-o", str(tmp_path / "text.hir")]) == 0
    assert main(["confirm", str(tmp_path / "text.hir")]) == 2
    assert "only program files can be run" in capsys.readouterr().err


# --- beside eager


def edge(name: str) -> tuple[Any, Any]:
    """The edge program of a case, with its configuration."""
    return runner.lower(runner.load_build(name)())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("c14e_two_buffers_swap", "HZ301"),
        ("c14k_top_to_copy_of_buffer_returned", "HZ303"),
        ("f41b_map_body_view_of_operand", "HZ201"),
        ("c16_reinplace_default_view_used_later", "HZ404"),
        ("c16g_reinplace_view_of_constant", "HZ703"),
        ("seed_two_conds", "HZ101"),
    ],
)
def test_with_the_graph_eager_confirms_what_a_twin_shares(name: str, code: str) -> None:
    result = confirm(edge(name), budget=5.0)
    assert result.graph
    assert {(e.finding.code, e.outcome) for e in result.evidence} == {(code, "confirmed")}
    assert not result.missed
    for e in result.evidence:
        assert e.difference is not None
        last = e.difference.call - 1
        got = run(result.data, e.calls)[last].values
        assert torch.equal(got[e.difference.output], e.difference.got)  # type: ignore[index]
        assert not torch.equal(e.difference.got, e.difference.expected)
        assert any(torch.equal(v, e.difference.expected) for v in e.eager[last].values)


def test_a_right_graph_stays_without_evidence() -> None:
    result = confirm(edge("c05_nested_true"), budget=5.0)
    assert result.eager
    assert not result.evidence
    assert not result.missed


def test_a_program_file_beside_its_module_shows_what_the_file_hides() -> None:
    module = runner.load_build("c14e_two_buffers_swap")().module
    result = confirm(str(program("c14e_two_buffers_swap")), reference=module, budget=5.0)
    assert not result.evidence
    (missed,) = result.missed
    assert not missed.of_bytes
    assert not torch.equal(missed.difference.got, missed.difference.expected)


def test_a_program_file_with_its_graph_has_the_findings_of_the_graph() -> None:
    result = confirm(str(program("c14e_two_buffers_swap")), graph=edge("c14e_two_buffers_swap"), budget=5.0)
    assert result.graph
    assert {(e.finding.code, e.outcome) for e in result.evidence} == {("HZ301", "confirmed")}
    with pytest.raises(InputError, match="this is not what the graph becomes"):
        confirm(str(program("c14e_two_buffers_swap")), graph=edge("c05_nested_true"))


def test_what_kernels_round_is_no_difference() -> None:
    for dtype, step in ((torch.float32, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 1e-2)):
        value = torch.tensor([0.0, 100.0, torch.nan], dtype=dtype)
        assert close(value + step * 100, value)
        assert not close(value + 20, value)
    assert not close(torch.tensor([1]), torch.tensor([2]))


class _TwoMethods(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total.clone()


def test_a_reference_keeps_state_between_calls_and_begins_anew_each_time() -> None:
    module, ones = _TwoMethods(), torch.ones(2)
    exported = torch.export.export(module, (ones,))
    for model in (module, exported, {"forward": (module, (ones,))}):
        reference = reference_of(model)
        for _ in range(2):
            first, second = reference.run([("forward", [ones]), ("forward", [ones])])
            assert torch.equal(first.values[0], ones)
            assert torch.equal(second.values[0], 2 * ones)
    assert torch.equal(module.total, torch.zeros(2))  # type: ignore[arg-type]


def test_modules_share_state_as_they_do_in_python() -> None:
    module, ones = _TwoMethods(), torch.ones(2)
    reference = reference_of({"a": module, "b": module})
    _, second = reference.run([("a", [ones]), ("b", [ones])])
    assert torch.equal(second.values[0], 2 * ones)


def test_what_is_no_model_is_refused() -> None:
    manager = edge("c05_nested_true")[0].to_executorch()
    with pytest.raises(InputError, match="give the model itself"):
        reference_of(manager)
    with pytest.raises(InputError, match="a list is no reference"):
        reference_of([1])


def factories(folder: Path) -> Path:
    path = folder / "made.py"
    path.write_text(
        """
import os
import signal
import time

import torch
from corpus import runner

experiment = runner.load_build("c14e_two_buffers_swap")()

def edge():
    return runner.lower(experiment)

def module():
    return experiment.module

def dies():
    os.kill(os.getpid(), signal.SIGSEGV)

class Stuck(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            time.sleep(600)
        return x + 1

def stuck():
    return Stuck(), (torch.ones(2),)
"""
    )
    return path


def test_command_takes_a_factory_and_its_reproducer_runs_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--reproducers", str(tmp_path), "--color", "never", "--budget", "5"]
    assert main(["confirm", f"{factories(tmp_path)}:edge", *where]) == 1
    out = capsys.readouterr().out
    assert "confirmed: HZ301 lost-write-back" in out
    assert "call 2, forward, output 1: got [" in out
    (script,) = tmp_path.glob("edge-HZ301-*.py")
    ran = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "WRONG call 2 forward output 1: got" in ran.stdout
    assert "TWIN" not in script.read_text()


def test_command_takes_a_reference_beside_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, made = str(program("c14e_two_buffers_swap")), f"{factories(tmp_path)}:module"
    where = ["--reproducers", str(tmp_path), "--color", "never", "--budget", "5"]
    assert main(["confirm", file, "--reference", made, *where]) == 1
    assert "WRONG WITHOUT A FINDING: the program differs from eager" in capsys.readouterr().out


def test_a_crash_of_the_runtime_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", f"{factories(tmp_path)}:dies"]) == 2
    error = capsys.readouterr().err
    assert "was ended by SIGSEGV: the runtime crashed" in error
    assert error.count("\n") == 1


def test_a_call_that_does_not_come_back_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hazard.cli import confirming

    monkeypatch.setattr(confirming, "GRACE", 1.0)
    assert main(["confirm", f"{factories(tmp_path)}:stuck", "--budget", "0"]) == 2
    assert "a call does not come back" in capsys.readouterr().err
