"""Every finding of a program held against the runtime, and where that shows nothing against the exhaustive run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hazard.api import ProgramReport
from hazard.confirm import Confirmation, confirm
from hazard.confirm.judge import NO_OUTPUT
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
    findings = []
    for e in result.evidence:
        f = e.finding
        how = "runtime" if e.outcome == "confirmed" else "nothing"
        place = (f.method, f.use.instruction if f.use else None, f.use.slot if f.use else None)
        if how == "nothing" and place in seen:
            how = "exhaustive run"
        elif how == "nothing" and e.reason == NO_OUTPUT:
            how = "not to be shown this way"
        elif how == "nothing" and (f.code.startswith(OUTSIDE) or (f.code == "HZ701" and len(program.methods) > 1)):
            # Of arenas that are too small this runtime shows nothing where another method has larger ones.
            how = "not to be shown this way"
        findings.append([f.code, f.severity, f.certainty, how])
    return result, findings


def _observed(program: ProgramReport) -> set[tuple[str, int | None, int | None]]:
    """Where the exhaustive run sees a wrong byte: method, instruction, slot."""
    return {
        (m.name, o.instruction, o.slot)
        for m in program.methods
        for o in shadow.run(m.analysis.method, 2, PATHS).observations
    }
