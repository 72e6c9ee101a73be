"""`hazard.check`: from any input to a report."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from hazard.analysis.check import Counts, MethodAnalysis, analyse
from hazard.analysis.effects import Declaration
from hazard.hosts import RELEASED, Host, choose_hosts
from hazard.program import InputError, Program
from hazard.rule import SEVERITIES, Context, Finding, Rule, all_rules, find_rule, findings_of

if TYPE_CHECKING:
    from hazard.suppressions import Suppressed

#: Thresholds of the gate, from the strictest to none.
THRESHOLDS: Final = ("note", "warning", "error", "never")


class HazardError(Exception):
    """A program has findings at or above the threshold; ``report`` holds them, the text is the rendered report."""

    def __init__(self, report: Report, fail_on: str = "error") -> None:
        from hazard.report import Options
        from hazard.report.text import render

        super().__init__(render(report, Options(fail_on=fail_on)))
        self.report = report


@dataclass(slots=True)
class MethodReport:
    """One method's verdict: proved, hazard or unknown, with the assumptions it rests on and why it is unknown."""

    name: str
    verdict: str
    assumptions: tuple[str, ...]
    reasons: tuple[str, ...]
    counts: Counts
    analysis: MethodAnalysis


@dataclass(slots=True)
class ProgramReport:
    """One program: where it came from, its digest (None for programs that are no file), its methods, its findings.

    ``suppressed`` holds findings that are known and accepted; they count in the verdict and not in the gate.
    """

    path: str
    sha256: str | None
    program: Program
    methods: list[MethodReport]
    findings: list[Finding]
    seconds: float = 0.0
    suppressed: list[Suppressed] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return worst_verdict(m.verdict for m in self.methods)


@dataclass(slots=True)
class Report:
    """The result of a check of one or more programs."""

    programs: list[ProgramReport] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        return [f for p in self.programs for f in p.findings]

    @property
    def verdict(self) -> str:
        """The worst verdict of all methods: hazard, else unknown, else proved."""
        return worst_verdict(p.verdict for p in self.programs)

    @property
    def ok(self) -> bool:
        """Whether everything is proved."""
        return self.verdict == "proved"

    def passed(
        self, fail_on: str = "error", *, fail_on_unknown: bool = False, fail_on_assumption: bool = False
    ) -> bool:
        """The gate: no finding at or above ``fail_on`` (error, warning, note or never).

        Raises ValueError for another word.
        """
        if fail_on not in THRESHOLDS:
            raise ValueError(f"fail_on is one of {', '.join(THRESHOLDS)}, not {fail_on!r}")
        methods = [m for p in self.programs for m in p.methods]
        if fail_on_unknown and any(m.verdict == "unknown" or m.reasons for m in methods):
            return False
        if fail_on_assumption and any(m.assumptions for m in methods):
            return False
        if fail_on == "never":
            return True
        least = SEVERITIES.index(fail_on)
        return all(SEVERITIES.index(f.severity) < least for f in self.findings)

    def __str__(self) -> str:
        from hazard.report.text import render

        return render(self, color=False)


def worst_verdict(verdicts: Iterable[str]) -> str:
    """hazard if any is, else unknown if any is, else proved."""
    found = set(verdicts)
    return next((v for v in ("hazard", "unknown") if v in found), "proved")


def chosen_rules(select: Iterable[str] | None, ignore: Iterable[str] | None) -> list[Rule]:
    """The rules that run. A word selects by code, name or prefix of codes (``HZ1``); ``ALL`` selects every rule.

    Raises InputError for a word that fits no rule.
    """
    rules = list(all_rules())
    if select:
        words = list(select)
        rules = [r for r in rules if any(_fits(r, w) for w in words)]
        _known(words)
    else:
        rules = [r for r in rules if r.default]
    if ignore:
        words = list(ignore)
        _known(words)
        rules = [r for r in rules if not any(_fits(r, w) for w in words)]
    return rules


def _fits(rule: Rule, word: str) -> bool:
    return word.upper() == "ALL" or rule.name == word or rule.code.startswith(word.upper())


def _known(words: Iterable[str]) -> None:
    for word in words:
        if word.upper() == "ALL" or find_rule(word) or any(r.code.startswith(word.upper()) for r in all_rules()):
            continue
        import difflib

        names = [name for r in all_rules() for name in (r.code, r.name)]
        near = difflib.get_close_matches(word, names, 1) or difflib.get_close_matches(word.upper(), names, 1)
        hint = f"; did you mean `{near[0]}`?" if near else "; `hazard rules` lists them"
        raise InputError(f"unknown rule `{word}`{hint}")


def check(
    source: Any,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    effects: Mapping[str, Declaration] | None = None,
    name: str | None = None,
    host: str | Iterable[str] | None = None,
    load: str | None = None,
    feedback: bool = False,
    borrowed: bool | None = None,
    concurrent: bool = False,
    restaged: bool = True,
    config: Any = None,
    signature: Any = None,
    graph: Any = None,
) -> Report:
    """Checks a program: a path of a ``.pte``, ``.bpte`` or ``.hir``, the bytes of one, a `Program`, or one of
    ExecuTorch's: an ``ExecutorchProgramManager``, an ``EdgeProgramManager`` (planned in a copy with ``config``, an
    ``ExecutorchBackendConfig``), a planned ``ExportedProgram`` or ``GraphModule``. ``signature`` is the export
    signature that belongs to it, see `hazard.pipeline.program_of`. ``graph`` is what a program file was made from, one
    of ExecuTorch's; the file is then judged by what its graph means, with the names and lines of the model.

    ``select`` and ``ignore`` name rules; ``effects`` declares custom operators; ``name`` is used in messages for inputs
    that have no path. ``host`` names the hosts that count (python-runtime, module, module-shared; default: all) and the
    options after it say how they run methods, see `hazard.hosts.choose_hosts`. Raises InputError when the input cannot
    be used, and when ``graph`` becomes another program.
    """
    rules = chosen_rules(select, ignore)
    hosts = choose_hosts(
        host, load=load, feedback=feedback, borrowed=borrowed, concurrent=concurrent, restaged=restaged
    )
    asked = frozenset(r.code for r in rules) if select else frozenset()
    started = time.perf_counter()
    with no_collection():
        path, digest, program = _program(source, name, config, signature)
        if graph is not None:
            program = _meant(program, path, _program(graph, None, config, signature)[2])
        report = check_program(program, path, digest, rules, effects, hosts, asked)
    report.seconds = time.perf_counter() - started
    return Report([report])


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Puts garbage collection off: it would walk all that torch has loaded, and a check leaves little behind.

    What is left is old from then on, so that the next collection of new objects does not walk all of it.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if not gc.get_freeze_count():  # or what somebody else has frozen would thaw
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _program(source: Any, name: str | None, config: Any, signature: Any) -> tuple[str, str | None, Program]:
    from hazard.frontends import load, load_bytes

    if isinstance(source, Program):
        return name or "<program>", None, source
    if isinstance(source, bytes | bytearray | memoryview):
        return name or "<bytes>", hashlib.sha256(source).hexdigest(), load_bytes(bytes(source), name or "<bytes>")
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        program = load(path)
        return path, _digest(path), program
    if "torch" in sys.modules:
        from hazard.pipeline import holds_graphs, program_of

        if holds_graphs(source):
            return name or "<graphs>", None, program_of(source, config=config, signature=signature)
    raise InputError(f"cannot check a {type(source).__name__}: give a path, bytes or a program")


def _meant(emitted: Program, path: str, graphs: Program) -> Program:
    """The program of a file with the meaning that its graphs state. Raises InputError where it is not theirs."""
    from hazard.frontends.emitted import differences

    for first in differences(graphs, emitted):
        raise InputError(f"{path}: this is not what the graph becomes ({first}); give the graph that it was made from")
    return graphs


def _digest(path: str) -> str | None:
    if path == "-" or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_program(
    program: Program,
    path: str,
    digest: str | None,
    rules: Iterable[Rule],
    effects: Mapping[str, Declaration] | None = None,
    hosts: tuple[Host, ...] = RELEASED,
    asked: frozenset[str] = frozenset(),
    prepared: Sequence[MethodAnalysis | None] = (),
) -> ProgramReport:
    """Analyses every method of a program and applies the given rules.

    ``prepared`` is what `hazard.analysis.check.prepare` made of each method with its tensors in other places.
    """
    rules = list(rules)
    analyses = [analyse(m, effects, p) for m, p in zip_longest(program.methods, prepared)]
    # Rules come first: what they cannot decide makes a method unknown.
    findings = findings_of(Context(program, analyses, hosts, asked), rules)
    report = unjudged(program, path, digest, analyses)
    report.findings = findings
    # What a rule found beyond the reads themselves (layout, events) counts as well.
    doubts = {r.code for r in rules if r.doubts}
    for method in report.methods:
        if any(f.method == method.name and f.severity != "note" and f.code not in doubts for f in report.findings):
            method.verdict = "hazard"
    return report


def unjudged(program: Program, path: str, digest: str | None, analyses: Iterable[MethodAnalysis]) -> ProgramReport:
    """The report on a program to which no rule has been applied."""
    methods = [
        MethodReport(a.method.name, a.verdict, tuple(a.assumptions), tuple(a.reasons), a.counts, a) for a in analyses
    ]
    return ProgramReport(path, digest, program, methods, [])


def assert_no_hazards(source: Any, *, fail_on: str = "error", **options: Any) -> Report:
    """Checks a program and raises HazardError, whose text is the report, unless the gate passes."""
    report = check(source, **options)
    if not report.passed(fail_on):
        raise HazardError(report, fail_on)
    return report
