"""`hazard confirm`: what the runtime says of the findings.

The program runs in a process of its own: a wrong plan can take down the process that runs it, or never come back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from hazard.cli import CLEAN, FOUND, emit
from hazard.cli.targets import is_graph_target
from hazard.confirm import Confirmation, Evidence, Missed, confirm
from hazard.program import InputError
from hazard.report.terminal import Paint, clean, wants_color

#: Seconds beyond the budget after which a run is given up: the last sequence of calls may take its time.
GRACE = 60.0

_WORDS = {"confirmed": "confirmed", "not-reproduced": "not reproduced", "not-confirmable": "not confirmable this way"}


@dataclass(frozen=True)
class Request:
    """What the command line asks for. ``budget`` in seconds; ``folder`` is where reproducers are written."""

    target: str
    graph: str | None
    reference: str | None
    inputs: str | None
    budget: float
    seed: int
    folder: str
    color: bool | None
    quiet: bool


def run_confirm(request: Request) -> int:
    """Runs, prints, writes reproducers; returns the exit code: 1 when anything was confirmed or missed.

    Raises InputError for what cannot be run, and when the runtime crashes or does not come back.
    """
    import multiprocessing

    target, graph, reference, budget = request.target, request.graph, request.reference, request.budget
    if not is_graph_target(target) and not os.path.isfile(target):
        raise InputError(f"{target}: a program file (.pte) or a factory is needed (file.py:factory)")
    for named in filter(None, (graph, reference)):
        if not is_graph_target(named):
            raise InputError(f"{named}: a factory is needed (file.py:factory, package.module:factory)")
    if graph and is_graph_target(target):
        raise InputError(f"{target}: it is a graph already; --graph belongs to a program file")
    progress = not request.quiet and sys.stderr.isatty()
    context = multiprocessing.get_context("spawn")
    answers, child_end = context.Pipe(duplex=False)
    settled = replace(request, color=wants_color(request.color))  # the child has no terminal to ask
    child = context.Process(target=_in_child, args=(child_end, settled, progress), daemon=True)
    child.start()
    child_end.close()
    try:
        kind, text, code = _answer(answers, budget)
    except EOFError:
        child.join()
        code = child.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise InputError(f"{target}: the process that ran it was ended by {how}: the runtime crashed") from None
    except TimeoutError:
        child.kill()
        raise InputError(f"{target}: no answer {GRACE:.0f} s after the budget: a call does not come back") from None
    except KeyboardInterrupt:
        child.kill()
        raise
    finally:
        child.join(1.0)
        child.kill()
        child.join()
        if progress:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
    if kind == "unusable":
        raise InputError(text)
    if kind == "fault":
        raise RuntimeError(text)
    emit(text)
    return code


def _answer(answers: Any, budget: float) -> tuple[str, str, int]:
    """What the child says in the end. Raises EOFError when it dies before, TimeoutError when it takes too long."""
    stop = float("inf")
    while True:
        left = stop - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if not answers.poll(min(left, 3600.0)):
            continue
        answer: tuple[str, str, int] = answers.recv()
        if answer[0] != "started":
            return answer
        stop = time.monotonic() + budget + GRACE


def _in_child(answers: Any, request: Request, progress: bool) -> None:
    """Sends the rendered outcome and the exit code. Interrupts are the parent's affair, which ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    target, graph, reference = request.target, request.graph, request.reference
    try:
        source: Any = target
        made = model = None
        if is_graph_target(target) or graph or reference:
            from hazard.pipeline import lower_target, make_target

            source = lower_target(target) if is_graph_target(target) else target
            made = lower_target(graph) if graph else None
            model = make_target(reference) if reference else None
        result = confirm(
            source,
            graph=made,
            reference=model,
            sequences=request.inputs,
            budget=request.budget,
            seed=request.seed,
            progress=_progress if progress else None,
            started=lambda: answers.send(("started", "", 0)),
        )
        text = _render(result, target, request.folder, Paint(bool(request.color)), request.quiet)
        answers.send(("done", text, FOUND if result.confirmed or result.missed else CLEAN))
    except InputError as e:
        answers.send(("unusable", str(e), 0))
    except Exception as e:
        if os.environ.get("HAZARD_DEBUG"):
            import traceback

            traceback.print_exception(e)
        answers.send(("fault", f"{type(e).__name__}: {e}", 0))


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
        head, advice = _missed(m, result.graph)
        lines.append(paint("error", head))
        lines += _difference_lines(m, call_text, value_text)
        lines.append(f"  reproducer: {_write(m, result, path, folder)}")
        lines.append(f"  help: {advice}")
    for error, count in result.failures.items():
        lines.append(f"{paint('note', 'note')}: {count} calls failed: {clean(error)}")
    if not quiet:
        counts = [f"{sum(e.outcome == o for e in result.evidence)} {w}" for o, w in _WORDS.items()]
        if result.missed:
            counts.append(f"{len(result.missed)} missed")
        work = f"{result.runs} sequences of calls ({result.calls} calls) in {result.seconds:.1f} s"
        lines.append(f"ran {work}: {', '.join(counts)}")
    return "\n".join(lines) + "\n" if lines else ""


def _missed(m: Missed, graph: bool) -> tuple[str, str]:
    report = "please report the reproducer and the output of `hazard dump`"
    if m.of_bytes:
        head = "MISSED HAZARD: the program differs from its twin, and no finding explains it"
        return head, f"this is a fault of hazard; {report}"
    if graph:
        head = "MISSED HAZARD: the program differs from eager, and no finding explains it"
        return head, f"unless the model is random, or a kernel or a delegate computes something else: {report}"
    head = "WRONG WITHOUT A FINDING: the program differs from eager, and so does its twin"
    return head, "a program file does not show this kind of fault; name what it was made from (--graph file.py:factory)"


def _difference_lines(e: Any, call_text: Any, value_text: Any) -> list[str]:
    d = e.difference
    where = f"call {d.call}, {clean(d.method)}" + (f", output {d.output}" if d.output is not None else "")
    lines = [f"  {where}: got {value_text(d.got)}, expected {value_text(d.expected)}"]
    lines += [f"  call {n}: {clean(call_text(c))}" for n, c in enumerate(e.calls, 1)]
    return lines


def _write(e: Any, result: Confirmation, path: str, folder: str) -> str:
    from hazard.confirm.reproducer import write_reproducer

    stem = os.path.splitext(os.path.basename(path))[0] if os.path.isfile(path) else path.rpartition(":")[2]
    what = f"{e.finding.code}-{e.finding.fingerprint[:8]}" if isinstance(e, Evidence) else "missed"
    target = os.path.join(folder, f"{stem}-{what}.py")
    write_reproducer(target, e, result.data, result.twin, os.path.basename(path))
    return target
