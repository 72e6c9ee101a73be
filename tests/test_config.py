"""Settings and suppressions: what is read, what is refused, and what it changes."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path

import pytest

import hazard
from hazard.api import Report
from hazard.cli import main
from hazard.config import Settings, Suppress, find_settings, is_empty_reason, read_settings
from hazard.program import InputError, Origin
from hazard.suppressions import apply_settings

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
REASON = "the caller copies the result"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed.pte").write_bytes(SEED.read_bytes())
    return tmp_path


def check(*arguments: str) -> int:
    return main(["check", "seed.pte", *arguments])


# --- reading ----------------------------------------------------------------------------------------------------------


def test_every_key_is_read(folder: Path) -> None:
    (folder / "effects.toml").write_text('[operators."a::b.out"]\nwrites = [-1]\n')
    (folder / "hazard.toml").write_text(
        f"""
        select = ["ALL"]
        ignore = "HZ504"
        fail-on = "warning"
        fail-on-unknown = true
        fail-on-assumption = false
        host = ["module"]
        load = "eager"
        feedback = true
        borrowed = false
        concurrent = true
        restaged = false
        effects = "effects.toml"
        baseline = "known.json"

        [severity]
        clobbered-value = "note"

        [[suppress]]
        rule = "clobbered-branch-result"
        file = "exported/*.pte"
        method = "forward"
        value = "cache"
        reason = "{REASON}"
        until = 2100-01-31
        """
    )
    read = find_settings()
    assert dataclasses.asdict(dataclasses.replace(read, effects={})) == dataclasses.asdict(
        Settings(
            path=str(folder / "hazard.toml"),
            select=("ALL",),
            ignore=("HZ504",),
            fail_on="warning",
            fail_on_unknown=True,
            fail_on_assumption=False,
            host=("module",),
            load="eager",
            feedback=True,
            borrowed=False,
            concurrent=True,
            restaged=False,
            baseline=str(folder / "known.json"),
            severity={"HZ103": "note"},
            suppress=(
                Suppress(
                    "HZ101", REASON, str(folder), "exported/*.pte", "forward", "cache", datetime.date(2100, 1, 31)
                ),
            ),
        )
    )
    assert list(read.effects) == ["a::b.out"]


def test_the_nearest_file_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text("[tool.hazard]\nfail-on = 'note'\n")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (folder / "a" / "pyproject.toml").write_text("[project]\nname = 'hazard-free'\n[tool.ruff]\n")
    monkeypatch.chdir(inner)
    assert find_settings().fail_on == "note"
    assert find_settings().path == str(folder / "pyproject.toml")
    (folder / "a" / "hazard.toml").write_text("fail-on = 'warning'\n")
    assert find_settings().fail_on == "warning"
    assert find_settings(str(folder)).fail_on == "note"


@pytest.mark.parametrize("text", ["[tool.hazard]", "[tool]\nhazard = {}", "tool.hazard = {}", "[tool . hazard]"])
def test_all_ways_of_writing_the_table_are_seen(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert find_settings().path == str(folder / "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fail_on = 'error'", "unknown key `fail_on`; did you mean `fail-on`?"),
        ("selct = []", "unknown key `selct`; did you mean `select`?"),
        ("zzz = 1", "unknown key `zzz`; known are select"),
        ("fail-on = 'always'", "`fail-on` must be one of error, warning, note, never"),
        ("[tool.hazard]\nselect = []", "the keys stand at the top of this file"),
        ("select = ['HZ1o1']", "hazard.toml: unknown rule `HZ1o1`; did you mean `HZ101`?"),
        ("ignore = ['HZ1o1']", "hazard.toml: unknown rule `HZ1o1`"),
        ("host = ['phone']", "hazard.toml: unknown host `phone`"),
        ("load = 'maybe'", "`load` must be one of eager, lazy"),
        ("select = 3", "`select` must be a list of texts"),
        ("ignore = [1]", "`ignore` must be a list of texts"),
        ("feedback = 'yes'", "`feedback` must be true or false"),
        ("baseline = 1", "`baseline` must be a path"),
        ("effects = 1", "`effects` must be a path"),
        ("effects = 'gone.toml'", "gone.toml: cannot be read"),
        ("severity = 1", "`severity` must be a table"),
        ("[severity]\nHZ999 = 'note'", "unknown rule `HZ999`"),
        ("[severity]\nHZ1 = 'note'", "`HZ1` names several rules"),
        ("[severity]\nHZ101 = 'bad'", "`severity.HZ101` must be one of error, warning, note"),
        ("suppress = 1", "`suppress` must be a list of tables"),
        ("[[suppress]]\nrule = 'HZ101'", "suppress, entry 1: `reason` is missing"),
        ("[[suppress]]\nreason = 'x y'", "suppress, entry 1: `rule` is missing"),
        ("[[suppress]]\nrule = 'HZ101'\nreason = 'by design.'", "the reason `by design.` says nothing"),
        ("[[suppress]]\nrule = 'HZ101'\nreason = 'x y'\npath = 'x'", "suppress, entry 1: unknown key `path`"),
        ("[[suppress]]\nrule = 'HZ101'\nreason = 'x y'\nuntil = 'soon'", "`until` must be a day"),
        ("[[suppress]]\nrule = 'HZ101'\nreason = 'x y'\nfile = 1", "`file` must be a text"),
        ("select = [", "not TOML"),
    ],
)
def test_faults_are_named(folder: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hazard.toml").write_text(text)
    assert check() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
    assert check("--isolated") == 1
    assert check("--isolated", "--config", "hazard.toml") == 2


def test_a_named_file_must_hold_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert check("--config", "pyproject.toml") == 2
    assert "pyproject.toml: [tool.hazard] is missing" in capsys.readouterr().err
    assert check("--config", "gone.toml") == 2


# --- what it changes --------------------------------------------------------------------------------------------------


def test_the_command_line_comes_first(folder: Path) -> None:
    settings = folder / "hazard.toml"
    settings.write_text("fail-on = 'never'\n")
    assert check() == 0
    assert check("--fail-on", "error") == 1
    settings.write_text("ignore = ['HZ101']\n")
    assert check() == 0
    assert check("--ignore", "HZ504") == 1
    settings.write_text("select = ['HZ2']\n")
    assert check() == 0
    assert check("--select", "HZ101") == 1


def test_severity_of_a_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hazard.toml").write_text("[severity]\nclobbered-branch-result = 'note'\n")
    assert check("--output-format", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [f["severity"] for f in shown["findings"]] == ["note", "note"]
    # What is known of the program does not change by calling it less.
    assert shown["verdict"] == "hazard"
    assert check("--fail-on", "note") == 1


def entry(rest: str = "") -> str:
    return f"[[suppress]]\nrule = 'HZ101'\nreason = '{REASON}'\n{rest}\n"


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ("", 0),
        ("file = 'seed.pte'", 0),
        ("file = '*.pte'", 0),
        ("file = 'other/*.pte'", 1),
        ("method = 'forward'", 0),
        ("method = 'backward'", 1),
        ("value = '%9'", 0),
        ("value = '%1'", 1),
        ("until = 2100-01-01", 0),
        ("until = 2020-01-01", 1),
    ],
)
def test_suppressions_by_settings(folder: Path, rest: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hazard.toml").write_text(entry(rest))
    assert check("--output-format", "json") == code
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["findings"]) == (2 if code else 0)
    assert shown["verdict"] == "hazard"
    assert [(s["kind"], s["reason"]) for s in shown["suppressed"]] == ([] if code else [("config", REASON)] * 2)
    assert bool(shown["warnings"]) is bool(code)


def test_what_is_not_needed_or_has_ended_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hazard.toml").write_text(entry() + entry("until = 2020-01-01") + entry().replace("HZ101", "HZ201"))
    assert check("--output-format", "concise") == 0
    out = capsys.readouterr().out
    assert "warning: " in out
    assert "the suppression HZ201 is not needed" in out
    assert "2 suppressed" in out
    (folder / "hazard.toml").write_text(entry("until = 2020-01-01"))
    assert check("--output-format", "concise") == 1
    assert "the suppression HZ101 has ended on 2020-01-01" in capsys.readouterr().out


def test_suppressed_findings_stay_in_sarif(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hazard.toml").write_text(entry())
    assert check("--output-format", "sarif") == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [r["suppressions"] for r in run["results"]] == [
        [{"kind": "external", "status": "accepted", "justification": REASON}]
    ] * 2


def commented(folder: Path, line: str) -> tuple[Report, list[str]]:
    """The seed's findings as they come from a graph: the overwriting instruction has a source line."""
    source = folder / f"net{len(list(folder.iterdir()))}.py"
    source.write_text(f"import torch\n{line}\n")
    report = hazard.check(SEED)
    (program,) = report.programs
    origin = Origin(file=str(source), line=2)
    program.findings[:] = [
        dataclasses.replace(f, clobber=dataclasses.replace(f.clobber, origin=origin))  # type: ignore[type-var]
        for f in program.findings
    ]
    return report, apply_settings(report, Settings())


@pytest.mark.parametrize("rule", ["HZ101", "hz101", "clobbered-branch-result", "HZ103, HZ101"])
def test_suppressions_in_the_source(folder: Path, rule: str) -> None:
    report, warnings = commented(folder, f"y = f(x)  # hazard: ignore[{rule}] -- {REASON}")
    assert (report.findings, warnings) == ([], [])
    assert [(s.kind, s.reason) for s in report.programs[0].suppressed] == [("source", REASON)] * 2
    assert report.passed()
    assert report.verdict == "hazard"


@pytest.mark.parametrize("comment", ["ignore[HZ101]", "ignore[HZ101] --", "ignore[HZ101] -- TODO"])
def test_a_comment_without_a_reason_suppresses_nothing(folder: Path, comment: str) -> None:
    report, warnings = commented(folder, f"y = f(x)  # hazard: {comment}")
    assert len(report.findings) == 2
    (warning,) = warnings
    assert ":2: a suppression needs a reason" in warning


@pytest.mark.parametrize("comment", ["ignore[HZ102] -- x y", "ignore -- x y", "HZ101 -- x y", "ignore[] -- x y"])
def test_other_comments_suppress_nothing(folder: Path, comment: str) -> None:
    report, warnings = commented(folder, f"y = f(x)  # hazard: {comment}")
    assert (len(report.findings), warnings) == (2, [])


def test_empty_reasons() -> None:
    assert all(is_empty_reason(text) for text in ("", "  ", "TODO", "todo.", "By design", "n/a", "-", "intended!"))
    assert not any(is_empty_reason(text) for text in (REASON, "todo: see issue 12", "copied before the second call"))


def test_settings_without_a_table_have_no_path(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_settings(str(folder / "pyproject.toml")) == Settings()
    (folder / "pyproject.toml").write_text("[tool]\nhazard = 3\n")
    with pytest.raises(InputError, match="expected a table"):
        read_settings(str(folder / "pyproject.toml"))
