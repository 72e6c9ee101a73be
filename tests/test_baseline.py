"""Baselines and differences: known findings do not fail, new ones do, and re-planning changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hazard
from hazard.baseline import Entry, apply_baseline, read_baseline, relative_to, write_baseline
from hazard.cli import main
from hazard.program import InputError

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
PROVED = ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte"

TEXT = """
method forward
  arena 1 : 128
  %0 = tensor f32[4] @ 1+48
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+8
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %3
  chain
    aten::sin.out(%0, %1, %1)
    aten::cos.out(%0, %2, %2)
    aten::add.out(%1, %2, %4, %3, %3)
"""
#: The same program after re-planning, with an instruction more: other offsets, other indices, the same fault.
REPLANNED = (
    TEXT.replace("1+0\n", "1+80\n")
    .replace("1+8\n", "1+88\n")
    .replace("  inputs", "  %5 = tensor f32[4] @ 1+64\n  inputs")
    .replace("chain\n", "chain\n    aten::abs.out(%0, %5, %5)\n")
)
FIXED = TEXT.replace("1+8\n", "1+16\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "seed.pte").write_bytes(SEED.read_bytes())
    (tmp_path / "a" / "plain.hir").write_text(TEXT)
    return tmp_path


def test_known_findings_pass_and_new_ones_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "a"]) == 1
    assert main(["baseline", "write", "a"]) == 0
    capsys.readouterr()
    for command in (["baseline", "check", "a"], ["check", "a", "--baseline", "hazard-baseline.json"]):
        assert main([*command, "--output-format", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["findings"], shown["warnings"]) == ([], [])
        assert {s["kind"] for s in shown["suppressed"]} == {"baseline"}
        assert len(shown["suppressed"]) == 3
    (folder / "a" / "plain.hir").write_text(REPLANNED)
    assert main(["baseline", "check", "a"]) == 0
    (folder / "a" / "new.pte").write_bytes(SEED.read_bytes())
    capsys.readouterr()
    assert main(["baseline", "check", "a", "--output-format", "json"]) == 1
    assert {f["path"] for f in json.loads(capsys.readouterr().out)["findings"]} == {"a/new.pte"}


def test_a_baseline_reads_well_in_a_review(folder: Path) -> None:
    main(["baseline", "write", "a"])
    text = (folder / "hazard-baseline.json").read_text()
    lines = [json.loads(line.strip().rstrip(",")) for line in text.splitlines() if '"fingerprint"' in line]
    assert [(e["path"], e["code"]) for e in lines] == [
        ("a/plain.hir", "HZ103"),
        ("a/seed.pte", "HZ101"),
        ("a/seed.pte", "HZ101"),
    ]
    entries = read_baseline("hazard-baseline.json")
    write_baseline("again.json", list(reversed(entries)))
    assert (folder / "again.json").read_text() == text
    write_baseline("none.json", [])
    assert read_baseline("none.json") == []


def test_reasons_survive_writing_and_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["baseline", "write", "a"])
    path = folder / "hazard-baseline.json"
    content = json.loads(path.read_text())
    content["findings"][0]["reason"] = "planned for March"
    path.write_text(json.dumps(content))
    main(["baseline", "write", "a"])
    assert [e.reason for e in read_baseline(str(path))] == ["planned for March", None, None]
    capsys.readouterr()
    main(["baseline", "check", "a", "--output-format", "json"])
    shown = json.loads(capsys.readouterr().out)
    assert sorted(s["reason"] or "" for s in shown["suppressed"]) == ["", "", "planned for March"]


def test_fixed_findings_are_a_reminder_and_are_pruned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["baseline", "write", "a"])
    (folder / "a" / "plain.hir").write_text(FIXED)
    capsys.readouterr()
    assert main(["baseline", "check", "a"]) == 0
    assert "1 finding not found any more; `hazard baseline prune` removes them" in capsys.readouterr().out
    # A program that was not checked keeps its entries.
    assert main(["baseline", "check", "a/seed.pte"]) == 0
    assert "not found any more" not in capsys.readouterr().out
    assert main(["baseline", "prune", "a"]) == 0
    assert capsys.readouterr().out == "hazard-baseline.json: 1 finding removed, 2 left\n"
    assert {e.path for e in read_baseline("hazard-baseline.json")} == {"a/seed.pte"}
    # Those of a program that is gone go as well.
    (folder / "a" / "seed.pte").unlink()
    assert main(["baseline", "prune", "a"]) == 0
    assert read_baseline("hazard-baseline.json") == []


def test_one_entry_accepts_one_finding() -> None:
    report = hazard.check(TEXT.encode(), name="<x>")
    (finding,) = report.findings
    known = Entry("<x>", "forward", "HZ103", finding.fingerprint)
    double = hazard.check(TEXT.encode(), name="<x>")
    double.programs[0].findings.append(double.programs[0].findings[0])
    assert apply_baseline(double, "b.json", [known]) == []
    assert len(double.findings) == 1
    assert apply_baseline(report, "b.json", [known, known]) == [known]
    assert report.findings == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "`findings` is missing"),
        ('{"schema_version": "1.0"}', "`findings` is missing"),
        ('{"schema_version": "2.0", "findings": []}', "a baseline of version '2.0'"),
        ('{"schema_version": "1.0", "findings": [1]}', "finding 1: expected an object"),
        ('{"schema_version": "1.0", "findings": [{"path": "x"}]}', "finding 1: `fingerprint` must be a text"),
    ],
)
def test_faulty_baselines_are_named(
    folder: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text(text)
    for command in ("check", "prune"):
        assert main(["baseline", command, "a", "--file", "b.json"]) == 2
        assert said in capsys.readouterr().err
    assert (folder / "b.json").read_text() == text


def test_a_missing_baseline_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "check", "a"]) == 2
    assert "hazard-baseline.json: there is no baseline yet; `hazard baseline write` makes it" in capsys.readouterr().err
    with pytest.raises(InputError):
        read_baseline("gone.json")


def test_nothing_is_written_when_an_input_is_unusable(folder: Path) -> None:
    assert main(["baseline", "write", "a", "gone.pte"]) == 2
    assert not (folder / "hazard-baseline.json").exists()


def test_paths_are_relative_to_the_baseline(folder: Path) -> None:
    (folder / "ci").mkdir()
    assert relative_to("ci/known.json", "a/seed.pte") == "../a/seed.pte"
    assert relative_to(str(folder / "known.json"), str(folder / "a" / "seed.pte")) == "a/seed.pte"
    assert main(["baseline", "write", "a", "--file", "ci/known.json"]) == 0
    assert main(["baseline", "check", str(folder / "a"), "--file", str(folder / "ci" / "known.json")]) == 0


# --- differences ------------------------------------------------------------------------------------------------------


def test_difference_of_two_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fixed.hir").write_text(FIXED)
    (folder / "replanned.hir").write_text(REPLANNED)
    assert main(["diff", "fixed.hir", "a/plain.hir"]) == 1
    out = capsys.readouterr().out
    assert "error[HZ103]" in out
    assert out.endswith("1 finding introduced, 0 fixed, 0 unchanged\n")
    assert main(["diff", "a/plain.hir", "fixed.hir"]) == 0
    out = capsys.readouterr().out
    assert "fixed: HZ103 in a/plain.hir: forward[1]" in out
    assert out.endswith("0 findings introduced, 1 fixed, 0 unchanged\n")
    assert main(["diff", "a/plain.hir", "replanned.hir"]) == 0
    assert capsys.readouterr().out.endswith("0 findings introduced, 0 fixed, 1 unchanged\n")
    assert main(["diff", "fixed.hir", "a/plain.hir", "--fail-on", "never"]) == 0


def test_difference_of_two_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b").mkdir()
    (folder / "b" / "seed.pte").write_bytes(PROVED.read_bytes())
    (folder / "b" / "plain.hir").write_text(REPLANNED)
    (folder / "b" / "other.hir").write_text(TEXT)
    assert main(["diff", "a", "b", "--output-format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [f["path"] for f in shown["introduced"]] == ["b/other.hir"]
    assert [f["path"] for f in shown["fixed"]] == ["a/seed.pte", "a/seed.pte"]
    assert [f["path"] for f in shown["unchanged"]] == ["b/plain.hir"]
    assert main(["diff", "a", "gone.pte"]) == 2


# --- fingerprints -----------------------------------------------------------------------------------------------------

#: One value that two others can be planned over: which one is the planner's choice.
CHOICE = """
method forward
  arena 1 : 128
  %0 = tensor f32[4] @ 1+48
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+32
  %4 = tensor f32[4] @ 1+64
  %5 = tensor f32[4] @ 1+80
  inputs %0
  outputs %5 %3 %4
  chain
    aten::sin.out(%0, %1, %1)
    aten::exp.out(%0, %2, %2)
    aten::cos.out(%0, %3, %3)
    aten::tan.out(%0, %4, %4)
    aten::add.out(%1, %2, %6, %5, %5)
"""


def fingerprints(text: str) -> dict[str, str]:
    """Fingerprints of the findings by the operator that overwrites."""
    return {
        f.clobber.operator: f.fingerprint for f in hazard.check(text.encode(), name="a.hir").findings if f.clobber
    }


def test_a_fingerprint_does_not_depend_on_who_overwrites() -> None:
    first = fingerprints(CHOICE.replace("%3 = tensor f32[4] @ 1+32", "%3 = tensor f32[4] @ 1+0"))
    then = fingerprints(CHOICE.replace("%4 = tensor f32[4] @ 1+64", "%4 = tensor f32[4] @ 1+0"))
    assert (set(first), set(then)) == ({"aten::cos.out"}, {"aten::tan.out"})
    assert list(first.values()) == list(then.values())


def test_another_operand_of_the_same_instruction_is_another_finding() -> None:
    first = fingerprints(CHOICE.replace("%3 = tensor f32[4] @ 1+32", "%3 = tensor f32[4] @ 1+0"))
    then = fingerprints(CHOICE.replace("%3 = tensor f32[4] @ 1+32", "%3 = tensor f32[4] @ 1+16"))
    assert set(first) == set(then) == {"aten::cos.out"}
    assert set(first.values()).isdisjoint(then.values())


def test_a_model_planned_by_another_planner_keeps_its_fingerprints() -> None:
    """The naive planner lets another operator overwrite the branch result than the greedy one does."""
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive

    from corpus import runner

    found = []
    for algorithm, alignment in ((greedy, 16), (greedy, 64), (naive, 16)):
        edge, config = runner.lower(runner.load_build("c04c_unrelated_preds_diff_temps")())
        config.memory_planning_pass.memory_planning_algo = MemoryPlanningAlgorithmSuite(algo_list=[algorithm])
        config.memory_planning_pass.alignment = alignment
        report = hazard.check(bytes(edge.to_executorch(config).buffer))
        found.append([f for f in report.findings if f.code == "HZ101"])
    overwriters = [[f.clobber.operator for f in findings if f.clobber] for findings in found]
    assert overwriters[0] != overwriters[2]
    assert all(findings for findings in found)
    assert len({tuple(f.fingerprint for f in findings) for findings in found}) == 1
