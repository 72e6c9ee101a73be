"""The report as one JSON object; `schema.json` beside this file is its schema.

Adding a field raises the minor number of ``schema_version``; removing one or changing its meaning raises the major
number. Consumers ignore fields that they do not know and refuse a major number that they do not know.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import hazard
from hazard.program import Origin
from hazard.report import Options

if TYPE_CHECKING:
    from hazard.analysis.conflicts import Decision, Place, Witness
    from hazard.api import MethodReport, ProgramReport, Report
    from hazard.rule import Finding
    from hazard.suppressions import Suppressed

SCHEMA_VERSION: Final = "1.0"


def render(report: Report, options: Options) -> str:
    """The object as text, indented, ending with a newline."""
    return json.dumps(as_object(report, options), indent=2) + "\n"


def as_object(report: Report, options: Options | None = None) -> dict[str, Any]:
    """The object that `render` writes."""
    options = options or Options()
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hazard", "version": hazard.__version__},
        "verdict": report.verdict,
        "programs": [program_object(p) for p in report.programs],
        "findings": [finding_object(f, p) for p in report.programs for f in p.findings],
        "suppressed": [_suppressed(s, p) for p in report.programs for s in p.suppressed],
        "errors": list(options.errors),
        "warnings": list(options.warnings),
        "stats": stats(report),
    }


def program_object(p: ProgramReport) -> dict[str, Any]:
    """One program: where it came from and its methods."""
    return {
        "path": p.path,
        "sha256": p.sha256,
        "verdict": p.verdict,
        "seconds": round(p.seconds, 4),
        "methods": [_method(m) for m in p.methods],
    }


def _method(m: MethodReport) -> dict[str, Any]:
    c = m.counts
    return {
        "name": m.name,
        "verdict": m.verdict,
        "assumptions": list(m.assumptions),
        "reasons": list(m.reasons),
        "meaning": m.analysis.method.meaning,
        "instructions": sum(map(len, m.analysis.method.chains)),
        "reads": {
            "total": c.total, "proved": c.proved, "assumed": c.assumed, "unknown": c.unknown, "hazard": c.hazard,
        },
        "unknown_operators": sorted(m.analysis.unknown_operators),
    }  # fmt: skip


def finding_object(f: Finding, p: ProgramReport) -> dict[str, Any]:
    """One finding; ``define``, ``clobber`` and ``use`` are null where there is none."""

    def place(q: Place | None) -> dict[str, Any] | None:
        return _place(q, f, p)

    return {
        "code": f.code,
        "name": f.name,
        "severity": f.severity,
        "certainty": f.certainty,
        "path": p.path,
        "method": f.method,
        "message": f.message,
        "help": f.help,
        "define": place(f.define),
        "clobber": place(f.clobber),
        "use": place(f.use),
        "all_defines": list(map(place, f.all_defines)),
        "all_clobbers": list(map(place, f.all_clobbers)),
        "witness": _witness(f.witness, f, p),
        "approximations": list(f.approximations),
        "notes": list(f.notes),
        "properties": {name: _plain(value) for name, value in f.properties},
        "fingerprint": f.fingerprint,
    }


def _suppressed(s: Suppressed, p: ProgramReport) -> dict[str, Any]:
    return {"finding": finding_object(s.finding, p), "kind": s.kind, "reason": s.reason}


def _slot(slot: int | None, method: str, program: ProgramReport) -> int | None:
    """A slot of the emitted table, in which a graph's mere names for values have no entry."""
    known = next((m.analysis.method for m in program.methods if m.name == method), None)
    return slot if slot is None or known is None else known.emitted_slot(slot)


def _place(p: Place | None, f: Finding, program: ProgramReport) -> dict[str, Any] | None:
    if p is None:
        return None
    return {
        "method": p.method or f.method,
        "chain": p.chain,
        "instruction": p.instruction,
        "call": p.call,
        "operator": p.operator,
        "value": _slot(p.slot, p.method or f.method, program),
        "arena": p.arena,
        "offset": p.offset,
        "nbytes": p.nbytes,
        "name": p.name,
        "fqn": p.fqn,
        "origin": _origin(p.origin),
    }


def _origin(o: Origin | None) -> dict[str, Any] | None:
    if o is None:
        return None
    return {
        "node": o.node, "path": o.path, "file": o.file, "line": o.line, "source": o.source, "function": o.function,
        "index": o.index,
    }  # fmt: skip


def _witness(w: Witness | None, f: Finding, program: ProgramReport) -> dict[str, Any] | None:
    if w is None:
        return None
    return {
        "calls": w.calls,
        "decisions": [_decision(d, f, program) for d in w.decisions],
        "arena": w.arena,
        "low": w.low,
        "high": w.high,
        "replayed": w.replayed,
        "sizes": dict(w.sizes),
    }


def _decision(d: Decision, f: Finding, program: ProgramReport) -> dict[str, Any]:
    return {
        "call": d.call,
        "instruction": d.instruction,
        "value": _slot(d.slot, f.method, program),
        "held": d.held,
        "origin": _origin(d.origin),
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return str(value)


def stats(report: Report) -> dict[str, Any]:
    """Sums over all programs."""
    methods = [m for p in report.programs for m in p.methods]
    levels = Counter(f.severity for f in report.findings)
    verdicts = Counter(m.verdict for m in methods)
    return {
        "programs": len(report.programs),
        "methods": len(methods),
        "instructions": sum(len(chain) for m in methods for chain in m.analysis.method.chains),
        "reads": {
            "total": sum(m.counts.total for m in methods),
            "proved": sum(m.counts.proved for m in methods),
            "assumed": sum(m.counts.assumed for m in methods),
            "unknown": sum(m.counts.unknown for m in methods),
            "hazard": sum(m.counts.hazard for m in methods),
        },
        "verdicts": {v: verdicts[v] for v in ("proved", "hazard", "unknown")},
        "findings": {s: levels[s] for s in ("error", "warning", "note")},
        "suppressed": sum(len(p.suppressed) for p in report.programs),
        "seconds": round(sum(p.seconds for p in report.programs), 4),
    }
