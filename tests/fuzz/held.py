"""Every finding of a program held against the runtime, and where that shows nothing against the exhaustive run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hazard.api import ProgramReport
from hazard.confirm import Confirmation, confirm
from hazard.confirm.judge import NO_OUTPUT
from hazard.rule import Finding
from tests import shadow

#: Seconds for holding one program's findings against the runtime.
BUDGET = 1.0

#: Bounds of the exhaustive run.
PATHS = 500

#: Findings on what happens between methods or to callers' buffers, which no run of one method alone can show.
OUTSIDE = ("HZ5", "HZ6")


def calls_of(experiment: Any) -> list[list[tuple[str, list[Any]]]]:
    """The experiment's own sequences of calls."""
    steps = [
        [step if isinstance(step[0], str) else ("forward", step) for step in sequence]
        for sequence in experiment.sequences
    ]
    return [[(name, list(inputs)) for name, inputs in sequence] for sequence in steps]


def hold(source: Any, sequences: Sequence[Any]) -> tuple[Confirmation, list[list[str]]]:
    """What came of a program, given as `hazard.confirm.confirm` takes it, and of each finding: (code, severity,
    certainty, how), where ``how`` is runtime, exhaustive run, not to be shown this way, or nothing."""
    result = confirm(source, sequences=sequences, budget=BUDGET)
    if any(e.outcome == "not-reproduced" for e in result.evidence):
        # The model's own inputs did not show all of it; perhaps others do.
        more = confirm(source, budget=BUDGET)
        pairs = zip(result.evidence, more.evidence, strict=True)
        result.evidence = [b if b.outcome == "confirmed" else a for a, b in pairs]
    (program,) = result.report.programs
    seen = _observed(program) if any(e.outcome != "confirmed" for e in result.evidence) else set()
    findings: list[list[str]] = []
    for e in result.evidence:
        f = e.finding
        how = "runtime" if e.outcome == "confirmed" else "nothing"
        place = _place(program, f)
        if how == "nothing" and place in seen:
            how = "exhaustive run"
        elif how == "nothing" and e.reason == NO_OUTPUT:
            how = "not to be shown this way"
        elif how == "nothing" and (f.code.startswith(OUTSIDE) or (f.code == "HZ701" and len(program.methods) > 1)):
            # Of arenas that are too small this runtime shows nothing where another method has larger ones.
            how = "not to be shown this way"
        findings.append([f.code, f.severity, f.certainty, how])
    return result, findings


#: A read: method, index in the chain (that of a graph counts aliases, too), and emitted slot.
Read = tuple[str, int | None, int | None]


def _place(program: ProgramReport, finding: Finding) -> Read | None:
    """The read that a finding is about."""
    use = finding.use
    found = [m.analysis for m in program.methods if m.name == finding.method]
    if use is None or not found:
        return None
    flow, method = found[0].flow, found[0].method
    site = flow.sites[use.position] if use.position >= 0 else None
    # Findings number the instructions of a graph without its aliases, which the exhaustive run counts.
    index = use.position - flow.first - sum(map(len, method.chains[: site[0]])) if site else None
    return finding.method, index, method.emitted_slot(use.slot) if use.slot is not None else None


def _observed(program: ProgramReport) -> set[Read | None]:
    """Where the exhaustive run sees a wrong byte."""
    return {
        (m.name, o.instruction, m.analysis.method.emitted_slot(o.slot) if o.slot is not None else None)
        for m in program.methods
        for o in shadow.run(m.analysis.method, 2, PATHS).observations
    }
