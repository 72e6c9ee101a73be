"""``hazard fix``: what is done, what is said about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from hazard.cli import CLEAN, FOUND, emit
from hazard.files import write_text
from hazard.program import InputError
from hazard.repair.fix import Repair, repair_file, write_repair
from hazard.repair.placement import omnimalloc_missing
from hazard.repair.suggest import Suggestion, suggest
from hazard.rule import Finding


def fix_file(
    source: str,
    target: str | None,
    *,
    in_place: bool = False,
    dry_run: bool = False,
    diff: bool = False,
    report: str | None = None,
    effects: dict[str, Any] | None = None,
    hosts: tuple[Any, ...] = (),
) -> int:
    """Repairs one program and says what was done; returns the exit code. Raises InputError."""
    if in_place:
        target = target or source
    if not dry_run and target is None:
        raise InputError(f"{source}: where to? Give -o FILE, --in-place, or --dry-run to write nothing")
    if source == "-" or not os.path.isfile(source):
        raise InputError(f"{source}: not a file; `hazard fix` rewrites files")
    repair = repair_file(source, effects, hosts) if hosts else repair_file(source, effects)
    if not all(a.optimal for a in repair.arenas) and (missing := omnimalloc_missing()):
        print(f"hazard: note: {missing}", file=sys.stderr)
    suggestions = suggest(repair) if dry_run or report else []
    digest = None
    if not repair.refusals and not dry_run:
        assert target is not None
        digest = write_repair(source, target, repair, in_place=in_place)
    lines = [*_summary(source, repair)]
    if dry_run:
        lines += _suggested(suggestions)
    if diff:
        lines += _moved(repair)
    if digest is not None:
        lines.append(f"written: {target}")
    emit("\n".join(lines) + "\n")
    if report:
        write_text(report, json.dumps(_record(source, target, digest, repair, suggestions), indent=2) + "\n")
    return FOUND if repair.refusals else CLEAN


def _summary(source: str, repair: Repair) -> Iterator[str]:
    if repair.refusals:
        yield f"{source}: not fixed"
        yield from (f"  {reason}" for reason in repair.refusals)
        return
    found = sum(f.severity != "note" for f in repair.before.findings)
    if found:
        yield f"{source}: {_count(found, 'finding')} cured; the new plan is {_proved(repair)}"
    else:
        yield f"{source}: nothing was wrong; the plan is {_proved(repair)}"
    for a in repair.arenas:
        change = f"{a.shipped} bytes" if a.size == a.shipped else f"{a.shipped} -> {a.size} bytes"
        if a.shipped and a.size != a.shipped:
            change += f" ({100 * (a.size - a.shipped) / a.shipped:+.0f} %)"
        least = "the least possible" if a.optimal else f"lower bound {a.bound}"
        yield f"  {a.method} arena {a.arena}: {change}, {least}; {a.separate} without sharing"
    yield f"  {_count(len(repair.moved), 'tensor')} moved"


def _proved(repair: Repair) -> str:
    if not repair.assumptions:
        return "proved"
    shown = ", ".join(repair.assumptions[:3])
    more = len(repair.assumptions) - 3
    return f"proved assuming {shown}{f' and {more} more' if more > 0 else ''}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _suggested(suggestions: list[tuple[Finding, tuple[Suggestion, ...]]]) -> Iterator[str]:
    for finding, choices in suggestions:
        yield f"{finding.severity}[{finding.code}] {finding.message}"
        yield from (f"  - {choice}" for choice in choices)


def _moved(repair: Repair) -> Iterator[str]:
    for m in repair.moved:
        before, after = f"{m.before}..{m.before + m.nbytes}", f"{m.after}..{m.after + m.nbytes}"
        yield f"  {m.method} %{m.slot} arena {m.arena}: {before} -> {after}"


def _record(
    source: str,
    target: str | None,
    digest: str | None,
    repair: Repair,
    suggestions: list[tuple[Finding, tuple[Suggestion, ...]]],
) -> dict[str, Any]:
    import dataclasses

    from hazard.report.json import SCHEMA_VERSION

    return {
        "schema_version": SCHEMA_VERSION,
        "source": source,
        "target": target if digest else None,
        "sha256": digest,
        "before": repair.before.verdict,
        "after": repair.after.verdict,
        "assumptions": repair.assumptions,
        "refusals": repair.refusals,
        "arenas": [dataclasses.asdict(a) for a in repair.arenas],
        "moved": [dataclasses.asdict(m) for m in repair.moved],
        "findings": [
            {
                "code": f.code,
                "message": f.message,
                "fingerprint": f.fingerprint,
                "suggestions": [s.as_object() for s in choices],
            }
            for f, choices in suggestions
        ],
    }
