"""What to do about each finding: which live range is too short, what it costs to extend it, and what else would do.

What is suggested has been tried: each change of the plan is applied to the program, which is then analysed again, and
so is each copy, as one more instruction. Options of the export are tried where the model is at hand to be planned once
more. What has not been tried says so.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hazard.analysis.check import MethodAnalysis, analyse, suspected
from hazard.analysis.conflicts import Kind, Place
from hazard.analysis.operators import is_reinplaced
from hazard.api import ProgramReport, check_program
from hazard.hosts import choose_hosts
from hazard.program import Planned, Program, Tensor
from hazard.repair.copies import try_copy
from hazard.repair.fix import Repair
from hazard.repair.interference import Demand, demand
from hazard.repair.placement import Placement, first_free, placed_program
from hazard.repair.write import Plan
from hazard.rule import NOT_REINPLACED, Finding, all_rules, site_word, unshared, value_word

#: Instructions that trials of live ranges and copies may take over all findings of a program; the first come first.
WORK: Final = 100_000
_LOG = logging.getLogger("hazard")

Change = Callable[[Any], None]  # of an ``ExecutorchBackendConfig``


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to be rid of a finding. ``kind``: lifetime, placement, copy, option or loading.

    ``checked``: it was applied and the finding was gone. ``before`` and ``after`` are sizes in bytes of the arenas of
    the method, for changes of the plan; ``plan`` is what `hazard.repair.write.write_plan` writes. ``change`` does to
    an ``ExecutorchBackendConfig`` what an option says, None where it says something else.
    """

    kind: str
    text: str
    checked: bool
    before: int | None = None
    after: int | None = None
    plan: Plan | None = field(default=None, repr=False, compare=False)
    change: Change | None = field(default=None, repr=False, compare=False)

    def as_object(self) -> dict[str, Any]:
        """For JSON; the plan is left out."""
        names = ("kind", "text", "checked", "before", "after")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "growth": self.growth}

    @property
    def growth(self) -> float | None:
        """Growth of the arenas in per cent; negative where they shrink."""
        if self.before is None or self.after is None or not self.before:
            return None
        return 100 * (self.after - self.before) / self.before

    def __str__(self) -> str:
        words = self.text
        if self.before is not None and self.after is not None:
            grown = self.growth
            per_cent = f" ({grown:+.0f} %)" if grown is not None else ""
            words += f": {self.before} -> {self.after} bytes{per_cent}"
        tried = "tried in the program: the finding is gone" if self.kind == "copy" else "tried: the finding is gone"
        return f"{words} [{tried if self.checked else _UNTRIED[self.kind]}]"


_UNTRIED: dict[str, str] = {
    "lifetime": "not tried",
    "placement": "not tried",
    "copy": "not tried: it changes the model",
    "option": "not tried: it changes the export",
    "loading": "not tried: it changes the caller",
}
_COPY: dict[str, str] = {
    "HZ101": "copy the result right after the higher-order operator: `x = x.clone()`",
    "HZ102": "copy the operand before it: `x = x.clone()`",
    "HZ104": "return from the branch what is computed: `lambda x: x + 0`",
    "HZ201": "copy the result before the view: `x = x.clone()`",
    "HZ302": "compute on the old value: `old + 0`",
    "HZ303": "compute on the old state before the update: `old + 0`",
    "HZ703": "copy the constant before it is changed: `w = w.clone()`",
}
_COPIES_OF_VIEWS = frozenset(("HZ201", "HZ302"))
_IN_SHARED_STORAGE = frozenset(("HZ402", "HZ403", "HZ404"))
#: What `hazard.SafePlanning` cures where a new plan for the file does not: it knows the graph and may change it.
_CURED_WHEN_PLANNED = frozenset(
    ("HZ101", "HZ102", "HZ103", "HZ104", "HZ201", "HZ202", "HZ301", "HZ302", "HZ303", "HZ304", "HZ403", "HZ404")
)
#: Rules whose help is about how the model is exported.
_HELPED_BY_EXPORT = frozenset(("HZ202", "HZ501", "HZ602"))
_SAFELY = "export with `memory_planning_pass=hazard.SafePlanning()`"
_VIEWS_COPIED = "keep the copies of views: `ExecutorchBackendConfig(remove_view_copy=False)`"


def _copy_views(config: Any) -> None:
    config.remove_view_copy = False


def _reinplace_nothing(config: Any) -> None:
    config.run_reinplace_pass, config.reinplace_extra_ops = False, None


def _plan_safely(config: Any) -> None:
    from hazard.repair.planning import SafePlanning

    config.memory_planning_pass = SafePlanning(config.memory_planning_pass)


_MEANT: dict[str, Change] = {_VIEWS_COPIED: _copy_views, NOT_REINPLACED: _reinplace_nothing}
_LOADING: dict[str, str] = {
    "HZ501": "load the file once for each method, or run it on a host that gives each method its own arenas",
    "HZ502": "load all methods before the first call (`--load eager`)",
}


def suggest(
    repair: Repair, again: Callable[[Change], Program] | None = None
) -> list[tuple[Finding, tuple[Suggestion, ...]]]:
    """For each finding of the program as it was, what would be rid of it, the cheapest first.

    ``again`` makes the program with another configuration of its export, as `hazard.pipeline.replanning` does.
    """
    program = repair.before.program
    analyses = [m.analysis for m in repair.before.methods]
    demanded = demand(program, analyses)
    left = {f.fingerprint for f in repair.after.findings}
    findings = [f for f in repair.before.findings if f.severity != "note"]
    affordable = max(1, WORK // sum(len(a.flow.code) for a in analyses))
    found = [
        (f, _suggestions(f, repair, analyses, demanded, f.fingerprint in left, n < affordable))
        for n, f in enumerate(findings)
    ]
    if again is None:
        return found
    trials = _Trials(repair.before, again)
    return [(f, tuple(trials.tried(f, choice) for choice in choices)) for f, choices in found]


class _Trials:
    """Programs that are planned once more with other options, once for each."""

    def __init__(self, before: ProgramReport, again: Callable[[Change], Program]) -> None:
        self.before, self.again = before, again
        self.reports: dict[str, ProgramReport | None] = {}

    def tried(self, finding: Finding, choice: Suggestion) -> Suggestion:
        """The suggestion, marked as tried if the finding is gone with its option and there are fewer than before."""
        if choice.change is None:
            return choice
        if choice.text not in self.reports:
            self.reports[choice.text] = self._report(choice.text, choice.change)
        report = self.reports[choice.text]
        if report is None or _alike(finding, report) or _count(report) >= _count(self.before):
            return choice
        sizes = [sum(a.size for a in r.program.method(finding.method).arenas.values()) for r in (self.before, report)]
        return dataclasses.replace(choice, checked=True, before=sizes[0], after=sizes[1])

    def _report(self, text: str, change: Change) -> ProgramReport | None:
        try:
            program = self.again(change)
        except Exception as error:  # whatever planning raises: then the option does not help
            _LOG.debug("%s: %s", text, error)
            return None
        return check_program(program, self.before.path, None, all_rules())


def _alike(finding: Finding, report: ProgramReport) -> bool:
    """Whether a report has a finding of the same rule about the same value."""
    name = finding.use.name if finding.use else None
    return any(
        (f.code, f.method, f.use.name if f.use else None) == (finding.code, finding.method, name)
        for f in report.findings
        if f.severity != "note"
    )


def _count(report: ProgramReport) -> int:
    return sum(f.severity != "note" for f in report.findings)


def with_suggestions(finding: Finding, suggestions: tuple[Suggestion, ...]) -> Finding:
    """The finding with its suggestions as notes and as properties."""
    if not suggestions:
        return finding
    plain: list[dict[str, Any]] = [s.as_object() for s in suggestions]
    return dataclasses.replace(
        finding,
        notes=(*finding.notes, *(f"suggested: {s}" for s in suggestions)),
        properties=(*finding.properties, ("suggestions", plain)),
    )


def _suggestions(
    finding: Finding, repair: Repair, analyses: list[MethodAnalysis], demanded: Demand, stays: bool,
    affordable: bool,
) -> tuple[Suggestion, ...]:  # fmt: skip
    found = []
    program = repair.before.program
    m = next((i for i, method in enumerate(program.methods) if method.name == finding.method), None)
    whole = finding.use is not None and finding.define is not None and finding.clobber is not None
    if m is not None and whole and affordable:
        extended = _extended(finding, m, program, demanded)
        if extended is not None:
            found.append(extended)
    if m is not None and not stays and not repair.refusals:
        before = sum(a.size for a in program.methods[m].arenas.values())
        after = sum(a.size for a in repair.program.methods[m].arenas.values())
        graph = program.methods[m].meaning == "graph"
        how = "`memory_planning_pass=hazard.SafePlanning()`" if graph else "`hazard fix`"
        found.append(Suggestion("placement", f"place all tensors anew ({how})", True, before, after, repair.plan))
    line = _line(finding.define or finding.use)
    if finding.code in _COPY:
        trial = try_copy(program, analyses, m, finding) if m is not None and affordable else None
        sizes = (trial.before, trial.after) if trial is not None else (None, None)
        found.append(Suggestion("copy", _COPY[finding.code] + line, trial is not None, *sizes))
    elif finding.code == "HZ301":
        found.append(Suggestion("copy", finding.help + line, False))  # the buffer's name may be what is wrong
    found.sort(key=lambda s: (s.after is None, s.after or 0))
    option = _option(finding)
    if option is not None:
        found.append(Suggestion("option", option, False, change=_MEANT.get(option)))
    if (stays or repair.refusals) and finding.code in _CURED_WHEN_PLANNED:
        found.append(Suggestion("option", _SAFELY, False, change=_plan_safely))
    if finding.code in _LOADING:
        tried = finding.code == "HZ502" and _loaded_first(finding, program)
        found.append(Suggestion("loading", _LOADING[finding.code], tried))
    if not found:
        found.append(Suggestion("copy", finding.help, False))
    return tuple(found)


def _option(finding: Finding) -> str | None:
    """The change of the export that is rid of a finding."""
    if finding.code in _HELPED_BY_EXPORT:
        return finding.help
    if finding.code in _COPIES_OF_VIEWS:
        return _VIEWS_COPIED
    if finding.code in _IN_SHARED_STORAGE:
        return unshared(finding.clobber) if finding.clobber is not None else NOT_REINPLACED
    makers = {"HZ103": finding.all_defines, "HZ703": (finding.clobber,)}.get(finding.code, ())
    return NOT_REINPLACED if any(p is not None and is_reinplaced(p.operator) for p in makers) else None


def _line(place: Place | None) -> str:
    origin = place.origin if place else None
    return f" at {origin.file}:{origin.line}" if origin and origin.file else ""


def _extended(finding: Finding, m: int, program: Program, demanded: Demand) -> Suggestion | None:
    """The shipped plan with live ranges extended: the value, wherever it is made, moves to the first bytes that stay
    free for so long."""
    define, use = finding.define, finding.use
    assert define is not None
    assert use is not None
    method = program.methods[m]
    places = finding.all_defines or (define,)
    victims = [
        g
        for g in demanded.groups
        if any(n == m and any(_is_at(method.values[s], s, use, p) for p in places) for n, s, _ in g.members)
    ]
    if not victims or any(g.persistent for g in victims):
        return None
    moved = {g.index: first_free(demanded, g.index, {}) for g in victims[:1]}
    for g in victims[1:]:
        moved[g.index] = first_free(demanded, g.index, moved)
    offsets = {
        (n, s): moved.get(g.index, g.offset) + above for g in demanded.groups for n, s, above in g.members
    }
    sizes = {(n, a): arena.size for n, x in enumerate(program.methods) for a, arena in x.arenas.items()}
    for g in victims:
        end = moved[g.index] + demanded.units(g.index) * demanded.alignment + demanded.padding.get((m, g.arena), 0)
        for n in g.methods:
            sizes[n, g.arena] = max(sizes.get((n, g.arena), 0), end)
    moved_method = placed_program(program, Placement(offsets, sizes, [])).methods[m]
    again = analyse(moved_method, judged=False)
    if again.roles.views or (use.position, use.slot) in suspected(again):
        again = analyse(moved_method)
    if any(
        c.kind is not Kind.UNINITIALIZED and (c.use.position, c.use.slot) == (use.position, use.slot)
        for c in again.conflicts
    ):
        return None
    made = " and ".join(site_word(p) for p in places)
    text = f"keep the bytes of {value_word(use)} from {made} until {site_word(use)}"
    before = sum(a.size for a in method.arenas.values())
    after = sum(size for (n, _), size in sizes.items() if n == m)
    return Suggestion("lifetime", text, True, before, after, Plan(offsets, sizes))


def _loaded_first(finding: Finding, program: Program) -> bool:
    """Whether the finding is gone where all methods are loaded before the first call."""
    hosts = choose_hosts(None, load="eager")
    report = check_program(program, "<program>", None, all_rules(), None, hosts)
    return finding.fingerprint not in {f.fingerprint for f in report.findings}


def _is_at(value: object, slot: int, use: Place, define: Place) -> bool:
    return (
        isinstance(value, Tensor)
        and isinstance(value.placement, Planned)
        and (value.placement.arena, value.placement.offset) == (define.arena, define.offset)
        and value.nbytes == define.nbytes
        and (slot == define.slot or define.slot is None or slot == use.slot)
    )
