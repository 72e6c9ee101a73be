"""``hazard fix`` and the suggestions for findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corpus import cases
from hazard.api import check
from hazard.cli import CLEAN, FOUND, UNUSABLE, main
from hazard.frontends import load
from hazard.repair.fix import repair_file, repair_program
from hazard.repair.suggest import Suggestion, _Trials, suggest, with_suggestions
from hazard.repair.write import write_plan

#: Kinds whose findings a plan of the file cures.
CURED_BY_A_PLAN = ("A", "A2", "E5", "I")


def program(name: str) -> str:
    path = cases.Case(name).program()
    assert path is not None
    return str(path)


def test_fixes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = tmp_path / "out.pte", tmp_path / "report.json"
    assert main(["fix", program("seed_two_conds"), "-o", str(out), "--report", str(report), "--diff"]) == CLEAN
    said = capsys.readouterr().out
    assert "2 findings cured; the new plan is proved" in said
    assert "arena 1: 144 -> 64 bytes (-56 %), the least possible; 240 without sharing" in said
    assert "%0 arena 1: 128..136 -> 0..8" in said
    record = json.loads(report.read_text())
    assert record["sha256"] == check(out).programs[0].sha256
    assert [record["before"], record["after"], record["refusals"]] == ["hazard", "proved", []]
    assert len(record["moved"]) == 15
    assert check(out).verdict == "proved"


def test_a_dry_run_writes_nothing_and_suggests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", program("h01_inplace_result_lifetime"), "--dry-run"]) == CLEAN
    said = capsys.readouterr().out
    assert "error[HZ103]" in said
    assert "keep the bytes of `%10` from" in said
    assert "80 -> 96 bytes (+20 %) [tried: the finding is gone]" in said
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_fixed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pte"
    assert main(["fix", program("f41b_map_body_view_of_operand"), "-o", str(out)]) == FOUND
    assert "export with hazard.SafePlanning" in capsys.readouterr().out
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}"], "where to?"),
        (["{}", "-o", "{}"], "is the input"),
        (["-", "-o", "x.pte"], "not a file"),
        (["{}", "-o", "no/such/folder/out.pte"], "cannot be written"),
    ],
)
def test_wrong_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = program("c01_two_sibling_both_out")
    assert main(["fix", *(a.format(source) for a in arguments)]) == UNUSABLE
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "model.pte"
    copy.write_bytes(Path(program("c01_two_sibling_both_out")).read_bytes())
    assert main(["fix", str(copy), "--in-place"]) == CLEAN
    assert check(copy).verdict == "proved"
    fixed = copy.read_bytes()
    assert main(["fix", str(copy), "--in-place"]) == CLEAN
    assert "nothing was wrong" in capsys.readouterr().out
    assert copy.read_bytes() == fixed


def test_a_promised_order_of_loading_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = program("h10_shared_state_lazy_second_load"), str(tmp_path / "out.pte")
    assert main(["fix", source, "-o", out]) == FOUND
    assert main(["fix", source, "-o", out, "--load", "eager"]) == CLEAN


# --- suggestions ------------------------------------------------------------------------------------------------------


def suggested(name: str) -> list[tuple[Any, tuple[Suggestion, ...]]]:
    return suggest(repair_file(program(name)))


def kinds_of(name: str) -> dict[str, set[tuple[str, bool]]]:
    found: dict[str, set[tuple[str, bool]]] = {}
    for finding, choices in suggested(name):
        found.setdefault(finding.code, set()).update((s.kind, s.checked) for s in choices)
    return found


def test_suggestions_say_what_was_tried() -> None:
    assert kinds_of("seed_two_conds") == {"HZ101": {("placement", True), ("lifetime", True), ("copy", True)}}
    assert kinds_of("d01_view_of_cond_output") == {"HZ201": {("placement", True), ("copy", True), ("option", False)}}
    assert kinds_of("h10_shared_state_lazy_second_load") == {"HZ502": {("loading", True)}}


def test_the_cheapest_plan_comes_first() -> None:
    for case in cases.cases():
        if case.kind in ("A", "A2", "E5", "I") and case.program():
            for _, choices in suggested(case.name):
                sizes = [s.after for s in choices if s.after is not None]
                assert sizes == sorted(sizes)
                assert sizes


def test_suggestions_go_with_a_finding() -> None:
    finding, choices = suggested("c01_two_sibling_both_out")[0]
    told = with_suggestions(finding, choices)
    assert told.fingerprint == finding.fingerprint
    assert any("tried: the finding is gone" in note for note in told.notes)
    assert [s["kind"] for s in dict(told.properties)["suggestions"]] == [s.kind for s in choices]


def where(finding: Any) -> tuple[str, str, int, int | None]:
    return finding.method, finding.code, finding.use.position, finding.use.slot


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c, _ in cases.programs() if c.kind in CURED_BY_A_PLAN])
def test_a_plan_that_is_suggested_cures_its_finding(case: cases.Case, tmp_path: Path) -> None:
    """What is said to have been tried is written into the file, and the file checked."""
    source = program(case.name)
    tried = 0
    for finding, choices in suggested(case.name):
        for choice in choices:
            if choice.plan is not None:
                assert choice.checked
                target = tmp_path / f"{tried}.pte"
                write_plan(source, target, choice.plan, lambda path: None)
                # By the read: fingerprints of findings that look alike are numbered.
                assert where(finding) not in {where(f) for f in check(target).findings}
                arenas = load(target).methods[0].arenas.values()
                assert len(load(target).methods) > 1 or sum(a.size for a in arenas) == choice.after
                tried += 1
    assert tried


def test_a_check_suggests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forms = [f"{form}={tmp_path / form}" for form in ("json", "sarif", "markdown")]
    arguments = ["check", program("seed_two_conds"), "--suggest", *(w for form in forms for w in ("-o", form))]
    assert main(arguments) == FOUND
    told = "keep the bytes of `%9` from [4] dim_order_ops::_clone_dim_order.out and [7]"
    for text in (capsys.readouterr().out, *((tmp_path / form).read_text() for form in ("json", "sarif", "markdown"))):
        words = " ".join(text.split())
        assert told in words
        assert "144 -> 64 bytes (-56 %) [tried: the finding is gone]" in words
        assert "`x = x.clone()`" in words
    (first, _) = json.loads((tmp_path / "json").read_text())["findings"]
    assert [s["kind"] for s in first["properties"]["suggestions"]] == ["placement", "lifetime", "copy"]
    assert first["properties"]["suggestions"][0]["growth"] == pytest.approx(-55.6, abs=0.1)


def test_a_check_of_what_no_plan_of_the_file_cures_suggests_another_export(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program("f41b_map_body_view_of_operand"), "--suggest"]) == FOUND
    said = " ".join(capsys.readouterr().out.split())
    assert "export with `memory_planning_pass=hazard.SafePlanning()` [not tried: it changes the export]" in said


def test_a_check_of_what_is_right_suggests_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program("c05_nested_true"), "--suggest"]) == CLEAN
    assert "suggested" not in capsys.readouterr().out


@pytest.mark.usefixtures("quiet")
def test_a_model_at_hand_is_planned_once_more_with_other_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A view of a result (B), old state that is returned (D), and an update in place that a view misses (E6)."""
    (tmp_path / "models.py").write_text(
        "from corpus import runner\n\n"
        "def view(): return runner.lower(runner.load_build('k07_cond_linear_flatten_head')())\n"
        "def state(): return runner.lower(runner.load_build('c14k_top_to_copy_of_buffer_returned')())\n"
        "def cache(): return runner.lower(runner.load_build('e02e_reinplace_kv_cache')())\n"
    )
    said = {}
    for name in ("view", "state", "cache"):
        assert main(["check", f"{tmp_path / 'models.py'}:{name}", "--suggest"]) == FOUND
        said[name] = " ".join(capsys.readouterr().out.split())
    assert "(remove_view_copy=False)`: 208 -> 208 bytes (+0 %) [tried: the finding is gone]" in said["view"]
    assert "hazard.SafePlanning()`: 32 -> 48 bytes (+50 %) [tried: the finding is gone]" in said["state"]
    assert "`old + 0`: 32 -> 48 bytes (+50 %) [tried in the program: the finding is gone]" in said["state"]
    assert "without `reinplace_extra_ops`: 160 -> 192 bytes (+20 %) [tried: the finding is gone]" in said["cache"]
    assert "not tried" not in "".join(said.values())


@pytest.mark.usefixtures("quiet")
def test_an_option_that_does_not_help_is_not_called_tried() -> None:
    from corpus import runner
    from hazard.pipeline import plan_edge, replanning

    edge, config = runner.lower(runner.load_build("c01_two_sibling_both_out")())
    repair = repair_program(plan_edge(edge, config))
    again = replanning((edge, config))
    assert again is not None
    finding = repair.before.findings[0]

    def views_copied(config: Any) -> None:
        config.remove_view_copy = False

    def failing(config: Any) -> None:
        raise RuntimeError("no such option")

    for change in (views_copied, failing):
        choice = Suggestion("option", change.__name__, False, change=change)
        assert _Trials(repair.before, again).tried(finding, choice) == choice
