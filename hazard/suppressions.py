"""Findings that are known and accepted: by configuration, by a comment in the model's source, or by a baseline.

A suppressed finding is not gone: the report keeps it with its reason, the method's verdict stays what it is, and only
the gate does not count it. A suppression that nothing needed is reported.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hazard.api import ProgramReport, Report
    from hazard.config import Settings, Suppress
    from hazard.program import Origin
    from hazard.rule import Finding

_COMMENT: Final = re.compile(r"#\s*hazard:\s*ignore(?:\[([^\]]*)\])?\s*(?:--\s*(.*))?$")


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that does not count. ``kind`` is config, source, baseline or marker."""

    finding: Finding
    kind: str
    reason: str | None


def apply_settings(report: Report, settings: Settings) -> list[str]:
    """Changes severities and sets suppressed findings apart, in place. Returns warnings, one line each: suppressions
    that were not needed, have ended, or give no reason."""
    from hazard.rule import worst_first

    warnings: list[str] = []
    if settings.severity:
        for program in report.programs:
            program.findings[:] = worst_first(_with_severity(f, settings.severity) for f in program.findings)
    used: set[int] = set()
    ended: set[int] = set()
    for program in report.programs:
        kept = []
        for finding in program.findings:
            reason = _by_comment(finding, warnings)
            if reason is not None:
                program.suppressed.append(Suppressed(finding, "source", reason))
                continue
            for i, entry in enumerate(settings.suppress):
                if _matches(entry, finding, program.path):
                    if _has_ended(entry):
                        ended.add(i)
                        continue
                    used.add(i)
                    program.suppressed.append(Suppressed(finding, "config", entry.reason))
                    break
            else:
                kept.append(finding)
        program.findings[:] = kept
    for i, entry in enumerate(settings.suppress):
        if i in ended:
            warnings.append(f"{settings.path}: the suppression {entry} has ended on {entry.until}")
        elif i not in used and report.programs:
            warnings.append(f"{settings.path}: the suppression {entry} is not needed")
    return warnings


def suppress(program: ProgramReport, rules: Iterable[str], kind: str, reason: str | None) -> None:
    """Sets all findings of the given codes apart."""
    codes = set(rules)
    program.suppressed.extend(Suppressed(f, kind, reason) for f in program.findings if f.code in codes)
    program.findings[:] = [f for f in program.findings if f.code not in codes]


def _with_severity(finding: Finding, levels: Mapping[str, str]) -> Finding:
    level = levels.get(finding.code)
    if level is None or level == finding.severity:
        return finding
    return dataclasses.replace(finding, severity=level)


def _matches(entry: Suppress, finding: Finding, path: str) -> bool:
    import fnmatch

    if entry.rule != finding.code or entry.method not in (None, finding.method):
        return False
    if entry.file is not None:
        seen = os.path.abspath(path)
        wanted = os.path.join(entry.base, entry.file)
        if not fnmatch.fnmatch(seen, wanted) and not fnmatch.fnmatch(path, entry.file):
            return False
    if entry.value is not None:
        names: set[str | None] = set()
        for place in (finding.define, finding.clobber, finding.use):
            if place is not None:
                names |= {place.name, place.fqn, f"%{place.slot}"}
        return entry.value in names
    return True


def _has_ended(entry: Suppress) -> bool:
    import datetime

    return entry.until is not None and datetime.date.today() >= entry.until


# --- comments in the source of the model ------------------------------------------------------------------------------


def _by_comment(finding: Finding, warnings: list[str]) -> str | None:
    """The reason that a comment on one of the finding's source lines gives for it."""
    from hazard.config import is_empty_reason

    for place in (finding.use, finding.clobber, finding.define):
        origin = place.origin if place is not None else None
        comment = _comment(origin)
        if origin is None or comment is None:
            continue
        rules, reason = comment
        words = [w.strip() for w in (rules or "").split(",")]
        if finding.code not in [w.upper() for w in words] and finding.name not in words:
            continue
        if reason is None or is_empty_reason(reason):
            warning = f"{origin.file}:{origin.line}: a suppression needs a reason: `# hazard: ignore[{rules}] -- why`"
            if warning not in warnings:
                warnings.append(warning)
            continue
        return reason.strip()
    return None


def _comment(origin: Origin | None) -> tuple[str | None, str | None] | None:
    if origin is None or origin.file is None or origin.line is None:
        return None
    lines = _lines(origin.file)
    if not 1 <= origin.line <= len(lines):
        return None
    match = _COMMENT.search(lines[origin.line - 1])
    return (match[1], match[2]) if match else None


@cache
def _lines(path: str) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return tuple(file.read().splitlines())
    except OSError:
        return ()
