"""From what was named on the command line to checked programs."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hazard.api import ProgramReport, Report, check, chosen_rules
from hazard.files import programs_in
from hazard.program import InputError
from hazard.rule import load_plugin

#: Seconds of work before progress is shown on a terminal.
PATIENCE = 1.0


@dataclass(slots=True)
class Checked:
    """The report over all usable inputs, and one line for each that was not."""

    report: Report = field(default_factory=Report)
    errors: list[str] = field(default_factory=list)


def is_graph_target(target: str) -> bool:
    """Whether a target is ``package.module:factory`` or ``file.py:factory``: a graph that Python code makes."""
    left, colon, right = target.rpartition(":")
    if not colon or os.path.exists(target) or not all(part.isidentifier() for part in right.split(".")):
        return False
    return left.endswith(".py") or bool(re.fullmatch(r"[A-Za-z_]\w+(\.\w+)*", left))


def expand(targets: Sequence[str]) -> tuple[list[str], list[str]]:
    """All programs that the targets name, in order and once each; and one line for each target without any."""
    found: dict[str, None] = {}
    errors = []
    for target in targets:
        try:
            if target != "-" and not is_graph_target(target) and os.path.isdir(target):
                found.update(dict.fromkeys(programs_in(target)))
            else:
                found[target] = None
        except InputError as e:
            errors.append(str(e))
    return list(found), errors


def load(target: str) -> tuple[Any, str]:
    """What `hazard.check` can use for a target, and its name."""
    if target == "-":
        if sys.stdin is None:
            raise InputError("the standard input is closed")
        return sys.stdin.buffer.read(), "<stdin>"
    if is_graph_target(target):
        from hazard import pipeline

        load_target = getattr(pipeline, "load_target", None)
        if load_target is None:
            raise InputError(f"{target}: graphs made by Python code cannot be checked by this version")
        return load_target(target), target
    if target.endswith(".py") and os.path.isfile(target):
        raise InputError(f"{target}: Python code; name the function in it that makes the program, {target}:FUNCTION")
    return target, target


def check_target(target: str, options: dict[str, Any], plugins: Sequence[str] = ()) -> ProgramReport | str:
    """The report of one program, or the line that says why there is none. ``plugins`` are loaded first: this may run in
    a process that has not loaded them."""
    try:
        for plugin in plugins:
            load_plugin(plugin)
        source, name = load(target)
        return check(source, name=name, **options).programs[0]
    except InputError as e:
        return str(e)


def check_targets(
    targets: Sequence[str], options: dict[str, Any], jobs: int, progress: bool, plugins: Sequence[str] = ()
) -> Checked:
    """Checks every target; one that cannot be used does not keep the others from being checked.

    Raises InputError when the choice of rules is wrong.
    """
    chosen_rules(options.get("select"), options.get("ignore"))
    paths, errors = expand(targets)
    checked = Checked(errors=errors)
    show = _Progress(len(paths)) if progress else None
    for outcome in _outcomes(paths, options, jobs, show.step if show else lambda path: None, plugins):
        if isinstance(outcome, str):
            checked.errors.append(outcome)
        else:
            checked.report.programs.append(outcome)
    if show:
        show.done()
    return checked


def _outcomes(
    paths: list[str], options: dict[str, Any], jobs: int, before: Callable[[str], None], plugins: Sequence[str]
) -> Sequence[ProgramReport | str]:
    outcomes: list[ProgramReport | str] = []
    if jobs <= 1 or len(paths) <= 1:
        for path in paths:
            before(path)
            outcomes.append(check_target(path, options))
        return outcomes
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(jobs, len(paths))) as pool:
        futures = [pool.submit(check_target, path, options, plugins) for path in paths]
        for path, future in zip(paths, futures, strict=True):
            before(path)
            outcomes.append(future.result())
        return outcomes


class _Progress:
    """One line on the error stream that is written over, once the work has taken long enough to wonder."""

    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0
        self.started = time.monotonic()
        self.shown = False

    def step(self, path: str) -> None:
        self.count += 1
        if time.monotonic() - self.started > PATIENCE:
            self.shown = True
            sys.stderr.write(f"\r\x1b[Kchecking {self.count} of {self.total}: {os.path.basename(path)[:60]!a}")
            sys.stderr.flush()

    def done(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
