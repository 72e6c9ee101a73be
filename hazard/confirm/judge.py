"""Runs a program beside its twin and says which findings the runtime confirms.

A finding is confirmed when the program and its twin differ on a sequence of calls, and a twin in which this finding's
tensors still share their bytes differs on the same sequence: the fault alone is enough.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hazard.analysis.conflicts import Place
from hazard.api import ProgramReport, Report, check
from hazard.confirm.inputs import Call, Generator, thresholds
from hazard.confirm.session import INSTALL, Difference, Result, Session, first_difference, run, same, silence
from hazard.confirm.twin import Slot, Twin, make_twin
from hazard.frontends.pte import embedded_program
from hazard.program import InputError, Tensor
from hazard.rule import Finding

#: Calls of one sequence.
CALLS: Final = 6

#: Sequences that are run even when every finding has been confirmed: a hazard that was missed shows in them.
LEAST_SEQUENCES: Final = 12

#: Rules on what happens between methods, to callers' buffers, or at loading. No twin has such a fault alone; they
#: explain a difference that nothing else explains.
BY_ELIMINATION: Final = frozenset({"HZ501", "HZ502", "HZ503", "HZ505", "HZ601", "HZ701"})

#: Rules that a clobbered or unwritten byte stands behind. All others state facts that a twin shares with its program.
ON_BYTES: Final = frozenset({"HZ101", "HZ102", "HZ103", "HZ104", "HZ201", "HZ304", "HZ402"})

SHARED: Final = "the twin computes the same: the fault is not one of shared bytes"
OTHERWISE_WRONG: Final = "the twin has this fault as well, so that what it returns is not right either"
ONE_SET: Final = "this runtime gives all methods one set of arenas, as large as the largest; others do not"
NO_HOST: Final = "what the caller does with outputs and inputs cannot be seen from inside this runtime"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runtime says of one finding.

    ``outcome``: confirmed, not-reproduced or not-confirmable (``reason`` says why). For a confirmed one: the calls up
    to the wrong result, and where it is. ``runs`` is the number of sequences of calls that were tried.
    """

    finding: Finding
    outcome: str
    runs: int
    reason: str = ""
    calls: tuple[Call, ...] = ()
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Missed:
    """A difference between program and twin that no finding explains."""

    calls: tuple[Call, ...]
    difference: Difference


@dataclass(slots=True)
class Confirmation:
    """All that came of it. ``reference`` is the twin's program; ``failures`` are errors of calls, by their text."""

    report: Report
    data: bytes
    reference: bytes
    evidence: list[Evidence] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    calls: int = 0
    seconds: float = 0.0

    @property
    def confirmed(self) -> list[Evidence]:
        return [e for e in self.evidence if e.outcome == "confirmed"]


def confirm(
    source: str | bytes,
    *,
    sequences: Sequence[Sequence[Call]] | None = None,
    budget: float = 30.0,
    seed: int = 0,
    progress: Callable[[Any, int, int, int], None] | None = None,
    **options: Any,
) -> Confirmation:
    """Checks a program file, given as a path or its bytes, and runs it for up to ``budget`` seconds.

    ``sequences`` are the caller's own calls; without them calls are made up from ``seed``. ``options`` are those of
    `hazard.check`. ``progress`` is called with a stream, the sequences run, the findings confirmed, and those that can
    be. Raises InputError for what is no program file, and where executorch is not installed.
    """
    started = time.perf_counter()
    report = check(source, **options)
    data = _program_bytes(source if isinstance(source, bytes) else _read(source), report.programs[0].path)
    with silence() as stream:
        run_ = _Run(report, data)
        # Loading torch takes seconds of its own; the budget is for running.
        run_.stop = time.perf_counter() + budget
        run_.go(sequences, seed, (lambda *counts: progress(stream, *counts)) if progress else None)
    result = run_.finish()
    result.seconds = time.perf_counter() - started
    return result


def _program_bytes(data: bytes, name: str) -> bytes:
    """What the runtime loads: the file itself, or the program inside a bundled one."""
    if data[4:6] == b"BP":
        return embedded_program(data, name)
    if data[4:8] != b"ET12":
        raise InputError(f"{name}: only program files can be run (.pte or .bpte)")
    return data


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None


@dataclass(slots=True)
class _Suspect:
    """A finding, and the twins in which its fault alone is left, the most specific first; made when needed."""

    finding: Finding
    reason: str = ""  # why it cannot be confirmed
    together: list[list[Slot]] = field(default_factory=list)
    alone: list[Slot] = field(default_factory=list)
    between: bool = False
    twins: list[bytes] | None = None
    calls: tuple[Call, ...] = ()
    difference: Difference | None = None

    @property
    def open(self) -> bool:
        return not self.reason and self.difference is None


class _Run:
    def __init__(self, report: Report, data: bytes) -> None:
        self.stop = float("inf")
        self.data = data
        self.program: ProgramReport = report.programs[0]
        self.analyses = [m.analysis for m in self.program.methods]
        self.names = [m.name for m in self.program.methods]
        self.twin = self._twin()
        self.patterned = self._twin(pattern=1) if self.twin.orphans else None
        self.suspects = [self._suspect(f) for f in report.findings if f.severity != "note"]
        self.result = Confirmation(report, data, self.twin.data)
        self._joined: tuple[bytes | None] | None = None
        with silence():
            # Some methods may need data or operators that are not here; the others can run.
            self.loadable = [n for n in self.names if not Session(self.twin.data, [n]).error]

    def _twin(self, **options: Any) -> Twin:
        try:
            return make_twin(self.data, self.analyses, **options)
        except ImportError as e:
            raise InputError(f"running programs needs torch and executorch ({e}); {INSTALL}") from None
        except (ValueError, AssertionError, LookupError, AttributeError, TypeError, struct.error) as e:
            raise InputError(f"{self.program.path}: ExecuTorch cannot read or rewrite it: {e}") from None

    # --- what stands behind a finding

    def _suspect(self, finding: Finding) -> _Suspect:
        if finding.code in BY_ELIMINATION:
            return _Suspect(finding, between=True)
        if finding.code not in ON_BYTES:
            return _Suspect(finding, reason=NO_HOST if finding.code.startswith("HZ6") else SHARED)
        m = self.names.index(finding.method)
        if finding.code == "HZ201":
            views = [s for s in self._slots(m, finding.use) if (m, s) in self.twin.orphans | self.twin.on_results]
            if views:
                return _Suspect(finding, alone=[(m, s) for s in views])
        places = [p for p in (finding.define, finding.clobber, finding.use) if p]
        main = [(m, s) for p in places for s in self._slots(m, p)]
        every = [*main, *((m, s) for p in (*finding.all_defines, *finding.all_clobbers) for s in self._written(m, p))]
        sets = [s for s in (list(dict.fromkeys(main)), list(dict.fromkeys(every))) if self._moved_apart(s)]
        if not sets:
            return _Suspect(finding, reason=SHARED)
        return _Suspect(finding, together=sets)

    def _slots(self, m: int, place: Place | None) -> list[int]:
        """The slots that own the bytes of a place: the one that it names, and those that it may refer to."""
        if place is None or place.arena is None:
            return []
        method = self.analyses[m].method
        found = []
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.planned:
                planned = value.planned
                if (planned.arena, planned.offset, value.nbytes) == (place.arena, place.offset, place.nbytes):
                    found.append(slot)
        # Many slots can have these bytes in turn; only those that the place is about may stay together.
        if place.slot in found:
            return [place.slot]
        step = self.analyses[m].flow.code[place.position] if place.position >= 0 else None
        effect = self.analyses[m].effects[place.position] if step is not None else None
        written = {*effect.writes, *effect.updates, *effect.appends} if effect else set()
        if own := [s for s in found if s in written]:
            return own
        moved = self.analyses[m].roles.root
        if place.slot is not None:
            return [s for s in found if moved.get(s, s) == moved.get(place.slot, place.slot)]
        return found

    def _written(self, m: int, place: Place) -> list[int]:
        """The slots that the instruction at a place writes; a definer on another path may use another slot."""
        effect = self.analyses[m].effects[place.position] if place.position >= 0 else None
        if effect is None:
            return self._slots(m, place)
        found = (*effect.writes, *effect.updates, *effect.appends)
        return [s for s in found if self.analyses[m].method.tensor(s).planned]

    def _moved_apart(self, slots: list[Slot]) -> bool:
        """Whether the twin has changed the distance of any two of the slots."""
        if len(slots) < 2:
            return False
        (m, first), *_ = slots
        old = self.analyses[m].method.tensor(first).planned
        assert old is not None
        for _, other in slots[1:]:
            planned = self.analyses[m].method.tensor(other).planned
            if planned is None or planned.arena != old.arena:
                continue
            before = planned.offset - old.offset
            if self.twin.offsets.get((m, other), 0) - self.twin.offsets.get((m, first), 0) != before:
                return True
        return False

    def _specific(self, suspect: _Suspect) -> list[bytes]:
        if suspect.twins is None:
            if suspect.alone:
                suspect.twins = [self._twin(alone=suspect.alone, pattern=p).data for p in (0, 1)]
            else:
                suspect.twins = [self._twin(together=[s]).data for s in suspect.together]
        return suspect.twins

    # --- running

    def go(
        self, given: Sequence[Sequence[Call]] | None, seed: int, progress: Callable[[int, int, int], None] | None
    ) -> None:
        possible = sum(s.open for s in self.suspects)
        for calls in given if given is not None else self._made_up(seed):
            if self.result.runs and time.perf_counter() > self.stop:
                break
            self._sequence(list(calls))
            if progress:
                done = sum(s.difference is not None for s in self.suspects)
                progress(self.result.runs, done, possible)

    def _made_up(self, seed: int) -> Iterator[list[Call]]:
        generator = Generator(self.program.program, thresholds(self.program.program), seed)
        number = 0
        while number < LEAST_SEQUENCES or any(s.open for s in self.suspects):
            failed = sum(self.result.failures.values())
            yield generator.sequence(number, CALLS)
            if sum(self.result.failures.values()) > failed:
                # Indices that are too large and sizes that do not fit each other are the likeliest reasons.
                generator.tame()
            number += 1
            if not self.suspects and number >= LEAST_SEQUENCES:
                break

    def _sequence(self, calls: list[Call]) -> None:
        got, expected = run(self.data, calls), run(self.twin.data, calls, self.loadable)
        self.result.runs += 1
        self.result.calls += len(got)
        for result in got:
            if result.error:
                self.result.failures[result.error] = self.result.failures.get(result.error, 0) + 1
        if got[0].error.startswith("Failed to load"):
            # No call was made. The twin may load even so: writing it anew repairs files of old formats.
            self._refused(calls, got[0].error)
            return
        difference = first_difference(calls, got, expected)
        if difference is None and self.patterned is not None:
            # What depends on bytes that nobody writes is wrong, whatever the program's own bytes happened to hold.
            difference = first_difference(calls, got, run(self.patterned.data, calls, self.loadable))
        if difference is None:
            return
        explained = self._attribute(calls, got, expected, difference)
        if not explained and len(self.result.missed) < 5 and not self._known(difference):
            self.result.missed.append(Missed(tuple(calls[: difference.call]), difference))

    def _refused(self, calls: list[Call], error: str) -> None:
        """The runtime does not take the program, which is what some rules say."""
        for suspect in self.suspects:
            if suspect.finding.code == "HZ701" and suspect.open:
                suspect.difference = Difference(1, calls[0][0], None, error, "a result")
                suspect.calls = tuple(calls[:1])

    def _known(self, difference: Difference) -> bool:
        return any(m.difference.method == difference.method for m in self.result.missed)

    def _attribute(
        self, calls: list[Call], got: list[Result], expected: list[Result], difference: Difference
    ) -> bool:
        """Finds the suspects that are enough to make a difference on these calls; whether there is one."""
        explained = False
        for suspect in self.suspects:
            if suspect.reason or suspect.between or (explained and not suspect.open):
                continue
            if time.perf_counter() > self.stop and explained:
                break
            for data in self._specific(suspect):
                alone = first_difference(calls, run(data, calls, self.loadable), expected)
                if alone is None:
                    continue
                explained = True
                if suspect.open:
                    suspect.difference = _closest(calls, got, expected, alone) or difference
                    suspect.calls = tuple(calls[: suspect.difference.call])
                    self._shorten(suspect, data)
                break
        if not explained and self._everything is not None:
            # Several faults together can do what none of them does alone.
            explained = first_difference(calls, run(self._everything, calls, self.loadable), expected) is not None
        if not explained:
            for suspect in self.suspects:
                if suspect.between and not suspect.reason:
                    explained = True
                    if suspect.open:
                        suspect.difference, suspect.calls = difference, tuple(calls[: difference.call])
        return explained

    def _shorten(self, suspect: _Suspect, data: bytes) -> None:
        """Leaves out calls that the wrong result does not need."""
        calls = list(suspect.calls)
        for i in reversed(range(len(calls) - 1)):
            fewer = calls[:i] + calls[i + 1 :]
            got, expected = run(self.data, fewer), run(self.twin.data, fewer, self.loadable)
            alone = first_difference(fewer, run(data, fewer, self.loadable), expected)
            found = alone and _closest(fewer, got, expected, alone)
            if found and found.call == len(fewer):
                calls, suspect.difference = fewer, found
        suspect.calls = tuple(calls)

    @property
    def _everything(self) -> bytes | None:
        """The twin in which the faults of all suspects are left, if there are several."""
        if self._joined is None:
            suspects = [s for s in self.suspects if s.together or s.alone]
            sets = [g for s in suspects for g in s.together]
            alone = [v for s in suspects for v in s.alone]
            self._joined = (self._twin(together=sets, alone=alone).data if len(suspects) > 1 else None,)
        return self._joined[0]

    def finish(self) -> Confirmation:
        runs = self.result.runs
        for s in self.suspects:
            if s.reason:
                self.result.evidence.append(Evidence(s.finding, "not-confirmable", runs, s.reason))
            elif s.difference is None and s.finding.code.startswith("HZ6"):
                self.result.evidence.append(Evidence(s.finding, "not-confirmable", runs, SHARED))
            elif s.difference is None and s.finding.code == "HZ701" and len(self.names) > 1:
                self.result.evidence.append(Evidence(s.finding, "not-confirmable", runs, ONE_SET))
            elif s.difference is None:
                self.result.evidence.append(Evidence(s.finding, "not-reproduced", runs))
            else:
                reason = OTHERWISE_WRONG if s.finding.code.startswith("HZ6") else ""
                self.result.evidence.append(Evidence(s.finding, "confirmed", runs, reason, s.calls, s.difference))
        return self.result


def _closest(
    calls: Sequence[Call], got: Sequence[Result], expected: Sequence[Result], alone: Difference
) -> Difference | None:
    """The difference of the program itself at the output at which the fault alone makes one."""
    number, output = alone.call - 1, alone.output
    if output is None or number >= min(len(got), len(expected)) or got[number].error or expected[number].error:
        return None
    a, b = got[number].values[output], expected[number].values[output]
    return None if same(a, b) else Difference(alone.call, alone.method, output, a, b)


