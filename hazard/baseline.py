"""Findings that were there before: a file of fingerprints, so that a gate fails for new ones only.

A fingerprint is made of rule, method, operators and occurrence; it survives re-planning, other offsets and instructions
inserted elsewhere. The file is sorted and has one finding a line, so that its changes read well in a review.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hazard.files import write_text
from hazard.program import InputError

if TYPE_CHECKING:
    from hazard.api import Report
    from hazard.rule import Finding

VERSION: Final = "1.0"
DEFAULT: Final = "hazard-baseline.json"
_KEYS: Final = ("fingerprint", "code", "path", "method", "message", "reason")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One known finding. ``path`` is relative to the baseline's folder; ``reason`` is for people to fill in."""

    path: str
    method: str
    code: str
    fingerprint: str
    message: str = ""
    reason: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.path, self.fingerprint


def entries_of(report: Report, baseline: str) -> list[Entry]:
    """Entries for all findings of a report, suppressed by nothing but a baseline."""
    result = []
    for program in report.programs:
        path = relative_to(baseline, program.path)
        known = [s.finding for s in program.suppressed if s.kind == "baseline"]
        for f in (*program.findings, *known):
            result.append(Entry(path, f.method, f.code, f.fingerprint, f.message))
    return sorted(result)


def read_baseline(path: str) -> list[Entry]:
    """The entries of a file. Raises InputError for one that cannot be used."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no baseline yet; `hazard baseline write` makes it") from None
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
    except ValueError as e:
        raise InputError(f"{path}: not JSON: {e}") from None
    if not isinstance(content, dict) or not isinstance(content.get("findings"), list):
        raise InputError(f"{path}: no baseline: `findings` is missing")
    version = content.get("schema_version")
    if not isinstance(version, str) or version.partition(".")[0] != VERSION.partition(".")[0]:
        raise InputError(f"{path}: a baseline of version {version!r}, which this version of hazard cannot read")
    return [_entry(raw, f"{path}: finding {i}") for i, raw in enumerate(content["findings"], 1)]


def _entry(raw: Any, where: str) -> Entry:
    if not isinstance(raw, dict):
        raise InputError(f"{where}: expected an object")
    for key in _KEYS:
        optional = key in ("reason", "message")
        if not isinstance(raw.get(key), str) and not (optional and raw.get(key) is None):
            raise InputError(f"{where}: `{key}` must be a text")
    message, reason = raw.get("message") or "", raw.get("reason")
    return Entry(raw["path"], raw["method"], raw["code"], raw["fingerprint"], message, reason)


def reasons_of(path: str, entries: list[Entry]) -> list[Entry]:
    """The entries with the reasons that people have added to a file, if it exists. Raises InputError as `read_baseline`
    does."""
    old = {e.key: e.reason for e in read_baseline(path)} if os.path.exists(path) else {}
    return [replace(e, reason=old.get(e.key)) for e in entries]


def write_baseline(path: str, entries: list[Entry]) -> None:
    """Writes a file. Raises InputError when that is not possible."""
    lines = []
    for e in sorted(entries):
        shown = {"path": e.path, "method": e.method, "code": e.code, "fingerprint": e.fingerprint, "message": e.message}
        lines.append(json.dumps(shown if e.reason is None else {**shown, "reason": e.reason}))
    body = ",\n    ".join(lines)
    inner = f"[\n    {body}\n  ]" if lines else "[]"
    write_text(path, f'{{\n  "schema_version": "{VERSION}",\n  "findings": {inner}\n}}\n')


def apply_baseline(report: Report, path: str, entries: list[Entry]) -> list[Entry]:
    """Sets known findings apart, in place; returns entries of the checked programs that were not found again.

    Two programs of one path share their entries; a fingerprint counts once for each entry.
    """
    from hazard.suppressions import Suppressed

    left = Counter(e.key for e in entries)
    reasons = {e.key: e.reason for e in entries}
    checked = set()
    for program in report.programs:
        where = relative_to(path, program.path)
        checked.add(where)
        kept: list[Finding] = []
        for finding in program.findings:
            key = (where, finding.fingerprint)
            if left[key] > 0:
                left[key] -= 1
                program.suppressed.append(Suppressed(finding, "baseline", reasons[key]))
            else:
                kept.append(finding)
        program.findings[:] = kept
    missing = []
    for e in sorted(entries):
        if e.path in checked and left[e.key] > 0:
            left[e.key] -= 1
            missing.append(e)
    return missing


def relative_to(baseline: str, program: str) -> str:
    """The path of a program as a baseline names it: relative to the baseline's folder, with ``/``."""
    if program.startswith("<"):
        return program
    base = os.path.dirname(os.path.abspath(baseline))
    return os.path.relpath(os.path.abspath(program), base).replace(os.sep, "/")
