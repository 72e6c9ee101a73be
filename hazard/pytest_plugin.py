"""The pytest plugin: programs that tests produce are checked, and so are ``.pte`` files given as tests.

PYTEST_DONT_REWRITE: there is no assertion here that pytest should explain.

This module is loaded whenever pytest starts, so it imports nothing but pytest; hazard's own modules are imported when
the first program is checked, and executorch is watched for, not imported.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from hazard.api import Report
    from hazard.config import Settings

#: The module whose class turns graphs into programs.
WATCHED: Final = "executorch.exir.program._program"
PROPERTY: Final = "hazard"
#: What an exception has that was raised because of a program.
_OURS: Final = "_hazard"
_MARKER_WORDS: Final = ("select", "ignore", "reason", "fail_on")
_FAIL_ON: Final = ("error", "warning", "note", "never")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hazard", "memory hazards of ExecuTorch programs")
    group.addoption(
        "--hazard", dest="hazard", action="store_true", default=None,
        help="check every program that tests make with to_executorch, and collect .pte files",
    )  # fmt: skip
    group.addoption("--no-hazard", dest="hazard", action="store_false", help="do not, whatever the ini file says")
    group.addoption("--hazard-fail-on", choices=_FAIL_ON, help="the least severity that fails a test (default: error)")
    group.addoption("--hazard-fail-on-unknown", action="store_true", default=None, help="fail on unknown verdicts, too")
    group.addoption("--hazard-select", action="append", metavar="RULE,...", help="only these rules")
    group.addoption("--hazard-ignore", action="append", metavar="RULE,...", help="all but these rules")
    group.addoption("--hazard-baseline", metavar="FILE", help="findings of this file do not fail a test")
    group.addoption(
        "--hazard-write-baseline", metavar="FILE", help="write all findings of this run to FILE; they fail no test"
    )
    parser.addini("hazard", "the same as --hazard", type="bool", default=False)
    parser.addini("hazard_fail_on", "the same as --hazard-fail-on", default="")
    parser.addini("hazard_fail_on_unknown", "the same as --hazard-fail-on-unknown", type="bool", default=False)
    parser.addini("hazard_select", "the same as --hazard-select", type="args", default=[])
    parser.addini("hazard_ignore", "the same as --hazard-ignore", type="args", default=[])
    parser.addini("hazard_baseline", "the same as --hazard-baseline", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "hazard(select, ignore, reason, fail_on): which rules count for the programs of this test, and why not all",
    )
    session = Session(config)
    config.stash[_SESSION] = session
    config.pluginmanager.register(session, "hazard-session")
    if session.active:
        session.validate()
        session.watch()


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.unwatch()


def pytest_report_header(config: pytest.Config) -> str | None:
    import hazard

    session = config.stash[_SESSION]
    return f"hazard: {hazard.__version__}, fail-on={session.fail_on(None)}" if session.active else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in (".pte", ".bpte"):
        return None
    config = parent.config
    # Arguments of which one contains the other are one to pytest; a file that was named is meant all the same.
    named = parent.session.isinitpath(file_path) or any(
        (config.invocation_params.dir / arg.partition("::")[0]).resolve() == file_path for arg in config.args
    )
    if named or config.stash[_SESSION].active:
        return ProgramFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def hazard_check(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """A function that checks a program and fails the test unless it passes; it returns the report.

    The program is a path, bytes, an ``ExecutorchProgramManager`` or anything else that `hazard.check` takes. Options
    are those of `hazard.check` and ``fail_on`` (error, warning, note, never), ``fail_on_unknown`` and
    ``fail_on_assumption``; with ``fail_on="never"`` the test looks at the report itself.
    """
    session: Session = request.config.stash[_SESSION]
    item = request.node

    def check(program: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        gate = {key: options.pop(key) for key in ("fail_on", "fail_on_unknown", "fail_on_assumption") if key in options}
        report = session.judge(item, program, options.pop("name", None) or session.label(item), **options)
        if not session.passed(report, item, **gate):
            refuse(session.text(report, item, **gate))
        return report

    return check


def refuse(text: str) -> NoReturn:
    """Fails a test because of its programs."""
    __tracebackhide__ = True
    failure = pytest.fail.Exception(text, pytrace=False)
    setattr(failure, _OURS, True)
    raise failure


class Session:
    """What the plugin knows during one run of pytest; it lives in the configuration's stash."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given = config.getoption("hazard")
        self.active: bool = config.getini("hazard") if given is None else given
        self.pending: list[tuple[str, Any]] = []  # (name, program) of the test that is running
        self.current: pytest.Item | None = None
        self.counts: dict[str, int] = {}
        self.results: list[dict[str, Any]] = []
        self._settings: Settings | None = None
        self._restore: Callable[[], None] | None = None
        self._finder: _Finder | None = None

    # --- options ------------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """Of ``[tool.hazard]``, for what neither the command line nor the ini file says."""
        if self._settings is None:
            from hazard.config import find_settings

            self._settings = find_settings(str(self.config.rootpath))
        return self._settings

    def fail_on(self, item: pytest.Item | None) -> str:
        if self.config.getoption("hazard_write_baseline"):
            return "never"
        marked = self.marked(item, "fail_on")
        chosen: str = (
            (marked[0] if marked else None)
            or self.config.getoption("hazard_fail_on")
            or self.config.getini("hazard_fail_on")
            or self.settings.fail_on
            or "error"
        )
        if chosen not in _FAIL_ON:
            raise pytest.UsageError(f"hazard_fail_on is one of {', '.join(_FAIL_ON)}, not {chosen!r}")
        return chosen

    def words(self, name: str) -> list[str] | None:
        given = self.config.getoption(f"hazard_{name}") or self.config.getini(f"hazard_{name}")
        words = [w.strip() for part in given for w in part.split(",") if w.strip()]
        return words or (list(getattr(self.settings, name) or ()) or None)

    def marked(self, item: pytest.Item | None, name: str) -> list[Any]:
        """What the markers of a test say, the closest first."""
        if item is None:
            return []
        return [m.kwargs[name] for m in item.iter_markers("hazard") if m.kwargs.get(name)]

    def validate(self) -> None:
        """Raises UsageError for settings that no program could be checked with: a misspelt rule must not turn every
        program into one that was not checked."""
        from hazard.program import InputError

        try:
            self.fail_on(None)
            select, ignore = self.words("select"), self.words("ignore")
            if select or ignore:
                from hazard.api import chosen_rules

                chosen_rules(select, ignore)
            if path := self.baseline():
                from hazard.baseline import read_baseline

                read_baseline(path)
        except InputError as e:
            raise pytest.UsageError(f"hazard: {e}") from None

    def baseline(self) -> str | None:
        """The path of the file of known findings."""
        if self.config.getoption("hazard_write_baseline"):
            return None
        given = self.config.getoption("hazard_baseline") or self.config.getini("hazard_baseline")
        path = given or self.settings.baseline
        return str(self.config.rootpath / path) if path else None

    # --- checking -----------------------------------------------------------------------------------------------------

    def label(self, item: pytest.Item | None) -> str:
        where = item.nodeid if item is not None else "collection"
        self.counts[where] = self.counts.get(where, 0) + 1
        return f"<{where} program {self.counts[where]}>"

    def judge(self, item: pytest.Item | None, program: Any, name: str, **options: Any) -> Report:
        """Checks a program and puts the result among the properties of the test. Raises hazard.InputError."""
        from hazard.api import check, chosen_rules
        from hazard.suppressions import apply_settings, suppress

        settings = self.settings
        selected = self.marked(item, "select")
        chosen: dict[str, Any] = {
            "select": _listed(selected[0]) if selected else self.words("select"),
            "ignore": self.words("ignore"),
            "effects": settings.effects or None,
            "host": settings.host,
        }
        for key in ("load", "feedback", "borrowed", "concurrent", "restaged"):
            if getattr(settings, key) is not None:
                chosen[key] = getattr(settings, key)
        report = check(_checkable(program), name=name, **{**chosen, **options})
        apply_settings(report, settings)
        if item is not None:
            for mark in item.iter_markers("hazard"):
                if ignored := _listed(mark.kwargs.get("ignore")):
                    codes = [r.code for r in chosen_rules(ignored, None)]
                    for checked in report.programs:
                        suppress(checked, codes, "marker", mark.kwargs.get("reason"))
        if path := self.baseline():
            from hazard.baseline import apply_baseline, read_baseline

            apply_baseline(report, path, read_baseline(path))
        if item is not None:
            item.user_properties.append((PROPERTY, json.dumps(_summary(report))))
        return report

    def passed(self, report: Report, item: pytest.Item | None, **gate: Any) -> bool:
        """Whether the gate lets a report through."""
        unknown = (
            self.config.getoption("hazard_fail_on_unknown")
            or self.config.getini("hazard_fail_on_unknown")
            or self.settings.fail_on_unknown
        )
        assumption = self.settings.fail_on_assumption
        return report.passed(
            gate.get("fail_on") or self.fail_on(item),
            fail_on_unknown=bool(gate.get("fail_on_unknown", unknown)),
            fail_on_assumption=bool(gate.get("fail_on_assumption", assumption)),
        )

    def text(self, report: Report, item: pytest.Item, **gate: Any) -> str:
        from hazard.report import Options, render

        markup = self.config.get_terminal_writer().hasmarkup and not self.config.getoption("xmlpath", None)
        fail_on = gate.get("fail_on") or self.fail_on(item)
        verbose = self.config.option.verbose > 1
        hint = "-vv tells notes in full"
        return render("full", report, Options(color=markup, fail_on=fail_on, verbose=verbose, hint=hint))

    def settle(self, item: pytest.Item) -> str:
        """Checks all programs made since the last time; the text of those that do not pass, or nothing."""
        pending, self.pending = self.pending, []
        texts = []
        for name, program in pending:
            try:
                report = self.judge(item, program, name)
            except Exception as e:
                # A program that cannot be checked is no fault of the test.
                failure = {"program": name, "verdict": "unchecked", "error": f"{type(e).__name__}: {e}", "findings": []}
                item.user_properties.append((PROPERTY, json.dumps(failure)))
                continue
            if not self.passed(report, item):
                texts.append(self.text(report, item))
        return "\n".join(texts)

    # --- what tests produce -------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Has every ``EdgeProgramManager.to_executorch`` looked at, from now on or from when it is first imported."""
        module = sys.modules.get(WATCHED)
        if module is not None:
            self.patch(module)
        else:
            self._finder = _Finder(self.patch)
            sys.meta_path.insert(0, self._finder)

    def unwatch(self) -> None:
        if self._finder is not None and self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self._restore is not None:
            self._restore()
            self._restore = None

    def patch(self, module: Any) -> None:
        manager_class = module.EdgeProgramManager
        original = manager_class.to_executorch

        @functools.wraps(original)
        def watched(edge: Any, *args: Any, **kwargs: Any) -> Any:
            signatures = _signatures(edge)
            manager = original(edge, *args, **kwargs)
            self.pending.append((self.label(self.current), _program(manager, signatures)))
            return manager

        def restore() -> None:
            manager_class.to_executorch = original

        manager_class.to_executorch = watched
        self._restore = restore

    # --- hooks --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.current = item

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        _check_markers(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        if self.pending and (text := self.settle(item)):
            refuse(text)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        if self.pending and (text := self.settle(item)):
            refuse(text)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.excinfo is not None and self.pending and call.when != "setup":
            # The test has failed for a reason of its own; its programs are told beside it.
            if text := self.settle(item):
                item.add_report_section(call.when, "hazard", text)
        report = yield
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            if _is_hazard_error(error):
                report.longrepr = self.text(error.report, item)  # type: ignore[attr-defined]
            if (_is_hazard_error(error) or hasattr(error, _OURS)) and not self.wants_captured():
                report.sections = [s for s in report.sections if not s[0].startswith("Captured ")]
        if call.when == "teardown":
            self.current = None
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Of all reports of a test the last has all properties; with xdist they arrive from the workers in the same way.
        if report.when == "teardown":
            found = [json.loads(str(value)) for name, value in report.user_properties if name == PROPERTY]
            self.results.extend(found)
            if (junit := self.strict_junit()) is not None:
                for result in found:
                    junit.add_global_property(PROPERTY, json.dumps({"test": report.nodeid, **result}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        junit = self.strict_junit()
        if junit is None:
            return
        reporter_of = junit.node_reporter

        def node_reporter(report: Any) -> Any:
            reporter = reporter_of(report)
            if "add_property" not in vars(reporter):
                add = reporter.add_property
                reporter.add_property = lambda name, value: None if name == PROPERTY else add(name, value)
            return reporter

        junit.node_reporter = node_reporter

    def strict_junit(self) -> Any:
        """The writer of a JUnit report that is to fit the schema, which has properties for suites but not for tests."""
        for plugin in self.config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property") and hasattr(plugin, "node_reporter"):
                return plugin if getattr(plugin, "family", "") == "xunit2" else None
        return None

    def wants_captured(self) -> bool:
        """Whether the user asked for captured output. Else it is left out beside a finding: the log of an export is
        long and says nothing of it."""
        return any(str(arg).startswith("--show-capture") for arg in self.config.invocation_params.args)

    def pytest_sessionfinish(self) -> None:
        path = self.config.getoption("hazard_write_baseline")
        if not path or hasattr(self.config, "workerinput"):
            return
        from hazard.baseline import Entry, reasons_of, relative_to, write_baseline
        from hazard.program import InputError

        path = str(self.config.invocation_params.dir / path)
        entries = [
            Entry(relative_to(path, r["program"]), f["method"], f["code"], f["fingerprint"], f["message"])
            for r in self.results
            for f in r["findings"]
        ]
        try:
            write_baseline(path, reasons_of(path, entries))
        except InputError as e:
            pytest.exit(f"hazard: {e}", pytest.ExitCode.USAGE_ERROR)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.results or hasattr(self.config, "workerinput"):
            return
        terminalreporter.section("hazard")
        hidden = 0
        every = self.config.option.verbose > 0 or self.fail_on(None) == "note"
        for result in self.results:
            findings = [f for f in result["findings"] if every or f["severity"] != "note"]
            hidden += len(result["findings"]) - len(findings)
            if result["verdict"] == "unchecked":
                terminalreporter.line(f"{result['program']}: not checked: {result['error']}")
            elif result["verdict"] != "proved" or findings:
                told = _in_short(findings)
                known = f" ({result['suppressed']} accepted)" if result["suppressed"] else ""
                terminalreporter.line(f"{result['program']}: {result['verdict']}{known}{': ' if told else ''}{told}")
        notes = f"; {hidden} note{'s' if hidden > 1 else ''}, shown with -v" if hidden else ""
        terminalreporter.line(_totals(self.results) + notes)


_SESSION: Final = pytest.StashKey[Session]()


class _Finder:
    """Finds the watched module as Python does, and has it patched as soon as it has been loaded."""

    def __init__(self, patch: Callable[[Any], None]) -> None:
        self.patch = patch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self.patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class ProgramFile(pytest.File):
    """A file that holds a program."""

    def collect(self) -> Generator[pytest.Item, None, None]:
        yield ProgramItem.from_parent(self, name="hazard")


class ProgramItem(pytest.Item):
    """The check of one file."""

    def runtest(self) -> None:
        session = self.config.stash[_SESSION]
        path = self.path
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        report = session.judge(self, str(path), str(path))
        if not session.passed(report, self):
            refuse(session.text(report, self))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if type(excinfo.value).__name__ == "InputError":
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"hazard: {self.path.name}"


def _listed(words: Any) -> list[str]:
    if words is None:
        return []
    return [words] if isinstance(words, str) else list(words)


def _check_markers(item: pytest.Item) -> None:
    for mark in item.iter_markers("hazard"):
        if mark.args:
            pytest.fail("the marker `hazard` takes keywords only: select, ignore, reason, fail_on", pytrace=False)
        for word in mark.kwargs:
            if word not in _MARKER_WORDS:
                pytest.fail(f"the marker `hazard` has no `{word}`; it has {', '.join(_MARKER_WORDS)}", pytrace=False)
        if mark.kwargs.get("ignore"):
            from hazard.config import is_empty_reason

            reason = mark.kwargs.get("reason")
            if not isinstance(reason, str) or is_empty_reason(reason):
                pytest.fail("the marker `hazard` ignores rules only for a reason: add reason='...'", pytrace=False)


def _signatures(edge: Any) -> Any:
    """The edge signatures before ``to_executorch`` rewrites them; None where they cannot be had."""
    try:
        from hazard.pipeline import edge_signatures

        return edge_signatures(edge)
    except Exception:
        return None


def _program(manager: Any, signatures: Any) -> Any:
    """The program of a manager from its graphs, else the bytes that it was written to."""
    try:
        from hazard.pipeline import from_manager

        return from_manager(manager, signatures)
    except Exception:
        return manager


def _checkable(program: Any) -> Any:
    if hasattr(program, "exported_program") and hasattr(program, "buffer"):
        made = _program(program, None)
        return bytes(program.buffer) if made is program else made
    return program


def _is_hazard_error(error: BaseException) -> bool:
    return type(error).__name__ == "HazardError" and type(error).__module__ == "hazard.api"


def _summary(report: Report) -> dict[str, Any]:
    """What of a report travels with a test: into the terminal summary, across xdist, into JUnit."""
    (program,) = report.programs
    return {
        "program": program.path,
        "verdict": program.verdict,
        "assumed": any(m.assumptions for m in program.methods),
        "suppressed": len(program.suppressed),
        "findings": [
            {
                "code": f.code,
                "severity": f.severity,
                "certainty": f.certainty,
                "method": f.method,
                "message": f.message,
                "fingerprint": f.fingerprint,
            }
            for f in program.findings
        ],
    }


def _in_short(findings: list[dict[str, Any]]) -> str:
    """One text a message, and the notes of one rule by the first of them."""
    counts: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], str] = {}
    for f in findings:
        key = (f["code"], "" if f["severity"] == "note" else f["message"])
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, f"{f['severity']}[{f['code']}] {f['message']}")
    return "; ".join(f"{first[k]}{f' (and {n - 1} more)' if n > 1 else ''}" for k, n in counts.items())


def _totals(results: list[dict[str, Any]]) -> str:
    verdicts = [r["verdict"] for r in results]
    proved = verdicts.count("proved")
    assumed = sum(bool(r["assumed"]) for r in results if r["verdict"] == "proved")
    parts = [f"{proved} proved" + (f" ({assumed} of them with assumptions)" if assumed else "")]
    parts += [f"{verdicts.count(v)} {v}" for v in ("hazard", "unknown", "unchecked") if v in verdicts]
    return f"checked {len(results)} program{'s' if len(results) != 1 else ''}: {', '.join(parts)}"
