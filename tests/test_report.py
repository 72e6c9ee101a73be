"""What the reports say. Expected texts are in ``tests/expected``; ``python -m tests.test_report`` writes them anew."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import hazard
from hazard.analysis.conflicts import Witness
from hazard.api import Report
from hazard.program import JumpFalse, Method, Scalar
from hazard.report import FORMATS, Options, render
from hazard.report.terminal import clean
from hazard.rule import all_rules, worst_first

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "tests" / "expected"
SCHEMA = json.loads((ROOT / "hazard" / "report" / "schema.json").read_text())
GITHUB_SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif_github.schema.json").read_text())

#: What each of these programs shows: a clobbered result; an operand that is written while it is read; a view whose
#: bytes nobody wrote; state without initial contents; a proof that rests on a view; a plain proof. Each has one
#: shortest story, so that its text does not depend on which of several is found first.
TOLD = [
    "one_branch",
    "c29c_operand_reversed_read",
    "d01_view_of_cond_output",
    "d09_uninit_state",
    "f33b_clone_workaround",
    "c05_nested_true",
]
PROGRAMS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "corpus").glob("*/*.pte"))


def report_of(*paths: str) -> Report:
    """A report over corpus programs, with paths as they look from the root of the repository."""
    report = Report()
    for path in paths:
        (program,) = hazard.check(ROOT / path).programs
        report.programs.append(dataclasses.replace(program, path=path))
    return report


def told(case: str, form: str = "full") -> str:
    path = f"tests/data/{case}.hir" if case == "one_branch" else f"corpus/{case}/1.5.1.pte"
    text = render(form, report_of(path), Options(color=False, width=110))
    return re.sub(r"in \d+\.\d\d s;", "in 0.00 s;", text)


@pytest.fixture(scope="module")
def everything() -> Report:
    return report_of(*PROGRAMS)


@pytest.fixture
def seed() -> Report:
    return report_of("corpus/seed_two_conds/1.5.1.pte")


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TOLD)
def test_full_text(case: str) -> None:
    assert told(case) == (EXPECTED / f"{case}.txt").read_text()


def test_concise_text() -> None:
    assert told("one_branch", "concise") == (EXPECTED / "one_branch.concise.txt").read_text()


def test_proved_is_never_said_without_its_assumptions(everything: Report) -> None:
    lines = render("full", everything, Options()).splitlines()
    said = {line.partition(": proved")[0]: line for line in lines if ": proved" in line}
    for program in everything.programs:
        for method in program.methods:
            line = said.get(f"{program.path}: {method.name}")
            assert (line is not None) == (method.verdict == "proved")
            if line is not None and method.assumptions:
                assert f": proved assuming {method.assumptions[0]}" in line
            elif line is not None:
                assert ": proved (" in line


def test_color_adds_nothing_but_escapes(everything: Report) -> None:
    plain = render("full", everything, Options(color=False, width=110))
    colored = render("full", everything, Options(color=True, width=110))
    assert "\x1b[" not in plain
    assert "\x1b[1;31merror[HZ101]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_quiet_leaves_only_findings() -> None:
    assert render("full", report_of("corpus/f33b_clone_workaround/1.5.1.pte"), Options(quiet=True)) == ""
    text = render("full", report_of("corpus/seed_two_conds/1.5.1.pte"), Options(quiet=True, color=False))
    assert text.startswith("error[HZ101]")
    assert "checked" not in text


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_remarks_keep_to_the_width(seed: Report, width: int) -> None:
    lines = render("full", seed, Options(color=False, width=width, quiet=True)).splitlines()
    # The first line of a finding is its message, which stays on one line for those who search for it.
    assert all(len(line) <= max(60, width) for line in lines if not line.startswith(("error[", "  --> ")))


def test_unknown_is_said_with_its_reason() -> None:
    text = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+0
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  mine::scale.out(%0, %1, %1)
    1  mine::twist.out(%2, %3, %3)
    2  aten::cos.out(%0, %1, %1)
"""
    report = hazard.check(text.encode(), name="mystery.hir")
    (method,) = report.programs[0].methods
    assert method.verdict == "unknown"
    shown = render("full", report, Options())
    for reason in method.reasons:
        assert f"mystery.hir: forward: unknown: {reason}" in shown
    assert "1 method not fully decided" in shown
    assert "proved (" not in shown


def test_names_cannot_control_the_terminal(seed: Report) -> None:
    evil = "\x1b]0;owned\x07\n::error::"
    (program,) = seed.programs
    finding = dataclasses.replace(
        program.findings[0],
        message=f"a{evil}",
        help=f"b{evil}",
        notes=(f"c{evil}",),
        use=dataclasses.replace(program.findings[0].use, name=evil, operator=evil),  # type: ignore[type-var]
    )
    bad = Report([dataclasses.replace(program, path=f"d{evil}", findings=[finding])])
    for form in ("full", "concise", "github", "markdown", "junit"):
        shown = render(form, bad, Options(errors=(f"e{evil}",)))
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert not any(line.startswith("::error::") for line in shown.splitlines())
    assert clean(evil) == "\\u{1b}]0;owned\\u{7}\\u{a}::error::"


def many_notes() -> Report:
    report = report_of("corpus/d09_uninit_state/1.5.1.pte", "corpus/seed_two_conds/1.5.1.pte")
    first, second = report.programs
    (note,) = first.findings
    first.findings[:] = [note] * 30
    second.findings[:] = worst_first([note, *second.findings, note])
    return report


def test_notes_do_not_bury_errors() -> None:
    report = many_notes()
    text = render("full", report, Options(width=110, hint="-v tells notes in full"))
    assert "32 notes\n" in render("full", report)
    assert [line[:12] for line in text.splitlines() if re.match(r"(error|note)\[", line)] == [
        "note[HZ202]:", "error[HZ101]", "error[HZ101]", "note[HZ202]:",
    ]  # fmt: skip
    assert "--> corpus/d09_uninit_state/1.5.1.pte: forward[2]; 29 more of this rule\n" in text
    assert "2 errors, 32 notes (-v tells notes in full)" in text
    concise = render("concise", report, Options())
    assert concise.count("note[HZ202]") == 2
    assert "; 29 more of this rule\n" in concise
    github = render("github", report, Options()).splitlines()
    assert [line.split()[0] for line in github] == ["::error", "::error", "::notice", "::notice"]
    assert github[2].endswith("%0A29 more of this rule in this program")
    markdown = render("markdown", report, Options())
    assert [line[:8] for line in markdown.splitlines() if line.startswith("## ")] == ["## error"] * 2 + ["## note "] * 2


@pytest.mark.parametrize("options", [Options(verbose=True, hint="-v"), Options(fail_on="note", hint="-v")])
def test_notes_that_matter_are_told_in_full(options: Options) -> None:
    report = many_notes()
    text = render("full", report, options)
    assert text.count("note[HZ202]") == 32
    assert text.count("the read of `%0` sees arena 1") == 32
    assert "(-v)" not in text
    assert render("concise", report, options).count("note[HZ202]") == 32


def test_reports_for_programs_hold_every_note() -> None:
    report = many_notes()
    assert len(json.loads(render("json", report))["findings"]) == 34
    assert len(json.loads(render("sarif", report))["runs"][0]["results"]) == 34


# --- stories ----------------------------------------------------------------------------------------------------------


def executed(method: Method, witness: Witness) -> set[tuple[int, int, int]]:
    """(call, chain, instruction) of everything on the path of a witness."""
    found = set()
    decisions = list(witness.decisions)
    # Calls before the first decision may go any way.
    for call in range(decisions[0].call, witness.calls + 1):
        for c, chain in enumerate(method.chains):
            i = 0
            while i < len(chain):
                found.add((call, c, i))
                step = chain[i]
                i += 1
                if not isinstance(step, JumpFalse):
                    continue
                value = method.values[step.condition]
                if decisions and (decisions[0].call, decisions[0].instruction) == (call, i - 1):
                    held = decisions.pop(0).held
                elif step.target < i:
                    held = True  # a loop whose trip count is fixed: that it ends is enough here
                elif isinstance(value, Scalar) and isinstance(value.value, bool):
                    held = value.value
                else:
                    return found  # the reading instruction comes before this jump
                if not held:
                    i = step.target
    return found


def test_a_story_happens_on_its_path(everything: Report) -> None:
    told = 0
    for program in everything.programs:
        for finding in program.findings:
            if finding.witness is None or not finding.witness.decisions:
                continue
            path = executed(program.program.method(finding.method), finding.witness)
            for place in (finding.define, finding.clobber, finding.use):
                if place is None or place.instruction is None or place.call is None or place.method is not None:
                    continue
                if place.call < finding.witness.decisions[0].call:
                    continue
                assert (place.call, place.chain, place.instruction) in path, (program.path, finding.message, place)
                told += 1
    assert told > 100


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_json_fits_its_schema(everything: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    shown = json.loads(render("json", everything, Options(errors=("x: cannot be read",))))
    jsonschema.validate(shown, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert len(shown["programs"]) == len(PROGRAMS)
    assert shown["stats"]["reads"]["total"] == sum(
        shown["stats"]["reads"][k] for k in ("proved", "assumed", "unknown", "hazard")
    )
    assert shown["stats"]["findings"] == {
        s: sum(f["severity"] == s for f in shown["findings"]) for s in ("error", "warning", "note")
    }


def test_the_schema_refuses_what_is_missing(seed: Report) -> None:
    shown = json.loads(render("json", seed))
    for key in SCHEMA["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in shown.items() if k != key}, SCHEMA)
    finding = SCHEMA["$defs"]["finding"]
    for key in finding["required"]:
        broken = json.loads(json.dumps(shown))
        del broken["findings"][0][key]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_json_tells_the_seed_program(seed: Report) -> None:
    shown = json.loads(render("json", seed))
    first, second = shown["findings"]
    assert {f["code"] for f in (first, second)} == {"HZ101"}
    assert first["use"]["operator"] == "aten::copy_"
    assert (second["use"]["operator"], second["use"]["instruction"]) == ("output", None)
    for finding in (first, second):
        # The slot of the first cond's result, and the instructions that overwrite it ([12] with a copy of itself).
        assert finding["use"]["value"] == 9
        writers = {p["instruction"] for p in finding["all_clobbers"]}
        assert {16, 20} <= writers <= {12, 16, 20}
        assert finding["clobber"]["instruction"] in writers
        assert finding["witness"]["decisions"]
    assert first["fingerprint"] != second["fingerprint"]


def test_json_lines_hold_the_same(everything: Report) -> None:
    whole = json.loads(render("json", everything))
    lines = [json.loads(line) for line in render("jsonl", everything).splitlines()]

    def of(kind: str) -> list[Any]:
        return [{k: v for k, v in x.items() if k not in ("type", "schema_version")} for x in lines if x["type"] == kind]

    assert of("program") == whole["programs"]
    assert of("finding") == whole["findings"]
    assert of("stats") == [whole["stats"]]


# --- SARIF ------------------------------------------------------------------------------------------------------------


def test_sarif_has_what_github_requires(everything: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(GITHUB_SCHEMA)
    log = json.loads(render("sarif", everything, Options(errors=("x: cannot be read",))))
    jsonschema.validate(log, GITHUB_SCHEMA, cls=jsonschema.Draft202012Validator)
    (run,) = log["runs"]
    assert [r["id"] for r in run["tool"]["driver"]["rules"]] == [r.code for r in all_rules()]
    assert len(run["results"]) == len(everything.findings)
    for result in run["results"]:
        rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_sarif_tells_the_triple(seed: Report) -> None:
    (run,) = json.loads(render("sarif", seed))["runs"]
    result = run["results"][0]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["executionOrder"] for s in steps] == [1, 2, 3]
    (name,) = {s["location"]["physicalLocation"]["artifactLocation"]["uri"] for s in steps}
    assert name == "corpus/seed_two_conds/1.5.1.pte"
    assert steps[2]["location"]["logicalLocations"][0]["fullyQualifiedName"] == "forward/22/aten::copy_"
    assert [r["id"] for r in result["relatedLocations"]] == [1, 2]


def test_sarif_points_at_the_source_line_where_it_is_known(
    seed: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hazard.program import Origin

    (tmp_path / "net.py").write_text("import torch\n\n    y = torch.cond(p, f, g)\n")
    monkeypatch.chdir(tmp_path)
    (program,) = seed.programs
    found = program.findings[0]
    assert found.clobber is not None
    origin = Origin(file=str(tmp_path / "net.py"), line=3)
    moved = dataclasses.replace(found, clobber=dataclasses.replace(found.clobber, origin=origin))
    report = Report([dataclasses.replace(program, findings=[moved])])
    (run,) = json.loads(render("sarif", report))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "net.py"
    assert place["region"] == {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 28}
    assert render("github", report).startswith("::error file=net.py,line=3,endLine=3,title=hazard HZ101")
    # A file outside of the working folder is none that GitHub could open.
    monkeypatch.chdir(tmp_path.parent)
    (tmp_path / "net.py").unlink()
    (run,) = json.loads(render("sarif", report))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "corpus/seed_two_conds/1.5.1.pte"


# --- GitHub, JUnit, Markdown ------------------------------------------------------------------------------------------


def test_github_annotations_are_limited_and_counted(everything: Report) -> None:
    lines = render("github", everything).splitlines()
    errors = [f for f in everything.findings if f.severity == "error"]
    assert len(errors) > 10
    shown = [line for line in lines if line.startswith("::error ")]
    assert len(shown) == 10
    assert all(re.match(r"::error file=[^,:]+(,line=\d+,endLine=\d+)?,title=hazard HZ\d+ [a-z-]+::", s) for s in shown)
    assert lines[-1].startswith("::notice title=hazard::")
    notes = len({(p.path, f.code) for p in everything.programs for f in p.findings if f.severity == "note"})
    notices = [line for line in lines if line.startswith("::notice ")]
    assert len(notices) == min(10, notes + 1)
    assert re.search(r"::\d+ more not shown as annotations$", lines[-1])


def test_github_escapes_data_and_properties(seed: Report) -> None:
    (program,) = seed.programs
    report = Report([dataclasses.replace(program, path="a,b:c%d.pte")])
    first = render("github", report).splitlines()[0]
    assert first.startswith("::error file=a%2Cb%3Ac%25d.pte,title=")
    assert "::a,b:c%25d.pte: forward[" in first
    assert "%0A" in first


def test_junit_counts_and_tells(everything: Report) -> None:
    text = render("junit", everything, Options(errors=("gone.pte: cannot be read: No such file",)))
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    suites = list(root)
    assert all(s.tag == "testsuite" for s in suites)
    methods = sum(len(p.methods) for p in everything.programs)
    assert int(root.get("tests", "")) == methods + 1
    assert int(root.get("errors", "")) == 1
    failed = {(p.path, f.method) for p in everything.programs for f in p.findings if f.severity == "error"}
    told = {(c.get("classname"), c.get("name")) for c in root.iter("testcase") if c.find("failure") is not None}
    assert told == failed
    assert int(root.get("failures", "")) == len(failed)
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == sum(c.find("failure") is not None for c in cases)
        # The order that the schema of the Jenkins plugin asks for.
        for case in cases:
            tags = [child.tag for child in case]
            assert tags == sorted(tags, key=["skipped", "error", "failure", "system-out"].index)


def test_junit_obeys_the_gate() -> None:
    noted = report_of("corpus/d09_uninit_state/1.5.1.pte")
    assumed = report_of("corpus/f33b_clone_workaround/1.5.1.pte")

    def failures(report: Report, **gate: Any) -> int:
        return int(ElementTree.fromstring(render("junit", report, Options(**gate))).get("failures", ""))

    assert failures(noted) == 0
    assert failures(noted, fail_on="note") == 1
    assert failures(assumed) == 0
    assert failures(assumed, fail_on_assumption=True) == 1
    assert failures(report_of("corpus/seed_two_conds/1.5.1.pte"), fail_on="never") == 0


def test_markdown_is_a_table_and_the_findings(seed: Report) -> None:
    text = render("markdown", seed)
    assert "| `corpus/seed_two_conds/1.5.1.pte` | `forward` | **hazard** | 17 | 2 |" in text
    assert text.count("\n```text\n") == 2
    assert text.count("```") == 4


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_renders_nothing_checked(form: str) -> None:
    text = render(form, Report(), Options(errors=("a: b",)))
    assert text.endswith("\n")


if __name__ == "__main__":
    for case in TOLD:
        (EXPECTED / f"{case}.txt").write_text(told(case))
    (EXPECTED / "one_branch.concise.txt").write_text(told("one_branch", "concise"))
