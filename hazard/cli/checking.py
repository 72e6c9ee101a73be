"""One run of a check: settings and options together, from targets to reports and an exit code."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hazard.api import Report
from hazard.cli import CLEAN, FOUND, UNUSABLE, emit, unusable
from hazard.cli.targets import Checked, check_targets
from hazard.config import Settings, find_settings, read_settings
from hazard.program import InputError
from hazard.report import HUMAN, Options, render

_HOST_OPTIONS = ("load", "feedback", "borrowed", "concurrent", "restaged")


class Run:
    """``given`` are the options of the command line; those that were not given are taken from the settings."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if given["debug"]:
            os.environ["HAZARD_DEBUG"] = "1"
        self.given = given
        self.settings = _settings(given)
        self.checked = Checked()
        self.warnings: list[str] = []

    @property
    def report(self) -> Report:
        return self.checked.report

    @property
    def form(self) -> str:
        form: str = self.given.get("output_format") or "full"
        return form

    def check(self, targets: Sequence[str]) -> None:
        """Checks the targets; faults of inputs are said at once."""
        progress = sys.stderr.isatty() and not self.given["quiet"] and self.form in HUMAN
        options = check_options(self.given, self.settings)
        if self.given.get("graph"):
            options["graph"] = _graph(self.given["graph"], targets)
        plugins = (*self.given["plugins"], *(self.settings.plugins or ()))
        self.checked = check_targets(targets, options, self.given["jobs"], progress, plugins)
        for error in self.checked.errors:
            unusable(error)

    def settle(self, baseline: str | None = None) -> None:
        """Applies severities, suppressions and the baseline."""
        from hazard.suppressions import apply_settings

        self.warnings += apply_settings(self.report, self.settings)
        if baseline is not None:
            from hazard.baseline import apply_baseline, read_baseline
            from hazard.report.story import plural

            missing = apply_baseline(self.report, baseline, read_baseline(baseline))
            if missing:
                entries = plural(len(missing), "finding")
                self.warnings.append(f"{baseline}: {entries} not found any more; `hazard baseline prune` removes them")

    def suggest(self) -> None:
        """Adds to each finding what would be rid of it; programs are planned anew for that and analysed again."""
        from hazard.api import chosen_rules
        from hazard.hosts import choose_hosts
        from hazard.repair.fix import repair_program
        from hazard.repair.suggest import suggest, with_suggestions

        options = check_options(self.given, self.settings)
        rules = chosen_rules(options["select"], options["ignore"])
        hosts = choose_hosts(options["host"], **{k: v for k, v in options.items() if k in _HOST_OPTIONS})
        for report in self.report.programs:
            if all(f.severity == "note" for f in report.findings):
                continue
            repair = repair_program(report.program, report.path, options["effects"], hosts, rules=rules)
            again = _again(self.given.get("graph") or report.path)
            found = {finding.fingerprint: choices for finding, choices in suggest(repair, again)}
            report.findings = [with_suggestions(f, found.get(f.fingerprint, ())) for f in report.findings]

    def options(self) -> Options:
        """What renderers need, the gate among it."""
        given, settings = self.given, self.settings

        def flag(name: str) -> bool:
            return bool(given.get(name) if given.get(name) is not None else getattr(settings, name))

        color = {"auto": None, "always": True, "never": False}[given.get("color", "auto")]
        return Options(
            fail_on=given.get("fail_on") or settings.fail_on or "error",
            fail_on_unknown=flag("fail_on_unknown"),
            fail_on_assumption=flag("fail_on_assumption"),
            errors=tuple(self.checked.errors),
            warnings=tuple(self.warnings),
            color=color if self.form in HUMAN else False,
            quiet=given["quiet"],
            verbose=given.get("verbose", False),
            hint="-v tells notes in full" if self.form in HUMAN else "",
        )

    def finish(self, effects_template: str | None = None) -> int:
        """Writes all reports; the exit code."""
        shown = self.options()
        plain = dataclasses.replace(shown, color=False, width=120, hint="")
        files = [(path, render(form, self.report, plain)) for form, path in self.given["outputs"]]
        if effects_template:
            from hazard.declarations import template

            files.append((effects_template, template(self.report)))
        # Files first, but one that cannot be written must not hide the findings.
        unwritten = [path for path, text in files if not _written(path, text)]
        if self.report.programs or self.form not in HUMAN:
            emit(render(self.form, self.report, shown))
        if self.checked.errors or unwritten:
            return UNUSABLE
        return CLEAN if passed(self.report, shown) else FOUND

    def baseline_path(self, file: str | None) -> str:
        """The baseline of a command: the named one, that of the settings, else the usual one."""
        from hazard.baseline import DEFAULT

        return file or self.settings.baseline or DEFAULT

    def write_baseline(self, file: str | None) -> int:
        """Writes the findings of today; the exit code. Nothing is written when an input could not be used."""
        from hazard.baseline import entries_of, reasons_of, write_baseline
        from hazard.report.story import plural

        path = self.baseline_path(file)
        if self.checked.errors:
            return UNUSABLE
        self.settle()
        entries = reasons_of(path, entries_of(self.report, path))
        write_baseline(path, entries)
        emit(f"{path}: {plural(len(entries), 'finding')} of {plural(len(self.report.programs), 'program')}\n")
        return CLEAN

    def prune_baseline(self, file: str | None) -> int:
        """Removes what is not found any more; the exit code."""
        from hazard.baseline import apply_baseline, read_baseline, write_baseline
        from hazard.report.story import plural

        path = self.baseline_path(file)
        if self.checked.errors:
            return UNUSABLE
        self.settle()
        entries = read_baseline(path)
        missing = apply_baseline(self.report, path, entries)
        folder = os.path.dirname(os.path.abspath(path))
        kept = list(entries)
        for entry in missing:
            kept.remove(entry)
        kept = [e for e in kept if e.path.startswith("<") or os.path.exists(os.path.join(folder, e.path))]
        write_baseline(path, kept)
        emit(f"{path}: {plural(len(entries) - len(kept), 'finding')} removed, {len(kept)} left\n")
        return CLEAN


def passed(report: Report, shown: Options) -> bool:
    """Whether the gate lets the report through."""
    return report.passed(
        shown.fail_on, fail_on_unknown=shown.fail_on_unknown, fail_on_assumption=shown.fail_on_assumption
    )


def _settings(given: Mapping[str, Any]) -> Settings:
    if given["config"]:
        if given["isolated"]:
            raise InputError("--config and --isolated exclude each other")
        found = read_settings(given["config"])
        if found.path is None:
            raise InputError(f"{given['config']}: [tool.hazard] is missing")
        return found
    return Settings() if given["isolated"] else find_settings()


def _again(target: str) -> Any:
    """What plans the model once more with other options, where a factory makes one that can be; else None."""
    from hazard.cli.targets import is_graph_target

    if not is_graph_target(target):
        return None
    from hazard.pipeline import make_target, replanning

    return replanning(make_target(target))


def _graph(factory: str, targets: Sequence[str]) -> Any:
    """What ``--graph`` names. Raises InputError unless it goes with one program file."""
    from hazard.cli.targets import is_graph_target, load

    if len(targets) != 1 or is_graph_target(targets[0]) or os.path.isdir(targets[0]):
        raise InputError("--graph goes with one program file: hazard check model.pte --graph file.py:factory")
    if not is_graph_target(factory):
        raise InputError(f"--graph {factory}: name a factory, file.py:factory or package.module:factory")
    return load(factory)[0]


def check_options(given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The options of `hazard.check`."""
    effects = dict(settings.effects)
    if given["effects"]:
        from hazard.declarations import read_declarations

        for path in given["effects"]:
            effects.update(read_declarations(path))
    options: dict[str, Any] = {
        "select": given["select"] or settings.select,
        "ignore": given["ignore"] or settings.ignore,
        "effects": effects or None,
        "host": given["hosts"] or settings.host,
    }
    for name in _HOST_OPTIONS:
        value = given[name] if given[name] is not None else getattr(settings, name)
        if value is not None:
            options[name] = value
    return options


def _written(path: str, text: str) -> bool:
    from hazard.files import write_text

    try:
        write_text(path, text)
    except InputError as e:
        unusable(e)
        return False
    return True


def compare(old: str, new: str, given: Mapping[str, Any]) -> int:
    """Checks two targets and shows how their findings differ; the exit code."""
    import json

    from hazard import difference
    from hazard.report.json import SCHEMA_VERSION, finding_object
    from hazard.report.story import plural, tell
    from hazard.report.text import location

    runs = []
    for target in (old, new):
        run = Run(given)
        run.check([target])
        run.settle()
        runs.append(run)
    before, after = runs
    if before.checked.errors or after.checked.errors:
        return UNUSABLE
    names = (_matched(old, before.report), _matched(new, after.report))
    found = difference.compare(before.report, after.report, names)
    after.checked.report = difference.only(after.report, found.introduced)
    if after.form == "json":
        shown = {
            "schema_version": SCHEMA_VERSION,
            "introduced": [finding_object(f, p) for f, p in found.introduced],
            "fixed": [finding_object(f, p) for f, p in found.fixed],
            "unchanged": [finding_object(f, p) for f, p in found.unchanged],
        }
        emit(json.dumps(shown, indent=2) + "\n")
        return CLEAN if passed(after.report, after.options()) else FOUND
    code = after.finish()
    if after.form in HUMAN and not given["quiet"]:
        for finding, program in found.fixed:
            at = location(tell(finding, program), finding)
            emit(f"fixed: {finding.code} in {program.path}: {at}: {finding.message}\n")
        emit(
            f"{plural(len(found.introduced), 'finding')} introduced, {len(found.fixed)} fixed,"
            f" {len(found.unchanged)} unchanged\n"
        )
    return code


def _matched(target: str, report: Report) -> dict[str, str]:
    """Names under which programs of two targets are matched: paths within folders; a single file matches any other."""
    if os.path.isdir(target):
        return {p.path: os.path.relpath(p.path, target) for p in report.programs}
    return {p.path: "" for p in report.programs}
