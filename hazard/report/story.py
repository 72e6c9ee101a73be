"""A finding told as a story: who defined, who overwrote, who read, on which path, and why that is a hazard.

All renderers for people take their words from here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hazard.analysis.flow import Stage, Use
from hazard.program import Kernel, Move, Origin, Tensor
from hazard.report.places import relative
from hazard.report.terminal import clean
from hazard.rule import Finding, value_word

if TYPE_CHECKING:
    from hazard.analysis.check import MethodAnalysis
    from hazard.analysis.conflicts import Decision, Place
    from hazard.api import ProgramReport

#: Definers or overwriters that are listed by name; the others are counted.
LISTED = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One point of the story. ``role`` is defined, overwritten or read; ``code`` is the instruction as text, in which
    ``slot`` is what the step is about.

    ``label`` says what happens there. ``gutter`` is the index of the instruction, or a word where there is none.
    """

    role: str
    place: Place
    gutter: str
    code: str
    slot: str
    label: str


@dataclass(frozen=True, slots=True)
class Story:
    """``path``: the branches taken, one text a call. ``why``: what the read expects and what it sees."""

    steps: tuple[Step, ...]
    path: tuple[str, ...]
    why: str
    notes: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def blamed(self) -> Step | None:
        """The overwriting step, else the reading one: where the story points."""
        for role in ("overwritten", "read", "defined"):
            for step in self.steps:
                if step.role == role:
                    return step
        return None


def tell(finding: Finding, program: ProgramReport) -> Story:
    """The story of one finding of a program."""
    return _Teller(finding, {m.name: m.analysis for m in program.methods}).story()


def event(place: Place, finding: Finding) -> tuple[str, int, int | None]:
    """What tells two events of one finding apart: method, position and call."""
    return place.method or finding.method, place.position, place.call


def span(place: Place) -> str:
    """``arena 1, bytes 0..8``; memory outside of arenas is named as such."""
    where = "unplanned memory" if place.arena is None else f"arena {place.arena}"
    return f"{where}, bytes {place.offset}..{place.offset + place.nbytes}"


def site(place: Place) -> str:
    """``[12] aten::clone.out``, with the method where one is given, and the call where it is not the first."""
    word = clean(place.operator)
    if place.instruction is not None:
        word = f"[{place.instruction}] {word}"
        if place.chain:
            word = f"chain {place.chain}, {word}"
    if place.method is not None and not word.startswith("load "):
        word = f"{clean(place.method)}{'' if word.startswith('[') else ', '}{word}"
    if place.call is not None and place.call > 1:
        word += f" in call {place.call}"
    return word


def source_of(origin: Origin | None) -> str | None:
    """``model.py:41 in forward`` where the origin is known."""
    if origin is None or origin.file is None:
        return None
    path = relative(origin.file)
    text = path if origin.line is None else f"{path}:{origin.line}"
    if origin.function:
        text += f" in {origin.function}"
    return clean(text)


def decided(decision: Decision, slot: Callable[[int], int] = int) -> str:
    """``[3] jump-false %7: true``: the predicate held, so the jump was not taken."""
    return f"[{decision.instruction}] jump-false %{slot(decision.slot)}: {'true' if decision.held else 'false'}"


def plural(count: int, noun: str) -> str:
    """``1 read``, ``2 reads``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class _Teller:
    def __init__(self, finding: Finding, analyses: dict[str, MethodAnalysis]) -> None:
        self.f = finding
        self.analyses = analyses
        self.analysis = analyses.get(finding.method)

    def story(self) -> Story:
        return Story(
            tuple(self.steps()), tuple(self.path()), self.why(), tuple(map(clean, self.notes())), tuple(self.sources())
        )

    def steps(self) -> list[Step]:
        f = self.f
        result = []
        calls = {p.call for p in (f.define, f.clobber, f.use) if p is not None and p.call is not None}
        told = len(calls) > 1 or any(c > 1 for c in calls)
        same = f.define is not None and f.define == f.clobber
        if f.define is not None and not same:
            if f.define.operator == "nothing":
                result.append(self.step("defined", f.define, f"nothing has written {self.name(f.define)}", told))
            else:
                label = f"{self.name(f.define)} is defined here"
                if f.use is not None and f.use.slot != f.define.slot:
                    label = f"the value of {self.name(f.use)} is defined here, as {self.name(f.define)}"
                result.append(self.step("defined", f.define, label, told))
        if f.clobber is not None:
            over = self.overlap(f.clobber)
            result.append(self.step("overwritten", f.clobber, f"{self.name(f.clobber)} is written here{over}", told))
        if f.use is not None:
            if f.use.operator == "output":
                label = f"{value_word(f.use)} is read here, as an output"
            elif self.together():
                label = f"{value_word(f.use)} is {'written' if same else 'read'} by the same instruction"
            elif buffer := self.updated(f.use):
                label = f"{value_word(f.use)} is read here, as the new value of buffer `{clean(buffer)}`"
            else:
                label = f"{value_word(f.use)} is read here"
            result.append(self.step("read", f.use, label, told))
        return result

    def updated(self, place: Place) -> str | None:
        """The buffer, by its name, that the instruction at a place gives its new value."""
        analysis = self.analyses.get(place.method or self.f.method)
        step = analysis.flow.code[place.position] if analysis is not None and place.instruction is not None else None
        if analysis is None or not isinstance(step, Kernel) or step.operator != "aten::copy_":
            return None
        buffer = analysis.method.values[analysis.method.emitted_slot(step.args[0])]
        return buffer.fqn if isinstance(buffer, Tensor) and place.slot != step.args[0] else None

    def together(self) -> bool:
        """Whether one execution of one instruction both writes and reads the bytes."""
        f = self.f
        return f.clobber is not None and f.use is not None and event(f.clobber, f) == event(f.use, f)

    def name(self, place: Place) -> str:
        """The value of a place, with its method where that is another one."""
        word = value_word(place)
        return word if place.method in (None, self.f.method) else f"{word} of method `{place.method}`"

    def overlap(self, clobber: Place) -> str:
        victim = self.f.use or self.f.define
        if victim is None or victim.arena is None or victim.arena != clobber.arena:
            return ""
        low = max(victim.offset, clobber.offset)
        high = min(victim.offset + victim.nbytes, clobber.offset + clobber.nbytes)
        if high <= low:
            return ""
        return f", over bytes {low}..{high} of {value_word(victim)}"

    def step(self, role: str, place: Place, label: str, told: bool) -> Step:
        parts = [label]
        if place.nbytes or place.arena is not None:
            parts.append(f"({span(place)})")
        if told and place.call is not None:
            parts.append(f"in call {place.call}")
        gutter = "" if place.instruction is None else str(place.instruction)
        if place.chain and gutter:
            gutter = f"{place.chain}/{gutter}"
        if place.method not in (None, self.f.method) and gutter:
            gutter = f"{clean(str(place.method))}:{gutter}"
        return Step(role, place, gutter, self.code(place), self.slot(place), clean(" ".join(parts)))

    def code(self, place: Place) -> str:
        """The instruction at a place as `.hir` has it; inputs, outputs and initial state as words."""
        analysis = self.analyses.get(place.method or self.f.method)
        if place.instruction is not None and analysis is not None:
            from hazard.text import print_instruction

            step = analysis.flow.code[place.position]
            assert not isinstance(step, Stage | Use)
            method, chain = analysis.method, place.chain
            return print_instruction(step, method.emitted_slot, lambda i: method.number_from(chain, i))
        slot = self.slot(place)
        if place.operator == "nothing":
            return f"{slot} before the first call"
        return f"{clean(place.operator)} {slot}" if slot else clean(place.operator)

    def slot(self, place: Place) -> str:
        """``%7``, as the emitted table has it; nothing where a place is about no value."""
        analysis = self.analyses.get(place.method or self.f.method)
        if place.slot is None:
            return ""
        return f"%{place.slot if analysis is None else analysis.method.emitted_slot(place.slot)}"

    def path(self) -> list[str]:
        witness = self.f.witness
        if witness is None:
            return []
        by_call: dict[int, list[str]] = {}
        slot: Callable[[int], int] = int if self.analysis is None else self.analysis.method.emitted_slot
        for decision in witness.decisions:
            by_call.setdefault(decision.call, []).append(decided(decision, slot))
        told = [f"call {call}, {', '.join(_folded(jumps))}" for call, jumps in sorted(by_call.items())]
        first = min(by_call, default=1)
        if first > 1:
            earlier = "call 1" if first == 2 else f"calls 1 to {first - 1}"
            told.insert(0, f"{earlier}, any branches")
        several = any(p is not None and p.method for p in (self.f.define, self.f.clobber, self.f.use))
        if not told and witness.calls > 1 and not several:
            told = [f"call {witness.calls} of the method"]
        if witness.sizes:
            told.append("sizes " + ", ".join(f"{name}={value}" for name, value in witness.sizes))
        return told

    def why(self) -> str:
        f = self.f
        if f.use is None or not f.use.nbytes:
            return ""
        victim = value_word(f.use)
        low, high = f.use.offset, f.use.offset + f.use.nbytes
        if f.witness is not None and f.witness.arena is not None and f.witness.high > f.witness.low:
            low, high = f.witness.low, f.witness.high
        if f.clobber is not None and f.clobber.arena == f.use.arena and self.overlap(f.clobber):
            low, high = max(low, f.clobber.offset), min(high, f.clobber.offset + f.clobber.nbytes)
        where = f"arena {f.use.arena}, bytes {low}..{high}" if f.use.arena is not None else f"bytes {low}..{high}"
        if self.together():
            return clean(f"the order of reads and writes inside {site(f.use)} is not specified: {where} belong to both")
        expects = "what was written for it"
        if f.define is not None and f.define.operator != "nothing":
            expects = f"what {site(f.define)} put there"
            if f.define.operator == "input":
                expects = f"the caller's {value_word(f.define)}"
            elif f.define.operator == "initial state" or f.define.operator.startswith("load "):
                expects = "the state as it was loaded"
        if f.clobber is not None:
            sees = f"what {site(f.clobber)} wrote to {where}"
        elif f.define is not None and f.define.operator == "nothing":
            return clean(f"the read of {victim} sees {where} as the host left them")
        elif f.define is None:
            sees = f"{where}, which nobody has written for it"
        elif f.define.arena == f.use.arena and self.overlap(f.define):
            return ""  # the right bytes; the message itself says what is wrong with them
        else:
            sees = f"{where}, where that value never was"
        return clean(f"the read of {victim} expects {expects}; it sees {sees}")

    def notes(self) -> list[str]:
        f = self.f
        notes = []
        for chain, index, move in self.moves():
            assert self.analysis is not None
            method = self.analysis.method
            number = method.number_from(chain, index)
            at = f"[{number}]" if not chain else f"chain {chain}, [{number}]"
            target, source = method.emitted_slot(move.target), method.emitted_slot(move.source)
            notes.append(
                f"{at} move %{target} <- %{source} makes `%{target}` refer to the tensor of `%{source}`;"
                " it copies no data"
            )
        for title, places, chosen in (
            ("defined, on other paths, by", f.all_defines, f.define),
            ("overwritten as well by", f.all_clobbers, f.clobber),
        ):
            others = [p for p in places if chosen is None or self.party(p) != self.party(chosen)]
            if others:
                more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
                notes.append(f"{title} {', '.join(site(p) for p in others[:LISTED])}{more}")
        if f.certainty != "certain":
            because = f": {'; '.join(f.approximations)}" if f.approximations else ""
            notes.append(f"possible, not certain{because}")
        elif f.approximations:
            notes.append(f"approximations: {'; '.join(f.approximations)}")
        notes.extend(f.notes)
        return notes

    def party(self, place: Place) -> tuple[str, int, int | None]:
        """One definer or overwriter, in whichever call."""
        method, position, _ = event(place, self.f)
        return method, position, place.slot

    def moves(self) -> list[tuple[int, int, Move]]:
        """The moves, if any, that led from the slot of the definition to the slot of the read."""
        f = self.f
        if f.define is None or f.use is None or self.analysis is None or f.define.slot == f.use.slot:
            return []
        into: dict[int, list[tuple[int, int, Move]]] = {}
        for chain, index, instruction in self.analysis.method.instructions():
            if isinstance(instruction, Move):
                into.setdefault(instruction.target, []).append((chain, index, instruction))
        seen = {f.use.slot}
        work: list[tuple[int | None, list[tuple[int, int, Move]]]] = [(f.use.slot, [])]
        while work:
            slot, trail = work.pop(0)
            if slot == f.define.slot:
                return trail
            for chain, index, move in into.get(slot if slot is not None else -1, ()):
                if move.source not in seen:
                    seen.add(move.source)
                    work.append((move.source, [(chain, index, move), *trail]))
        return []

    def sources(self) -> list[str]:
        """The lines of the model behind the steps, with their text."""
        f = self.f
        told = []
        for role, place in (("defined", f.define), ("overwritten", f.clobber), ("read", f.use)):
            origin = place.origin if place is not None else None
            if source := source_of(origin):
                assert origin is not None
                text = clean(origin.source or "")
                told.append(f"{role} at {source}" + (f": `{text}`" if text else ""))
            elif place is not None and origin is not None and (lines := self.around(place)):
                told.append(f"{role} by what the exporter made, {lines}")
        return told

    def around(self, place: Place) -> str:
        """The nearest lines before and after an instruction that has none of its own."""
        analysis = self.analyses.get(place.method or self.f.method)
        if analysis is None or place.instruction is None:
            return ""
        code, at = analysis.flow.code, place.position
        before = next(filter(None, map(_line, reversed(code[:at]))), None)
        after = next(filter(None, map(_line, code[at + 1 :])), None)
        if before == after or after is None:
            return f"after {before}" if before else ""
        return f"between {before} and {after}" if before else f"before {after}"


def _line(step: object) -> str | None:
    origin = getattr(step, "origin", None)
    return source_of(origin) if origin is not None and origin.line is not None else None


def _folded(jumps: list[str]) -> list[str]:
    """Runs of the same decision, as loops make them, told once."""
    result: list[str] = []
    i = 0
    while i < len(jumps):
        for length in (1, 2, 3, 4):
            unit = jumps[i : i + length]
            count = 1
            while jumps[i + count * length : i + (count + 1) * length] == unit:
                count += 1
            if count > 2:
                result.append(f"{unit[0]} ({count} times)" if length == 1 else f"({', '.join(unit)}) {count} times")
                i += count * length
                break
        else:
            result.append(jumps[i])
            i += 1
    return result
