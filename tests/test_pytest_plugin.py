"""The pytest plugin, run in small projects of its own; executorch is a stub there but for one test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
PROVED = ROOT / "corpus" / "c05_nested_true" / "1.5.1.pte"

pytest_plugins = ["pytester"]

STUB = f"""
from pathlib import Path

class Manager:
    def __init__(self, buffer):
        self.buffer = buffer

    def exported_program(self, name):
        raise NotImplementedError

class EdgeProgramManager:
    def __init__(self, path):
        self.path = path

    def to_executorch(self, config=None):
        return Manager(Path(self.path).read_bytes() if self.path else b"nonsense")

SEED, PROVED = {str(SEED)!r}, {str(PROVED)!r}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose tests find a stub of executorch."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    folder = pytester.mkpydir("executorch")
    for name in ("exir", "program"):
        folder = folder / name
        folder.mkdir()
        (folder / "__init__.py").touch()
    (folder / "_program.py").write_text(STUB)
    monkeypatch.syspath_prepend(str(pytester.path))
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    return pytester


PRODUCERS = """
    import unittest
    import pytest

    def make(path):
        from executorch.exir.program import _program
        return _program.EdgeProgramManager(getattr(_program, path) if path else "").to_executorch()

    def test_clean():
        assert make("PROVED").buffer

    def test_hazard():
        make("SEED")

    def test_two():
        make("PROVED")
        make("SEED")

    @pytest.mark.xfail(strict=True)
    def test_expected():
        make("SEED")

    @pytest.fixture
    def program():
        return make("SEED")

    def test_by_fixture(program):
        pass

    def test_fails_by_itself():
        make("SEED")
        assert False, "mine"

    class TestOld(unittest.TestCase):
        def test_hazard(self):
            make("SEED")

        def test_fails_by_itself(self):
            make("SEED")
            self.fail("mine")

    @pytest.mark.hazard(ignore="HZ101", reason="the caller copies the result")
    def test_accepted():
        make("SEED")

    @pytest.mark.hazard(fail_on="never")
    def test_only_told():
        make("SEED")

    def test_no_program():
        pass

    def test_unusable():
        make("")
"""


def run(project: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    """A run in a process of its own, which finds the stub even where this one has loaded executorch."""
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def run_here(project: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


@pytest.mark.parametrize("workers", [["-p", "no:xdist"], ["-n", "0"], ["-n", "2"]])
def test_programs_of_tests_are_checked(project: pytest.Pytester, workers: list[str]) -> None:
    project.makepyfile(test_it=PRODUCERS)
    result = run(project, "--hazard", "-rA", *workers)
    result.assert_outcomes(passed=5, failed=6, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    output = result.stdout.str()
    for name in ("test_hazard", "test_two", "test_by_fixture", "TestOld::test_hazard"):
        assert f"FAILED test_it.py::{name} - Failed: error[HZ101]" in output
    # Their own failures stay what they are, and the programs are told beside them.
    assert "FAILED test_it.py::test_fails_by_itself - AssertionError: mine" in output
    assert "FAILED test_it.py::TestOld::test_fails_by_itself - AssertionError: mine" in output
    assert "Captured hazard call" in output or " hazard call " in output
    assert "-> <test_it.py::test_two program 2>: forward[" in output
    assert "in make" not in output  # the finding, not a traceback
    assert "<test_it.py::test_accepted program 1>: hazard (2 accepted)" in output.splitlines()
    assert output.count("checked 12 programs: 2 proved, 9 hazard, 1 unchecked") == 1
    assert "<test_it.py::test_unusable program 1>: not checked: InputError: " in output


def test_without_the_option_nothing_is_watched(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=PRODUCERS)
    result = run(project)
    result.assert_outcomes(passed=9, failed=3)  # of the failures one is a strict xfail that passes
    assert "HZ101" not in result.stdout.str()
    assert "checked" not in result.stdout.str()


def test_a_program_made_while_collecting_fails_the_first_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        from executorch.exir.program import _program
        PROGRAM = _program.EdgeProgramManager(_program.SEED).to_executorch()

        def test_first(): pass
        def test_second(): pass
        """
    )
    result = run(project, "--hazard")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*<collection program 1>: forward*"])


def test_a_program_made_in_teardown_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        import pytest
        from executorch.exir.program import _program

        @pytest.fixture
        def late():
            yield
            _program.EdgeProgramManager(_program.SEED).to_executorch()

        def test_it(late): pass
        """
    )
    run(project, "--hazard").assert_outcomes(passed=1, errors=1)


def test_the_class_is_left_as_it_was(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        def test_inner(pytester):
            from executorch.exir.program import _program
            before = _program.EdgeProgramManager.to_executorch
            pytester.makepyfile("def test_nothing(): pass")
            pytester.runpytest_inprocess("--hazard").assert_outcomes(passed=1)
            assert _program.EdgeProgramManager.to_executorch is before
            assert not any(type(f).__module__ == "hazard.pytest_plugin" for f in __import__("sys").meta_path)
        """
    )
    run(project, "-p", "pytester").assert_outcomes(passed=1)


FIXTURES = f"""
    import hazard
    import pytest
    SEED, PROVED = {str(SEED)!r}, {str(PROVED)!r}

    def test_clean(hazard_check):
        assert hazard_check(PROVED).ok

    def test_hazard(hazard_check):
        hazard_check(SEED)

    def test_looks_itself(hazard_check):
        report = hazard_check(SEED, fail_on="never")
        assert [f.code for f in report.findings] == ["HZ101", "HZ101"]

    def test_selected(hazard_check):
        hazard_check(SEED, select=["HZ2"])

    def test_bytes(hazard_check):
        hazard_check(open(SEED, "rb").read())

    def test_function():
        hazard.assert_no_hazards(SEED)

    @pytest.mark.hazard(select="HZ201")
    def test_marked(hazard_check):
        hazard_check(SEED)
"""


def test_fixture_and_function(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIXTURES)
    result = run_here(project, "--junitxml=junit.xml")
    result.assert_outcomes(passed=4, failed=3)
    output = result.stdout.str()
    for name in ("test_hazard", "test_bytes"):
        assert f"FAILED test_it.py::{name} - Failed: error[HZ101]" in output
    assert "FAILED test_it.py::test_function - error[HZ101]" in output
    assert "hazard_check(SEED)" not in output  # no source line of a traceback
    assert "HazardError" not in output
    root = ElementTree.parse(project.path / "junit.xml").getroot()
    results = [json.loads(p.get("value", "")) for p in root.iter("property") if p.get("name") == "hazard"]
    told = {result["test"].partition("::")[2]: result for result in results}
    assert told["test_clean"]["verdict"] == "proved"
    assert [f["code"] for f in told["test_hazard"]["findings"]] == ["HZ101", "HZ101"]
    assert "test_function" not in told
    failure = next(root.iter("failure"))
    assert (failure.text or "").startswith("error[HZ101]")


NOTED = ROOT / "corpus" / "d09_uninit_state" / "1.5.1.pte"


def test_a_summary_tells_findings_that_are_alike_once(project: pytest.Pytester) -> None:
    output = run(project, SEED, NOTED).stdout.str()
    assert ": hazard: error[HZ101] the branch result `%9` is overwritten before it is read (and 1 more)\n" in output
    assert "checked 2 programs: 1 proved, 1 hazard; 1 note, shown with -v\n" in output
    assert "HZ202" not in output
    for option in ("-v", "--hazard-fail-on=note"):
        output = run(project, SEED, NOTED, option).stdout.str()
        assert "note[HZ202] the state `%0` is read before anything has written it" in output
        assert "shown with -v" not in output


NOISY = f"""
    import logging
    import pytest

    def test_program(hazard_check):
        logging.getLogger("torch").warning("a long log")
        print("a long print")
        hazard_check({str(SEED)!r})

    def test_other():
        logging.getLogger("torch").warning("a log of its own")
        assert False
"""


def test_what_was_captured_does_not_bury_a_finding(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=NOISY)
    output = run(project).stdout.str()
    assert "error[HZ101]" in output
    assert "a long log" not in output
    assert "a long print" not in output
    assert "a log of its own" in output
    asked = run(project, "--show-capture=all").stdout.str()
    assert "a long log" in asked
    assert "a long print" in asked


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("'HZ101'", "takes keywords only"),
        ("select='HZ1', until='never'", "has no `until`"),
        ("ignore=['HZ101']", "only for a reason"),
        ("ignore=['HZ101'], reason='TODO'", "only for a reason"),
    ],
)
def test_faulty_markers_are_errors(project: pytest.Pytester, marker: str, said: str) -> None:
    project.makepyfile(test_it=f"import pytest\n@pytest.mark.hazard({marker})\ndef test_it(): pass")
    result = run_here(project)
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()


def test_files_are_tests(project: pytest.Pytester) -> None:
    folder = project.mkdir("exported")
    (folder / "seed.pte").write_bytes(SEED.read_bytes())
    (folder / "fine.pte").write_bytes(PROVED.read_bytes())
    (folder / "cut.pte").write_bytes(SEED.read_bytes()[:300])
    (folder / "test_py.py").write_text("def test_it(): pass")
    run_here(project, "exported").assert_outcomes(passed=1)
    result = run_here(project, "exported", "--hazard", "-rf")
    result.assert_outcomes(passed=2, failed=2)
    output = result.stdout.str()
    assert "FAILED exported/seed.pte::hazard - Failed: error[HZ101]" in output
    assert "exported/cut.pte: malformed program at byte" in output
    assert "  --> exported/seed.pte: forward[" in output
    run_here(project, "exported/seed.pte").assert_outcomes(failed=1)
    run_here(project, "exported", "exported/seed.pte").assert_outcomes(passed=1, failed=1)


def test_settings_come_from_ini_project_and_command_line(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIXTURES)
    project.makeini("[pytest]\nhazard = true\nhazard_fail_on = never\n")
    result = run_here(project)
    result.assert_outcomes(passed=6, failed=1)  # the function of the library knows nothing of pytest
    result.stdout.fnmatch_lines(["hazard: *, fail-on=never"])
    run_here(project, "--hazard-fail-on", "error").assert_outcomes(passed=4, failed=3)
    run_here(project, "--hazard-fail-on", "error", "--hazard-ignore", "HZ1").assert_outcomes(passed=5, failed=2)
    project.makeini("[pytest]\n")
    project.makepyprojecttoml("[tool.hazard]\nfail-on = 'never'\n")
    run_here(project).assert_outcomes(passed=6, failed=1)


def test_baseline_lets_known_findings_pass(project: pytest.Pytester) -> None:
    (project.path / "seed.pte").write_bytes(SEED.read_bytes())
    command = [sys.executable, "-m", "hazard", "baseline", "write", "seed.pte"]
    subprocess.run(command, check=True, cwd=project.path, capture_output=True)
    run_here(project, "seed.pte").assert_outcomes(failed=1)
    result = run_here(project, "seed.pte", "--hazard-baseline", "hazard-baseline.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["seed.pte: hazard (2 accepted)"])


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_baseline_of_what_tests_make(project: pytest.Pytester, parallel: tuple[str, ...]) -> None:
    project.makepyfile(test_it=PRODUCERS)
    (project.path / "seed.pte").write_bytes(SEED.read_bytes())
    chosen = ("-k", "test_hazard or test_two or seed.pte", "test_it.py", "seed.pte", "--hazard", *parallel)
    assert run(project, *chosen).parseoutcomes()["failed"] == 4
    written = run(project, *chosen, "--hazard-write-baseline=known.json")
    assert written.parseoutcomes().get("passed") == 4
    assert written.ret == pytest.ExitCode.OK
    entries = json.loads((project.path / "known.json").read_text())["findings"]
    assert [e["path"] for e in entries] == [
        name
        for test in ("TestOld::test_hazard program 1", "test_hazard program 1", "test_two program 2")
        for name in [f"<test_it.py::{test}>"] * 2
    ] + ["seed.pte"] * 2
    assert run(project, *chosen, "--hazard-baseline=known.json").ret == pytest.ExitCode.OK
    # Reasons that people have added stay.
    text = (project.path / "known.json").read_text()
    (project.path / "known.json").write_text(text.replace('"message"', '"reason": "a clone follows", "message"', 1))
    run(project, *chosen, "--hazard-write-baseline=known.json")
    assert (project.path / "known.json").read_text().count("a clone follows") == 1
    (project.path / "known.json").write_text("nonsense")
    spoilt = run(project, *chosen, "--hazard-write-baseline=known.json")
    assert spoilt.ret == pytest.ExitCode.USAGE_ERROR
    assert "known.json: not JSON" in spoilt.stderr.str()
    assert "INTERNALERROR" not in spoilt.stdout.str() + spoilt.stderr.str()


HEAVY = {"torch", "executorch", "numpy", "z3", "rich", "click", "hazard.api", "hazard.config", "hazard.rule"}


@pytest.mark.parametrize("arguments", [["--help"], ["--hazard", "test_it.py"], ["test_it.py"]])
def test_nothing_heavy_is_loaded_before_there_is_a_program(project: pytest.Pytester, arguments: list[str]) -> None:
    project.makepyfile(test_it="def test_it(): pass")
    script = f"import pytest, sys; pytest.main({arguments}); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=project.path)
    loaded = set(done.stderr.split())
    assert "hazard.pytest_plugin" in loaded
    # The header tells the threshold, which the settings may hold.
    allowed = {"hazard.config"} if "--hazard" in arguments else set()
    assert not loaded & (HEAVY - allowed)


def test_real_export_is_told_by_its_source_lines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import torch
        from executorch.exir import to_edge

        class Model(torch.nn.Module):
            def forward(self, x):
                a = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, [x])
                b = torch.cond(x.sum() > 0, lambda x: x * 10, lambda x: x * 20, [x])
                return a, b

        def test_two_conds():
            to_edge(torch.export.export(Model(), (torch.ones(2),))).to_executorch()
        """
    )
    result = pytester.runpytest_subprocess("--hazard")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "error?HZ101?: the branch result `cond` is overwritten before it is read",
            "* = source: defined at test_it.py:6 in forward: `a = torch.cond(*",
            "* = source: overwritten at test_it.py:7 in forward: `b = torch.cond(*",
            "checked 1 program: 0 proved, 1 hazard",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hazard-select=HZ1o1",), "hazard: unknown rule `HZ1o1`; did you mean `HZ101`?"),
        (("--hazard-baseline=gone.json",), "gone.json: there is no baseline yet"),
        (("-o", "hazard_fail_on=eror"), "hazard_fail_on is one of error, warning, note, never, not 'eror'"),
        ((), "hazard.toml: unknown key `fail-onn`; did you mean `fail-on`?"),
    ],
)
def test_settings_that_nothing_could_be_checked_with_are_usage_errors(
    project: pytest.Pytester, arguments: tuple[str, ...], said: str
) -> None:
    project.makepyfile(test_it=PRODUCERS)
    if not arguments:
        (project.path / "hazard.toml").write_text("fail-onn = 'error'\n")
    result = run(project, "--hazard", "-k", "test_clean", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
