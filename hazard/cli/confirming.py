"""`hazard confirm`: what the runtime says of the findings."""

from __future__ import annotations

import os
import sys
from typing import Any

from hazard.cli import CLEAN, FOUND, emit
from hazard.confirm.judge import Confirmation, Evidence, confirm
from hazard.report.terminal import Paint, clean, wants_color

_WORDS = {"confirmed": "confirmed", "not-reproduced": "not reproduced", "not-confirmable": "not confirmable this way"}


def run_confirm(
    path: str, inputs: str | None, budget: float, seed: int, folder: str, color: bool | None, quiet: bool
) -> int:
    """Runs, prints, writes reproducers; returns the exit code: 1 when anything was confirmed or missed."""
    from hazard.confirm.inputs import load_inputs
    from hazard.frontends import load
    from hazard.program import InputError

    if path == "-" or not os.path.isfile(path):
        raise InputError(f"{path}: a program file is needed (.pte)")
    sequences = load_inputs(inputs, load(path)) if inputs else None
    progress = None if quiet or not sys.stderr.isatty() else _progress
    result = confirm(path, sequences=sequences, budget=budget, seed=seed, progress=progress)
    if progress:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    emit(_render(result, path, folder, Paint(wants_color(color)), quiet))
    return FOUND if result.confirmed or result.missed else CLEAN


def _progress(stream: Any, runs: int, confirmed: int, possible: int) -> None:
    stream.write(f"\r\x1b[K{runs} sequences of calls: {confirmed} of {possible} findings confirmed")
    stream.flush()


def _render(result: Confirmation, path: str, folder: str, paint: Paint, quiet: bool) -> str:
    from hazard.confirm.reproducer import call_text, value_text

    lines: list[str] = []
    for e in result.evidence:
        style = {"confirmed": "error", "not-reproduced": "warning"}.get(e.outcome, "note")
        head = f"{_WORDS[e.outcome]}: {e.finding.code} {e.finding.name}"
        lines.append(f"{paint(style, head)}: {clean(e.finding.message)}")
        if e.difference is None:
            why = e.reason or f"no difference in {e.runs} sequences of calls"
            lines.append(f"  {why}")
            continue
        lines += _difference_lines(e, call_text, value_text)
        if e.reason:
            lines.append(f"  note: {e.reason}")
        lines.append(f"  reproducer: {_write(e, result, path, folder)}")
    for m in result.missed:
        lines.append(paint("error", "MISSED HAZARD: the program differs from its twin, and no finding explains it"))
        lines += _difference_lines(m, call_text, value_text)
        lines.append(f"  reproducer: {_write(m, result, path, folder)}")
        lines.append("  help: this is a fault of hazard; please report the reproducer and the output of `hazard dump`")
    for error, count in result.failures.items():
        lines.append(f"{paint('note', 'note')}: {count} calls failed: {clean(error)}")
    if not quiet:
        counts = [f"{sum(e.outcome == o for e in result.evidence)} {w}" for o, w in _WORDS.items()]
        if result.missed:
            counts.append(f"{len(result.missed)} missed")
        work = f"{result.runs} sequences of calls ({result.calls} calls) in {result.seconds:.1f} s"
        lines.append(f"ran {work}: {', '.join(counts)}")
    return "\n".join(lines) + "\n" if lines else ""


def _difference_lines(e: Any, call_text: Any, value_text: Any) -> list[str]:
    d = e.difference
    where = f"call {d.call}, {clean(d.method)}" + (f", output {d.output}" if d.output is not None else "")
    lines = [f"  {where}: got {value_text(d.got)}, expected {value_text(d.expected)}"]
    lines += [f"  call {n}: {clean(call_text(c))}" for n, c in enumerate(e.calls, 1)]
    return lines


def _write(e: Any, result: Confirmation, path: str, folder: str) -> str:
    from hazard.confirm.reproducer import write_reproducer

    stem = os.path.splitext(os.path.basename(path))[0]
    what = f"{e.finding.code}-{e.finding.fingerprint[:8]}" if isinstance(e, Evidence) else "missed"
    target = os.path.join(folder, f"{stem}-{what}.py")
    write_reproducer(target, e, result.data, result.reference, os.path.basename(path))
    return target
