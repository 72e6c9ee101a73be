"""The runtime as judge: what it confirms, what it cannot, and what its answers are good for."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hazard
from corpus.cases import Case
from hazard.cli import main
from hazard.confirm.inputs import Generator, load_inputs, thresholds
from hazard.confirm.judge import confirm
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
    from corpus import runner

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
        expected = run(result.reference, e.calls)[-1].values[e.difference.output]  # type: ignore[index]
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


def test_a_clobbered_value_that_nobody_can_tell_is_not_reproduced() -> None:
    assert ("HZ101", "not-reproduced") in outcomes("e08_cond_output_into_state_with_second_cond", budget=1.0)


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
    written = reproducer.write_reproducer(target, result.confirmed[0], result.data, result.reference, path.name)
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
