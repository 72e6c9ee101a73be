"""Runs a program beside its twin, and beside eager where the model is known, and says which findings are confirmed.

A finding on bytes is confirmed when the program and its twin differ on a sequence of calls, and a twin in which this
finding's tensors still share their bytes differs on the same sequence: the fault alone is enough. What the twin shares
with the program is confirmed when both differ from eager, at an output that the finding's value can reach.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hazard.analysis.conflicts import Place
from hazard.api import ProgramReport, Report, check
from hazard.confirm.inputs import Call, Generator, load_inputs, thresholds
from hazard.confirm.reach import outputs_reached
from hazard.confirm.reference import close, differs_from_eager, reference_of
from hazard.confirm.session import INSTALL, Difference, Result, Session, first_difference, run, same, silence
from hazard.confirm.twin import SHARED_ARENA, Slot, Twin, make_twin
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

SHARED: Final = (
    "the twin computes the same: the fault is not one of shared bytes; with the model itself as the reference it shows"
)
OTHERWISE_WRONG: Final = "the twin has this fault as well, so that what it returns is not right either"
ONE_SET: Final = "this runtime gives all methods one set of arenas, as large as the largest; others do not"
NO_OUTPUT: Final = "no output depends on the value: it is state that only feeds itself"
NO_HOST: Final = "what the caller does with outputs and inputs cannot be seen from inside this runtime"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runtime says of one finding.

    ``outcome``: confirmed, not-reproduced or not-confirmable (``reason`` says why). For a confirmed one: the calls up
    to the wrong result, and where it is. ``runs`` is the number of sequences of calls that were tried. ``eager`` holds
    what eager returns for the calls, where it is the reference.
    """

    finding: Finding
    outcome: str
    runs: int
    reason: str = ""
    calls: tuple[Call, ...] = ()
    difference: Difference | None = None
    eager: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Missed:
    """A difference between the program and its twin, or eager, that no finding explains.

    ``of_bytes``: the twin computes something else, so that even a program file shows the fault.
    """

    calls: tuple[Call, ...]
    difference: Difference
    of_bytes: bool = True
    eager: tuple[Result, ...] = ()


@dataclass(slots=True)
class Confirmation:
    """All that came of it. ``twin`` is the twin's program, ``graph`` whether the findings are those of the graphs.
    ``failures`` are errors of calls, by their text."""

    report: Report
    data: bytes
    twin: bytes
    graph: bool = False
    eager: bool = False
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
    source: Any,
    *,
    graph: Any = None,
    reference: Any = None,
    sequences: str | Sequence[Sequence[Call]] | None = None,
    budget: float = 30.0,
    seed: int = 0,
    progress: Callable[[Any, int, int, int], None] | None = None,
    started: Callable[[], None] | None = None,
    **options: Any,
) -> Confirmation:
    """Checks a program and runs it for up to ``budget`` seconds.

    ``source`` is a program file, as a path or its bytes, or what `hazard.pipeline.lowered` takes or makes: an
    ``ExecutorchProgramManager``, an ``EdgeProgramManager``, a module with its example inputs. ``graph`` is one of these
    that a program file was made from. ``reference`` is the model to compare with, see
    `hazard.confirm.reference.reference_of`; without it that of ``source`` or ``graph``, where it has one.
    ``sequences`` are the caller's own calls, or the path of a file of them; without them calls are made up from
    ``seed``. ``options`` are those of `hazard.check`. ``progress`` is called with a stream, the sequences run, the
    findings confirmed, and those that can be; ``started`` when running begins. Raises InputError for what is no
    program, and where executorch is not installed.
    """
    begun = time.perf_counter()
    model = None
    how = {name: options.pop(name, None) for name in ("config", "signature")}
    if isinstance(source, str | bytes | os.PathLike):
        path = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
        report = check(source, **options)
        emitted = report.programs[0]
        data = _program_bytes(source if isinstance(source, bytes) else _read(path), emitted.path)
        if graph is not None:
            made = _lowered(graph, how)
            report = check(source, graph=made.program, **options)
            model = made.model
    else:
        made = _lowered(source, how)
        report = check(made.program, **{"name": "<graphs>", **options})
        emitted = check(made.data, **options).programs[0]
        data, model = made.data, made.model
    with silence() as stream:
        run_ = _Run(report, emitted, data, reference if reference is not None else model)
        # Loading torch takes seconds of its own; the budget is for running.
        run_.stop = time.perf_counter() + budget
        if started:
            started()
        if isinstance(sequences, str):
            sequences = load_inputs(sequences, emitted.program)
        run_.go(sequences, seed, (lambda *counts: progress(stream, *counts)) if progress else None)
    result = run_.finish()
    result.seconds = time.perf_counter() - begun
    return result


def _lowered(thing: Any, how: dict[str, Any]) -> Any:
    from hazard.pipeline import Lowered, lowered

    return thing if isinstance(thing, Lowered) else lowered(thing, **how)


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
    """A finding, and the twins in which its fault alone is left, the most specific first; made when needed.

    ``shared``: the twin has the fault as well, so that only eager tells; ``reaches`` are the outputs that it can show
    at, as (method, number).
    """

    finding: Finding
    reason: str = ""  # why it cannot be confirmed
    shared: bool = False
    reaches: set[tuple[str, int]] | None = None
    together: list[list[Slot]] = field(default_factory=list)
    alone: list[Slot] = field(default_factory=list)
    between: bool = False
    twins: list[bytes] | None = None
    calls: tuple[Call, ...] = ()
    difference: Difference | None = None
    others: int = 0  # findings that explain the same difference

    @property
    def open(self) -> bool:
        return not self.reason and self.difference is None


class _Run:
    """``report`` holds the findings, on the graphs or on the file; ``emitted`` is the check of the file, of which the
    twins are made. The slots of a file are the first of its graphs."""

    def __init__(self, report: Report, emitted: ProgramReport, data: bytes, model: Any) -> None:
        self.stop = float("inf")
        self.data = data
        self.program = emitted
        self.emitted = [m.analysis for m in emitted.methods]
        self.names = [m.name for m in emitted.methods]
        checked = {m.name: m.analysis for m in report.programs[0].methods}
        self.analyses = [checked.get(name, analysis) for name, analysis in zip(self.names, self.emitted, strict=True)]
        self.reference = reference_of(model, self._shared_states()) if model is not None else None
        self.twin = self._twin()
        self.patterned = self._twin(pattern=1) if self.twin.orphans else None
        self.suspects = [self._suspect(f) for f in report.findings if f.severity != "note"]
        graph = report.programs[0] is not emitted
        self.result = Confirmation(report, data, self.twin.data, graph, self.reference is not None)
        self._joined: tuple[bytes | None] | None = None
        with silence():
            # Some methods may need data or operators that are not here; the others can run.
            self.loadable = [n for n in self.names if not Session(self.twin.data, [n]).error]

    def _shared_states(self) -> frozenset[str]:
        """Names of the buffers that the planner was asked to let methods share."""
        planned = [
            {v.fqn for v in a.method.values
             if isinstance(v, Tensor) and v.fqn and v.planned and v.planned.arena >= SHARED_ARENA}
            for a in self.analyses
        ]  # fmt: skip
        counts = Counter(name for names in planned for name in names if name)
        return frozenset(name for name, count in counts.items() if count > 1)

    def _twin(self, **options: Any) -> Twin:
        try:
            return make_twin(self.data, self.emitted, **options)
        except ImportError as e:
            raise InputError(f"running programs needs torch and executorch ({e}); {INSTALL}") from None
        except (ValueError, AssertionError, LookupError, AttributeError, TypeError, struct.error) as e:
            raise InputError(f"{self.program.path}: ExecuTorch cannot read or rewrite it: {e}") from None

    # --- what stands behind a finding

    def _suspect(self, finding: Finding) -> _Suspect:
        if finding.code in BY_ELIMINATION:
            return _Suspect(finding, between=True)
        if finding.method not in self.names or (finding.code not in ON_BYTES and finding.code.startswith("HZ6")):
            return _Suspect(finding, reason=NO_HOST)
        m = self.names.index(finding.method)
        if finding.code not in ON_BYTES and not finding.code.startswith("HZ4"):
            return self._suspect_of_eager(finding, m)
        if finding.code == "HZ201":
            views = [s for s in self._slots(m, finding.use) if (m, s) in self.twin.orphans | self.twin.on_results]
            if views:
                return _Suspect(finding, alone=[(m, s) for s in views])
        places = [p for p in (finding.define, finding.clobber, finding.use) if p]
        main = [(m, s) for p in places for s in self._slots(m, p)]
        every = [*main, *((m, s) for p in (*finding.all_defines, *finding.all_clobbers) for s in self._written(m, p))]
        sets = [s for s in (list(dict.fromkeys(main)), list(dict.fromkeys(every))) if self._moved_apart(s)]
        if not sets:
            return self._suspect_of_eager(finding, m)
        return _Suspect(
            finding, together=sets, shared=finding.code not in ON_BYTES, reaches=self._reaches(finding, m)
        )

    def _suspect_of_eager(self, finding: Finding, m: int) -> _Suspect:
        """A suspect whose fault the twin shares."""
        reaches = self._reaches(finding, m)
        reason = NO_OUTPUT if reaches == set() else "" if self.reference else SHARED
        return _Suspect(finding, reason=reason, shared=True, reaches=reaches)

    def _reaches(self, finding: Finding, m: int) -> set[tuple[str, int]] | None:
        if finding.use is None or finding.use.slot is None:
            return None
        found = outputs_reached(self.analyses, (m, finding.use.slot))
        return {(self.names[method], number) for method, number in found}

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
        named = method.emitted_slot(place.slot) if place.slot is not None else None
        if named in found:
            return [named]
        step = self.analyses[m].flow.code[place.position] if place.position >= 0 else None
        effect = self.analyses[m].effects[place.position] if step is not None else None
        touched = (*effect.writes, *effect.updates, *effect.appends) if effect else ()
        written = set(map(method.emitted_slot, touched))
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
        method = self.analyses[m].method
        found = [method.emitted_slot(s) for s in (*effect.writes, *effect.updates, *effect.appends)]
        return [s for s in found if method.tensor(s).planned]

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
        if self.reference and (examples := {n: i for n, i in self.reference.examples.items() if n in self.names}):
            yield [(name, list(examples[name])) for name in list(examples) * CALLS][: max(CALLS, len(examples))]
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
        eager = self._eager(calls)
        for error in [r.error for r in got] + [f"in eager: {r.error}" for r in eager if r.error]:
            if error:
                self.result.failures[error] = self.result.failures.get(error, 0) + 1
        if got[0].error.startswith("Failed to load"):
            # No call was made. The twin may load even so: writing it anew repairs files of old formats.
            self._refused(calls, got[0].error)
            return
        wrong = differs_from_eager(calls, got, eager)
        difference = first_difference(calls, got, expected)
        if difference is not None and _agree(got, eager, difference):
            # The program is right where it differs from its twin: the twin is wrong.
            difference = None
        if difference is None and self.patterned is not None:
            # What depends on bytes that nobody writes is wrong, whatever the program's own bytes happened to hold.
            difference = first_difference(calls, got, run(self.patterned.data, calls, self.loadable))
        if difference is not None:
            shown = wrong or difference
            if not self._attribute(calls, got, expected, eager, shown):
                self._miss(Missed(tuple(calls[: shown.call]), shown, eager=tuple(eager[: shown.call])))
        if wrong is None:
            return
        # What is wrong in the twin as well lies in the instructions.
        twins = differs_from_eager(calls, expected, eager)
        if twins is not None and not self._attribute_to_instructions(calls, got, eager, twins) and difference is None:
            self._miss(Missed(tuple(calls[: wrong.call]), wrong, of_bytes=False, eager=tuple(eager[: wrong.call])))

    def _eager(self, calls: Sequence[Call]) -> list[Result]:
        return self.reference.run(calls) if self.reference else []

    def _miss(self, missed: Missed) -> None:
        known = any(m.difference.method == missed.difference.method for m in self.result.missed)
        if not known and len(self.result.missed) < 5:
            self.result.missed.append(missed)

    def _refused(self, calls: list[Call], error: str) -> None:
        """The runtime does not take the program, which is what some rules say."""
        for suspect in self.suspects:
            if suspect.finding.code == "HZ701" and suspect.open:
                suspect.difference = Difference(1, calls[0][0], None, error, "a result")
                suspect.calls = tuple(calls[:1])

    def _attribute(
        self, calls: list[Call], got: list[Result], expected: list[Result], eager: list[Result], difference: Difference
    ) -> bool:
        """Finds the suspects that are enough to make a difference on these calls; whether there is one."""
        explained = False
        for suspect in self.suspects:
            if not (suspect.together or suspect.alone) or (explained and not suspect.open):
                continue
            if time.perf_counter() > self.stop and explained:
                break
            for data in self._specific(suspect):
                alone = first_difference(calls, run(data, calls, self.loadable), expected)
                if alone is None:
                    continue
                explained = True
                if suspect.open:
                    suspect.difference = _closest(got, expected, eager, alone) or difference
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

    def _attribute_to_instructions(
        self, calls: list[Call], got: list[Result], eager: list[Result], twins: Difference
    ) -> bool:
        """Finds the suspects that can make the twin differ from eager where it does; whether there is one.

        No run takes them apart: each is confirmed by its own output, and told how many others reach the same.
        """
        shown = _closest(got, (), eager, twins)
        there = (twins.method, twins.output)
        able = [
            s for s in self.suspects
            if s.shared and (s.reaches is None or twins.output is None or there in s.reaches)
        ]  # fmt: skip
        able = able or [s for s in self.suspects if s.between or s.finding.code.startswith("HZ6")]
        for suspect in able:
            if suspect.difference is None and shown is not None:
                suspect.reason = ""
                suspect.difference, suspect.calls = shown, tuple(calls[: shown.call])
                suspect.others = len(able) - 1
                self._shorten(suspect, None)
        return bool(able)

    def _shorten(self, suspect: _Suspect, alone: bytes | None) -> None:
        """Leaves out calls that the wrong result does not need. ``alone`` is the twin with this fault, None for one
        that only eager shows."""
        calls = list(suspect.calls)
        for i in reversed(range(len(calls) - 1)):
            fewer = calls[:i] + calls[i + 1 :]
            got, expected, eager = run(self.data, fewer), run(self.twin.data, fewer, self.loadable), self._eager(fewer)
            if alone is not None:
                place = first_difference(fewer, run(alone, fewer, self.loadable), expected)
            else:
                place = differs_from_eager(fewer, expected, eager)
            found = place and _closest(got, expected, eager, place)
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
        self.result.evidence = [self._evidence(s) for s in self.suspects]
        return self.result

    def _evidence(self, s: _Suspect) -> Evidence:
        runs = self.result.runs
        if s.reason:
            return Evidence(s.finding, "not-confirmable", runs, s.reason)
        if s.difference is None and s.finding.code.startswith("HZ6"):
            return Evidence(s.finding, "not-confirmable", runs, SHARED)
        if s.difference is None and s.finding.code == "HZ701" and len(self.names) > 1:
            return Evidence(s.finding, "not-confirmable", runs, ONE_SET)
        if s.difference is None and s.reaches == set():
            return Evidence(s.finding, "not-confirmable", runs, NO_OUTPUT)
        if s.difference is None:
            return Evidence(s.finding, "not-reproduced", runs)
        reason = ""
        if s.others:
            reason = f"{s.others} other finding{'s reach' if s.others > 1 else ' reaches'} this output as well"
        elif self.reference is None and s.finding.code.startswith("HZ6"):
            reason = OTHERWISE_WRONG
        eager = tuple(self._eager(list(s.calls)))
        return Evidence(s.finding, "confirmed", runs, reason, s.calls, s.difference, eager)


def _closest(
    got: Sequence[Result], expected: Sequence[Result], eager: Sequence[Result], there: Difference
) -> Difference | None:
    """The difference of the program itself from eager, else from its twin, at a place where the fault makes one."""
    right, equal = (eager, close) if eager else (expected, same)
    number, output = there.call - 1, there.output
    if output is None or number >= min(len(got), len(right)) or got[number].error or right[number].error:
        return None
    # Eager does not return the inputs that a program changes.
    place = output - (len(got[number].values) - len(right[number].values))
    if place < 0:
        return None
    a, b = got[number].values[output], right[number].values[place]
    return None if equal(a, b) else Difference(there.call, there.method, output, a, b)


def _agree(got: Sequence[Result], eager: Sequence[Result], there: Difference) -> bool:
    """Whether the program returns what eager returns, at a place where something else differs."""
    number = there.call - 1
    if number >= len(eager) or eager[number].error or got[number].error or there.output is None:
        return False
    return differs_from_eager([(there.method, [])] * there.call, got[: there.call], eager[: there.call]) is None
