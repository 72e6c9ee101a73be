"""Two reports compared by fingerprint: what is new, what is gone, what has stayed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hazard.api import ProgramReport, Report
    from hazard.rule import Finding

Pair = tuple["Finding", "ProgramReport"]


@dataclass(slots=True)
class Difference:
    """Findings with the programs that they were found in; fixed ones with those of the old report."""

    introduced: list[Pair] = field(default_factory=list)
    fixed: list[Pair] = field(default_factory=list)
    unchanged: list[Pair] = field(default_factory=list)


def compare(old: Report, new: Report, names: tuple[dict[str, str], dict[str, str]]) -> Difference:
    """Compares two reports. ``names`` give for the paths of each report the name under which programs are matched."""
    before: Counter[tuple[str, str]] = Counter()
    for program in old.programs:
        before.update((names[0][program.path], f.fingerprint) for f in program.findings)
    found = Difference()
    left = before.copy()
    for program in new.programs:
        for finding in program.findings:
            key = (names[1][program.path], finding.fingerprint)
            if left[key] > 0:
                left[key] -= 1
                found.unchanged.append((finding, program))
            else:
                found.introduced.append((finding, program))
    for program in old.programs:
        for finding in program.findings:
            key = (names[0][program.path], finding.fingerprint)
            if left[key] > 0:
                left[key] -= 1
                found.fixed.append((finding, program))
    return found


def only(report: Report, pairs: list[Pair]) -> Report:
    """The report with the given findings only."""
    from hazard.api import Report

    chosen = {id(f) for f, _ in pairs}
    return Report([replace(p, findings=[f for f in p.findings if id(f) in chosen]) for p in report.programs])
