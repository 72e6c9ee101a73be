"""The bytecode as a person wants it: branches and loops indented, numbers in place, moves resolved, hazards marked.

Also the life of one value: where it is defined, moved, viewed, read and overwritten, and on which paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hazard.analysis.flow import Stage, Use
from hazard.analysis.reaching import FILL, LOAD
from hazard.program import (
    NULL,
    Alias,
    DelegateCall,
    Free,
    InputError,
    JumpFalse,
    Kernel,
    Method,
    Move,
    NumberList,
    Origin,
    Scalar,
    Tensor,
    TensorList,
)
from hazard.report.story import source_of
from hazard.report.terminal import Paint, clean

if TYPE_CHECKING:
    from hazard.analysis.check import MethodAnalysis
    from hazard.api import MethodReport, ProgramReport
    from hazard.rule import Finding

#: Live tensors that are named beside an instruction; the others are counted.
NAMED = 6


@dataclass(frozen=True, slots=True)
class Part:
    """A branch or loop: instructions ``first`` to ``last`` of one chain, what decides it, and what people call it."""

    kind: str  # "if", "else" or "loop"
    first: int
    last: int
    jump: int
    words: str

    def __str__(self) -> str:
        return self.words


def parts_of(method: Method, chain: int, written: Collection[int]) -> list[Part]:
    """Branches and loops of a chain, outermost first, as the emitter of ExecuTorch lays them out.

    Jumps of another shape are left as jumps. ``written`` are the slots of numbers that some instruction writes.
    """
    code = method.chains[chain]
    numbers = method.numbers(chain)
    found = []
    for i, step in enumerate(code):
        if not isinstance(step, JumpFalse) or _is_skip(method, step, written):
            continue
        if step.target <= i:
            begin = method.number_from(chain, step.target)
            found.append(Part("loop", step.target, i, i, f"the loop of [{begin}] to [{numbers[i]}]"))
            continue
        branch = f"the branch of [{numbers[i]}] where %{method.emitted_slot(step.condition)} is"
        last = step.target - 1
        skip = code[last] if last > i else None
        if isinstance(skip, JumpFalse) and _is_skip(method, skip, written) and skip.target > last:
            found.append(Part("if", i + 1, last - 1, i, f"{branch} true"))
            found.append(Part("else", step.target, skip.target - 1, i, f"{branch} false"))
        else:
            found.append(Part("if", i + 1, last, i, f"{branch} true"))
    return sorted((p for p in found if p.first <= p.last), key=lambda p: (p.first, -p.last))


def _is_skip(method: Method, jump: JumpFalse, written: Collection[int]) -> bool:
    """Whether a jump is always taken, as that over an else branch is."""
    value = method.values[jump.condition]
    return isinstance(value, Scalar) and value.value is False and jump.condition not in written


class Listing:
    """One method with all that its analysis knows."""

    def __init__(self, report: MethodReport, findings: Iterable[tuple[int, Finding]], paint: Paint) -> None:
        self.report, self.paint = report, paint
        self.a: MethodAnalysis = report.analysis
        self.method = self.a.method
        self.findings = list(findings)
        self.parts = [parts_of(self.method, c, self.a.scalars.written) for c in range(len(self.method.chains))]
        self.numbers = [self.method.numbers(c) for c in range(len(self.method.chains))]
        self._present: list[int] | None = None

    # --- words --------------------------------------------------------------------------------------------------------

    def name(self, slot: int) -> str:
        """``%7``, with the name in the model where it is known."""
        value = self.method.values[slot]
        known = (value.name or value.fqn) if isinstance(value, Tensor) else None
        return f"{self.slot(slot)}:{clean(known)}" if known else self.slot(slot)

    def slot(self, slot: int) -> str:
        """``%7``: where a value lies in the emitted table, in which a graph's mere names for values have no entry."""
        return f"%{self.method.emitted_slot(slot)}"

    def argument(self, slot: int) -> str:
        """What stands at a slot: a number as itself, a tensor by its name."""
        value = self.method.values[slot]
        match value:
            case Tensor():
                return self.name(slot)
            case Scalar() if value == NULL:
                return "none"
            case Scalar(_, payload) if slot not in self.a.scalars.written:
                return clean(str(payload).lower() if isinstance(payload, bool) else repr(payload))
            case TensorList(items):
                return "[" + ", ".join(self.name(i) if i >= 0 else "none" for i in items) + "]"
            case NumberList("ints", items):
                return "[" + ", ".join(self.argument(int(i)) for i in items) + "]"
            case NumberList(_, items):
                return "[" + ", ".join(map(str, items)) + "]"
        return f"%{slot}"

    def place(self, slot: int) -> str:
        """``1+0..16``, ``const 3`` or nothing for memory of the caller."""
        value = self.method.values[slot]
        if not isinstance(value, Tensor):
            return ""
        if value.planned is not None:
            return f"{value.planned.arena}+{value.planned.offset}..{value.planned.offset + value.nbytes}"
        return f"const {value.placement.key}" if value.is_constant else "unplanned"  # type: ignore[union-attr]

    def instruction(self, position: int) -> str:
        """The instruction in words, results first."""
        step = self.a.flow.code[position]
        effect = self.a.effects[position]
        match step:
            case Kernel(operator, args):
                results = (*effect.writes, *effect.updates, *effect.appends, *effect.scalars)
                shown = list(args)
                # The results stand at the end once more, by the emitter's convention.
                if shown and (shown[-1] in results or isinstance(self.method.values[shown[-1]], TensorList)):
                    shown.pop()
                left = ", ".join(self.name(s) for s in results)
                inner = ", ".join(self.argument(s) for s in shown if s not in effect.writes or s in effect.updates)
                return f"{left + ' = ' if left else ''}{clean(operator)}({inner})"
            case DelegateCall(delegate, args):
                names = self.method.delegates
                word = clean(names[delegate]) if delegate < len(names) else str(delegate)
                left = ", ".join(self.name(s) for s in (*effect.writes, *effect.may_writes))
                inner = ", ".join(self.argument(s) for s in args if s not in effect.writes)
                return f"{left + ' = ' if left else ''}delegate {word}({inner})"
            case Move(source, target):
                return f"{self.name(target)} := {self.name(source)}"
            case Alias(source, target):
                return f"{self.name(target)} means {self.name(source)}"
            case Free(value):
                return f"free {self.name(value)}"
            case JumpFalse(condition, target):
                number = self.method.number_from(self.chain(position), target)
                return f"jump-false {self.argument(condition)} -> {number}"
            case Stage(slot):
                return f"input {self.name(slot)}"
            case Use(slot):
                return f"output {self.name(slot)}"
        raise TypeError(step)

    def touched(self, position: int) -> str:
        """Which bytes an instruction reads and writes; slots that moves re-point by what they may refer to."""
        effect = self.a.effects[position]
        step = self.a.flow.code[position]
        if isinstance(step, Move | Alias):
            if isinstance(step, Alias):
                return ""
            through = step.source in self.a.roles.moved
            return f"refers to {f'what {self.slot(step.source)} refers to' if through else self.place(step.source)}"
        told = []
        for word, slots in (
            ("writes", effect.writes),
            ("updates", (*effect.updates, *effect.appends)),
            ("may write", effect.may_writes),
            ("reads", effect.reads),
        ):
            shown = [self.seen(position, s, word == "reads") for s in slots]
            if shown:
                told.append(f"{word} {', '.join(shown)}")
        return "; ".join(told)

    def seen(self, position: int, slot: int, read: bool) -> str:
        """The bytes behind a slot at a position."""
        if read:
            objects = sorted({f[0] for f in self.a.reaching.reads.get((position, slot), ())})
        else:
            objects = sorted(self.a.reaching.writes.get((position, slot), ()))
        others = [o for o in objects if self.slot(o) != self.slot(slot)]
        if not others:
            return f"{self.slot(slot)} {self.place(objects[0] if objects else slot)}"
        return f"{self.slot(slot)} -> " + " or ".join(f"{self.slot(o)} {self.place(o)}" for o in objects)

    def live(self, position: int) -> str:
        """The planned tensors that hold a value at a position."""
        from hazard.repair.interference import bits, lives

        if self._present is None:
            self._present = lives(self.a).present
        slots = list(bits(self._present[position]))
        if not slots:
            return ""
        more = f" and {len(slots) - NAMED} more" if len(slots) > NAMED else ""
        return "live " + " ".join(map(self.slot, slots[:NAMED])) + more

    def chain(self, position: int) -> int:
        site = self.a.flow.sites[position]
        return site[0] if site is not None else 0

    # --- the listing --------------------------------------------------------------------------------------------------

    def lines(self, around: int | None, reach: int = 6) -> Iterator[str]:
        """The method, or what lies around an instruction."""
        paint = self.paint
        verdict = self.report.verdict
        yield paint("bold", f"method {clean(self.method.name)}") + f"  ({verdict})"
        if around is None:
            for arena, details in sorted(self.method.arenas.items()):
                device = f" on {clean(details.device)}" if details.device else ""
                yield f"  arena {arena}: {details.size} bytes{device}"
            for position in range(self.a.flow.first):
                yield from self._event(position, 0, "")
        for chain, code in enumerate(self.method.chains):
            if len(self.method.chains) > 1:
                yield f"  chain {chain}"
            centre = self.numbers[chain].index(around) if around in self.numbers[chain] else None
            for index in range(len(code)):
                if around is not None and (centre is None or abs(index - centre) > reach):
                    continue
                yield from self._instruction(chain, index)
        if around is None:
            tail = len(self.a.flow.code) - len(self.method.outputs)
            for position in range(tail, len(self.a.flow.code)):
                yield from self._event(position, 0, "")

    def _instruction(self, chain: int, index: int) -> Iterator[str]:
        step = self.method.chains[chain][index]
        position = self.a.flow.starts[chain] + index
        number = self.numbers[chain][index]
        gutter = "" if number is None else str(number)
        parts = self.parts[chain]
        for part in parts:
            if part.kind == "loop" and part.first == index:
                depth = sum(p is not part and p.first <= index and part.last <= p.last for p in parts)
                yield self._row("", depth, self.paint("gutter", "loop"), "")
        depth = sum(p.first <= index <= p.last for p in parts)
        own = next((p for p in parts if p.jump == index and p.kind != "else"), None)
        if isinstance(step, JumpFalse) and own is not None:
            if own.kind == "loop":
                text, depth = f"again until all of {self.slot(step.condition)} is true", depth - 1
            else:
                text = f"if all of {self.name(step.condition)} is true"
            yield from self._event(position, depth, gutter, self.paint("gutter", text))
        elif isinstance(step, JumpFalse) and any(p.kind == "else" and p.first == index + 1 for p in parts):
            yield from self._event(position, depth, gutter, self.paint("gutter", "else"))
        else:
            yield from self._event(position, depth, gutter)

    def _event(self, position: int, depth: int, gutter: str, text: str | None = None) -> Iterator[str]:
        step = self.a.flow.code[position]
        origin: Origin | None = None if isinstance(step, Stage | Use) else step.origin
        remarks = [source_of(origin) or "", self.touched(position), self.live(position) if gutter else ""]
        yield self._row(gutter, depth, text or self.instruction(position), "; ".join(r for r in remarks if r))
        for number, finding in self.findings:
            for role, place in (("defined", finding.define), ("overwritten", finding.clobber), ("read", finding.use)):
                here = place is not None and place.method in (None, self.method.name) and place.position == position
                # Definitions before the first call have no position of their own.
                if place is None or not here or (place.instruction is None and gutter):
                    continue
                style = finding.severity
                mark = self.paint(style, f"^ {finding.code} #{number}, {role}")
                yield self._row("", depth, f"{mark}: {clean(finding.message)}" if role == "overwritten" else mark, "")

    def _row(self, gutter: str, depth: int, text: str, remark: str) -> str:
        left = f"  {gutter:>4}  {'  ' * depth}{text}"
        if not remark:
            return left
        visible = len(left) - (len(text) - len(_plain(text)))
        return left + " " * max(2, 64 - visible) + self.paint("dim", f"# {remark}")


def _plain(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[\d;]*m", "", text)


def annotate(
    program: ProgramReport, color: bool = False, method: str | None = None, around: int | None = None
) -> str:
    """The listing of a program. Raises InputError for a method or instruction that it does not have."""
    chosen = _methods(program, method)
    if around is not None:
        methods = [m.analysis.method for m in chosen]
        numbers = [m.numbers(c) for m in methods for c in range(len(m.chains))]
        longest = max((len(ns) - ns.count(None) for ns in numbers), default=0)
        if around >= longest:
            raise InputError(f"there is no instruction {around}: the longest chain has {longest}")
    paint = Paint(color)
    lines: list[str] = []
    for report in chosen:
        numbered = [(i, f) for i, f in enumerate(program.findings, 1) if f.method == report.name or _touches(f, report)]
        lines.extend(Listing(report, numbered, paint).lines(around))
        lines.append("")
    for i, f in enumerate(program.findings, 1):
        lines.append(f"#{i} " + paint(f.severity, f"{f.severity}[{f.code}]") + f" {clean(f.message)}")
    return "\n".join(lines).rstrip("\n") + "\n"


def _touches(finding: Finding, report: MethodReport) -> bool:
    return any(p is not None and p.method == report.name for p in (finding.define, finding.clobber, finding.use))


def _methods(program: ProgramReport, name: str | None) -> list[MethodReport]:
    if name is None:
        return program.methods
    chosen = [m for m in program.methods if m.name == name]
    if not chosen:
        raise InputError(f"there is no method `{name}`; there is {', '.join(m.name for m in program.methods)}")
    return chosen


# --- the life of one value --------------------------------------------------------------------------------------------


def trace(program: ProgramReport, value: str, color: bool = False, method: str | None = None) -> str:
    """The life of one value: ``%7``, a name in the model, or ``#2`` for the value of the second finding.

    Raises InputError when there is no such value.
    """
    if value.startswith("#") or value.isdigit():
        number = value.removeprefix("#")
        if not number.isdigit() or not 1 <= int(number) <= len(program.findings):
            raise InputError(f"there is no finding {value}; the program has {len(program.findings)}")
        finding = program.findings[int(number) - 1]
        if finding.use is None or finding.use.slot is None:
            raise InputError(f"finding {value} is about no single value")
        chosen = [(m, finding.use.slot) for m in program.methods if m.name == finding.method]
    else:
        chosen = [(m, s) for m in _methods(program, method) if (s := _slot_of(m.analysis.method, value)) is not None]
    if not chosen:
        raise InputError(f"there is no value `{clean(value)}`; `hazard dump --annotate` shows slots and names")
    lines: list[str] = []
    for report, slot in chosen:
        numbered = [(i, f) for i, f in enumerate(program.findings, 1) if f.method == report.name]
        lines.extend(_Life(Listing(report, numbered, Paint(color)), slot).lines())
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _slot_of(method: Method, word: str) -> int | None:
    if word.startswith("%") and word[1:].isdigit():
        slot = int(word[1:])
        return slot if slot < len(method.values) and method.is_tensor(slot) else None
    for slot, value in enumerate(method.values):
        if isinstance(value, Tensor) and word in (value.name, value.fqn):
            return slot
    return None


class _Life:
    """All events that concern a value: its slot, the slots that moves connect it with, and its presumed views."""

    def __init__(self, listing: Listing, slot: int) -> None:
        self.listing, self.slot = listing, slot
        self.a, self.method = listing.a, listing.method
        self.sources = self._connected()
        self.views = self._views()
        self.family = {*self.sources, *self.views}

    def _connected(self) -> dict[int, None]:
        """The slot and all whose tensor objects it can refer to."""
        found = dict.fromkeys([self.slot])
        work = [self.slot]
        while work:
            slot = work.pop()
            for step in self.a.flow.code:
                if isinstance(step, Move | Alias) and step.target == slot and step.source not in found:
                    found[step.source] = None
                    work.append(step.source)
        return found

    def _views(self) -> dict[int, str]:
        """Presumed views of the value, with the assumption that says so."""
        found = {}
        for assumption in self.a.assumptions:
            word, _, rest = assumption.partition(" ")
            left, _, right = rest.partition("=")
            if word == "elided-view" and left[1:].isdigit() and right[1:].isdigit() and int(right[1:]) in self.sources:
                found[int(left[1:])] = assumption
        return found

    def lines(self) -> Iterator[str]:
        listing, paint = self.listing, self.listing.paint
        value = self.method.tensor(self.slot)
        shape = f"{value.dtype}[{','.join(map(str, value.sizes))}]"
        yield paint("bold", f"{listing.name(self.slot)} of method {clean(self.method.name)}") + f", {shape}"
        own = listing.place(self.slot)
        yield f"  planned at {own}" if value.planned else f"  {own}"
        for source in self.sources:
            if source != self.slot:
                yield f"  can refer to {listing.name(source)} at {listing.place(source)}"
        for view, assumption in self.views.items():
            yield f"  seen by {listing.name(view)}, a view without instruction (assumption {assumption})"
        yield ""
        if value.initial is not None:
            yield listing._row("", 0, paint("note", "loaded: initial contents"), "")
        for position in range(len(self.a.flow.code)):
            yield from self._at(position)

    def _at(self, position: int) -> Iterator[str]:
        listing = self.listing
        effect, step = self.a.effects[position], self.a.flow.code[position]
        writes = (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes)
        told: list[tuple[str, str, str]] = []  # style, word, remark
        if isinstance(step, Move | Alias):
            if step.target in self.sources or step.source in self.sources:
                word = "moved" if isinstance(step, Move) else "named"
                target, source = listing.slot(step.target), listing.slot(step.source)
                told.append(("bold", word, f"{target} refers to the tensor of {source} from here on"))
        elif effect.points is not None and effect.points[1] in self.family:
            told.append(("bold", "viewed", f"{listing.slot(effect.points[0])} sees the same bytes"))
        mine = [s for s in writes if s in self.family or self._objects(position, s) & self.family]
        for slot in mine:
            word = "defined" if slot in effect.writes else "changed in part"
            if slot in effect.may_writes and slot not in effect.writes:
                word = "perhaps changed"
            told.append(("good", word, listing.seen(position, slot, False)))
        for slot in writes:
            if slot not in mine:
                victims = [o for o in self.family if self._holds(o) and self._hits(position, slot, o)]
                if victims:
                    hit = ", ".join(f"{listing.slot(v)} {listing.place(v)}" for v in sorted(victims))
                    told.append(("warning", "bytes reused", f"{listing.seen(position, slot, False)} over {hit}"))
        for slot in effect.reads:
            if slot in self.family:
                told.append(("note", "read", self._read(position, slot)))
        if not told:
            return
        site = self.a.flow.sites[position]
        gutter = "" if site is None or site[1] is None else str(site[1])
        text = listing.instruction(position)
        where = "" if site is None else self._where(site[0], position - self.a.flow.starts[site[0]])
        for style, word, remark in told:
            yield listing._row(gutter, 0, f"{listing.paint(style, word)}  {text}", remark + where)
        for number, finding in listing.findings:
            if finding.use is None or finding.use.slot not in self.family:
                continue
            for place in (finding.clobber, finding.use):
                here = place is not None and place.position == position
                if place is not None and here and place.method in (None, self.method.name):
                    mark = listing.paint(finding.severity, f"^ {finding.code} #{number}")
                    yield listing._row("", 0, f"{mark}: {clean(finding.message)}", "")
                    break

    def _objects(self, position: int, slot: int) -> set[int]:
        return set(self.a.reaching.writes.get((position, slot), ()))

    def _holds(self, slot: int) -> bool:
        """Whether a slot's own bytes ever hold something: those of the target of a move may not."""
        return slot not in self.a.roles.moved or any(slot in objects for objects in self.a.reaching.writes.values())

    def _hits(self, position: int, slot: int, victim: int) -> bool:
        return any(self.a.regions.overlap(o, victim) for o in self._objects(position, slot))

    def _read(self, position: int, slot: int) -> str:
        """What a read expects, by the definitions that reach it."""
        facts = self.a.reaching.reads.get((position, slot), set())
        words = []
        for definer in sorted({f[1] for f in facts}):
            if definer == LOAD:
                words.append("what was loaded")
            elif definer == FILL:
                words.append("what the arena held")
            else:
                site = self.a.flow.sites[definer]
                words.append(f"[{site[1]}]" if site is not None and site[1] is not None else "the input")
        return f"expects {' or '.join(words)}" if words else self.listing.seen(position, slot, True)

    def _where(self, chain: int, index: int) -> str:
        inside = [str(p) for p in self.listing.parts[chain] if p.first <= index <= p.last]
        return f"; in {', in '.join(reversed(inside))}" if inside else ""
