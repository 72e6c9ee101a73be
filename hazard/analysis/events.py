"""Sequences of events over all methods of a program: what a look at one method cannot show.

Each method is reduced to what other methods can notice: the initial contents that loading it writes, the bytes that a
call may leave changed, and the reads of bytes from before the call (state). For each such read and each other method
that a host lets into the same arena, a breadth-first search over loads and calls looks for the shortest sequence after
which the read sees bytes that it does not expect. The search runs on one byte at a time, chosen among the segments in
which nothing differs, so its state is small: which methods are loaded, and whose data the byte holds.

A read of state expects the last write by its own method. Writes of another method are expected only where both place
the state at the same arena id (2 or above; planning gives shared state an arena of its own), offset, size, dtype and,
if both have one, fully qualified name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Place, Witness
from hazard.analysis.flow import Stage
from hazard.analysis.summary import FIRST_SHARED_ARENA, Load, Memory, Read, Write, same_state
from hazard.hosts import Event, Host, event_notes, event_properties, labels
from hazard.program import Program, Tensor

# --- the search -------------------------------------------------------------------------------------------------------

KEPT, SHARED, FOREIGN = "kept", "shared", "foreign"


@dataclass(frozen=True, slots=True)
class Party:
    """One method's part in the history of a byte: what loading it does, what a call can leave, whether a call reads."""

    loads: str  # KEPT, SHARED (the state's own initial contents) or FOREIGN
    leaves: frozenset[str]
    reads: bool = False


@cache
def shortest(load: str, goal: str, parties: tuple[Party, ...]) -> tuple[tuple[str, int], ...] | None:
    """The shortest sequence of (load or call, party) whose last call, of party 0, reads the byte in a bad state.

    ``goal``: "foreign", the byte holds data of something else; "reset", loading has put initial contents over newer
    ones; "blank", nobody has written the byte. ``load`` is "eager" or "lazy".
    """
    everyone = frozenset(range(len(parties)))
    start = (frozenset[int](), False, "blank")
    seen = {start}
    work: deque[tuple[tuple[frozenset[int], bool, str], tuple[tuple[str, int], ...]]] = deque([(start, ())])
    while work:
        (loaded, called, byte), events = work.popleft()
        steps: list[tuple[frozenset[int], str, tuple[tuple[str, int], ...], int | None]] = []
        for i in sorted(everyone):
            if load == "eager":
                if i not in loaded:
                    if not called:
                        steps.append((loaded | {i}, _after_load(parties[i], byte), (("load", i),), None))
                elif loaded == everyone:
                    steps.append((loaded, byte, (("call", i),), i))
            elif i in loaded:
                steps.append((loaded, byte, (("call", i),), i))
            else:
                steps.append((loaded | {i}, _after_load(parties[i], byte), (("load", i), ("call", i)), i))
        for now_loaded, now, more, caller in steps:
            if caller is None:
                outcomes = [now]
            else:
                if caller == 0 and parties[0].reads and now == goal:
                    return (*events, *more)
                outcomes = [_after_call(leaves, now) for leaves in sorted(parties[caller].leaves)]
            for outcome in outcomes:
                node = (now_loaded, called or caller is not None, outcome)
                if node not in seen:
                    seen.add(node)
                    work.append((node, (*events, *more)))
    return None


def _after_load(party: Party, byte: str) -> str:
    if party.loads == KEPT:
        return byte
    if party.loads == FOREIGN:
        return "foreign"
    return "reset" if byte in ("new", "reset") else "initial"


def _after_call(leaves: str, byte: str) -> str:
    return {KEPT: byte, SHARED: "new", FOREIGN: "foreign"}[leaves]


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fault:
    """State of ``victim`` that a read finds changed: ``kind`` is foreign, reset, blank or concurrent.

    ``sequences`` gives the shortest sequence for each host on which it happens; ``right`` are the hosts without it.
    ``clobberer`` is the method whose write or load it is; ``writers`` are all parties that do it, ``layout`` says that
    the two disagree about a shared arena.
    """

    kind: str
    victim: Memory
    read: Read
    arena: int
    low: int
    high: int
    clobberer: Memory
    clobber: Place
    define: Place | None
    certain: bool
    layout: bool
    sequences: dict[Host, tuple[Event, ...]]
    right: tuple[Host, ...]
    all_clobbers: list[Place] = field(default_factory=list)
    approximations: tuple[str, ...] = ()
    decisions: tuple[tuple[str, int, int, bool], ...] = ()  # method, instruction, predicate slot, whether it held

    @property
    def sequence(self) -> tuple[Event, ...]:
        """The shortest of all hosts."""
        return min(self.sequences.values(), key=lambda events: len(events))

    @property
    def properties(self) -> tuple[tuple[str, object], ...]:
        """Hosts and sequences, for the finding."""
        told = event_properties(self.sequences, self.right)
        return (*told, ("decisions", self.decisions)) if self.decisions else told

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each different sequence, and one for the hosts that are right."""
        ways = [
            f"in method `{method}` the predicate %{slot} of [{instruction}] {'holds' if held else 'does not hold'}"
            for method, instruction, slot, held in self.decisions
        ]
        return (*event_notes(self.sequences, self.right), *ways)

    @property
    def parts(self) -> dict[str, Any]:
        """The fields of a finding that every rule fills in the same way."""
        read = self.read
        return {
            "method": self.victim.name,
            "certain": self.certain,
            "define": self.define,
            "clobber": self.clobber,
            "use": self.victim.place(read.position, read.slot, read.object),
            "all_defines": (self.define,) if self.define else (),
            "all_clobbers": tuple(dict.fromkeys(self.all_clobbers)),
            "witness": self.witness,
            "approximations": self.approximations,
            "notes": self.notes,
            "properties": self.properties,
        }

    @property
    def witness(self) -> Witness:
        """The bytes and the number of calls; decisions inside the calls are left open."""
        calls = sum(e.kind == "call" for e in self.sequence)
        return Witness(calls, (), self.arena, self.low, self.high, False)


@dataclass(frozen=True, slots=True)
class Segment:
    """One byte of a state and what another method does to it: the writes of something else that may be the last when a
    call ends, among so many ``alternatives``, and what loading puts there."""

    byte: int
    foreign: list[Write]
    load: Load | None
    alternatives: int


class Events:
    """All faults that need more than one method, on the given hosts."""

    def __init__(self, methods: Sequence[MethodAnalysis], hosts: Sequence[Host]) -> None:
        program = Program(tuple(a.method for a in methods))
        self.hosts = tuple(h for h in hosts if h.runs(program))
        if not self.hosts:
            for a in methods:
                a.reasons.append(f"{', '.join(labels(hosts))} refuses programs with device buffers")
        self.memories = [Memory(a) for a in methods]
        self.faults: list[Fault] = []
        if len(self.memories) > 1:
            self._groups = self._shared_arenas()
            for victim in self.memories:
                self._search(victim)
            for host in self.hosts:
                if host.concurrent:
                    self._concurrent()
                    break

    def _shared_arenas(self) -> set[int]:
        """Arena ids in which some two methods keep the same state."""
        found: set[int] = set()
        seen: dict[tuple[int, int, int], str] = {}
        for memory in self.memories:
            for slot in memory.states:
                region = memory.regions.region(slot)
                if region[0] >= FIRST_SHARED_ARENA and seen.setdefault(region, memory.name) != memory.name:
                    found.add(region[0])
        return found

    def sharing(self, a: Memory, b: Memory, arena: int) -> list[Host]:
        """Hosts that give both methods the same arena."""
        return [h for h in self.hosts if h.shares(a.method, b.method, arena)]

    # --- one read -----------------------------------------------------------------------------------------------------

    def _search(self, victim: Memory) -> None:
        done: set[tuple[int, int, int]] = set()
        for read in victim.reads:
            arena = victim.regions.space[read.object]
            key = (arena, read.low, read.high)
            if key in done:
                continue
            if victim.excluded(read.position):
                continue
            done.add(key)
            self._judge_read(victim, read, arena)

    def _judge_read(self, victim: Memory, read: Read, arena: int) -> None:
        others = [m for m in self.memories if m is not victim and self.sharing(victim, m, arena)]
        # One fault for each kind of trouble; the first method in file order with the shortest sequence tells it.
        found: dict[str, Fault] = {}
        for other in others:
            for fault in self._with(victim, read, arena, other):
                known = found.get(fault.kind)
                if known is None:
                    found[fault.kind] = fault
                else:
                    _join(known, fault)
        if arena >= FIRST_SHARED_ARENA and "foreign" not in found:
            if "reset" not in found:
                self._triples(victim, read, arena, others, found)
            self._blank(victim, read, arena, others, found)
        for fault in found.values():
            fault.right = self._right(fault)
            self.faults.append(fault)

    def _right(self, fault: Fault) -> tuple[Host, ...]:
        """Hosts without the fault; for shared state only those that share it, the others never see it change."""
        fine = [h for h in self.hosts if h not in fault.sequences]
        if fault.kind in ("reset", "blank"):
            parties = [m.method for m in self.memories if any(e.method == m.name for e in fault.sequence)]
            fine = [h for h in fine if all(h.shares(parties[0], m, fault.arena) for m in parties)]
        return tuple(fine)

    def _with(self, victim: Memory, read: Read, arena: int, other: Memory) -> Iterator[Fault]:
        state = victim.tensor(read.object)
        hits = other.writes_over(arena, read.low, read.high)
        loads = [ld for ld in other.loads.get(arena, ()) if ld.low < read.high and read.low < ld.high]
        if not hits and not loads:
            return
        own = victim.writes_over(arena, read.low, read.high)
        bounds = {read.low}
        spans = [*((w.low, w.high) for w in hits), *((ld.low, ld.high) for ld in loads)]
        bounds.update(b for span in spans for b in span if read.low <= b < read.high)
        best: dict[str, tuple[dict[Host, tuple[Event, ...]], Segment]] = {}
        tried: set[tuple[Party, Party]] = set()
        for byte in sorted(bounds):
            finals = [w for w in other.finals(arena, byte, hits) if w is None or not other.excluded(w.position)]
            known = [w for w in finals if w is not None and w.known]
            foreign = [w for w in known if not self._means(victim, state, read, other, w.object)]
            if not foreign:
                for w in finals:
                    if w is not None and not w.known:
                        self._doubt(victim, read, other, w)
            load = next((ld for ld in loads if ld.low <= byte < ld.high), None)
            party = self._party(victim, state, read, other, finals, load)
            me = Party(SHARED if read.loaded else KEPT, _own_leaves(victim, arena, byte, own), True)
            if (me, party) in tried:
                continue
            tried.add((me, party))
            for goal in ("foreign", "reset"):
                sequences = self._sequences(goal, (victim, other), (me, party), arena)
                if not sequences:
                    continue
                segment = Segment(byte, foreign, load, len(finals))
                if goal not in best or _length(sequences) < _length(best[goal][0]):
                    best[goal] = (sequences, segment)
        for goal, (sequences, segment) in best.items():
            yield self._fault(goal, victim, read, arena, other, segment, own, sequences)

    def _means(self, victim: Memory, state: Tensor, read: Read, other: Memory, obj: int) -> bool:
        """Whether the other method's object is the same state as the victim's."""
        if obj not in other.states:
            return False
        theirs = other.tensor(obj)
        if same_state(state, theirs):
            return True
        # A view of the state may be what reads it; the state itself is then another slot on bytes around it.
        return read.slot in victim.a.roles.views and any(
            same_state(victim.tensor(s), theirs)
            for s in victim.states
            if victim.regions.overlap(s, read.object)
        )

    def _party(
        self, victim: Memory, state: Tensor, read: Read, other: Memory, finals: list[Write | None], load: Load | None
    ) -> Party:
        leaves = set()
        for w in finals:
            if w is None or not w.known:
                leaves.add(KEPT)
            else:
                leaves.add(SHARED if self._means(victim, state, read, other, w.object) else FOREIGN)
        loads = KEPT
        if load is not None:
            loads = SHARED if self._means(victim, state, read, other, load.slot) else FOREIGN
        return Party(loads, frozenset(leaves))

    def _sequences(
        self, goal: str, memories: Sequence[Memory], parties: tuple[Party, ...], arena: int
    ) -> dict[Host, tuple[Event, ...]]:
        result = {}
        first = memories[0]
        for host in self.hosts:
            if not all(host.shares(first.method, m.method, arena) for m in memories[1:]):
                continue
            found = shortest(host.load, goal, parties)
            if found is not None:
                result[host] = tuple(Event(kind, memories[i].name) for kind, i in found)
        return result

    def _fault(
        self,
        kind: str,
        victim: Memory,
        read: Read,
        arena: int,
        other: Memory,
        segment: Segment,
        own: list[Write],
        sequences: dict[Host, tuple[Event, ...]],
    ) -> Fault:
        byte, foreign, load = segment.byte, segment.foreign, segment.load
        shortest_one = min(sequences.values(), key=lambda events: len(events))
        by_call = any(e == Event("call", other.name) for e in shortest_one)
        certain = victim.surely_reached(read.position)
        approximations: list[str] = []
        layout = False
        writer = other
        if kind == "reset":
            last_load = next(e for e in reversed(shortest_one) if e.kind == "load")
            writer = victim if last_load.method == victim.name else other
            loaded = next((ld for ld in writer.loads.get(arena, ()) if ld.low <= byte < ld.high), None)
            low, high = (max(read.low, loaded.low), min(read.high, loaded.high)) if loaded else (read.low, read.high)
            clobber = writer.load_place(loaded.slot if loaded else read.object)
        elif kind == "foreign" and foreign and (by_call or load is None):
            write = foreign[0]
            low, high = max(read.low, write.low), min(read.high, write.high)
            clobber = other.place(write.position, write.slot, write.object)
            if segment.alternatives > len(foreign) and not other.surely_reached(write.position):
                certain = False
                approximations.append("a predicate on the way depends on constants only")
            if byte >= write.sure:
                certain = False
                approximations.append("sizes that are known at run time only")
            layout = arena in self._groups or (write.object in other.states and arena >= FIRST_SHARED_ARENA)
        elif load is not None:
            low, high = max(read.low, load.low), min(read.high, load.high)
            clobber = other.load_place(load.slot)
            layout = arena >= FIRST_SHARED_ARENA
        else:
            raise AssertionError("a byte turned foreign though nobody wrote it")
        if read.partial and (low, high) != (read.low, read.high):
            certain = False
            approximations.append("the instruction reads a part of the operand")
        if any(w.slot == read.slot and victim.follows(w.position, read.position) for w in own if w.strong):
            certain = False
            approximations.append("a path on which the state is written first")
        define: Place | None = None
        if kind == "reset":
            state = victim.tensor(read.object)
            # The last who wrote the state before it was loaded anew.
            reload = shortest_one.index(Event("load", writer.name))
            for event in shortest_one[:reload]:
                source = other if event.method == other.name else victim
                theirs = [
                    w for w in source.writes_over(arena, read.low, read.high)
                    if source is victim or self._means(victim, state, read, source, w.object)
                ]  # fmt: skip
                if event.kind == "call" and theirs:
                    define = source.place(theirs[-1].position, theirs[-1].slot, theirs[-1].object)
        elif Event("call", victim.name) in shortest_one[:-1] and own:
            define = victim.place(own[-1].position, own[-1].slot, own[-1].object)
        elif read.loaded:
            define = victim.load_place(read.object)
        return Fault(
            kind, victim, read, arena, low, high, writer, clobber, define, certain, layout, sequences, (),
            [clobber], tuple(dict.fromkeys(approximations)), self._decisions(victim, read, other, clobber),
        )  # fmt: skip

    def _decisions(
        self, victim: Memory, read: Read, other: Memory, clobber: Place
    ) -> tuple[tuple[str, int, int, bool], ...]:
        """Which way the jumps of both methods have to go."""
        ways = [(other, clobber.position)] if clobber.position >= 0 else []
        ways.append((victim, read.position))
        return tuple((m.name, *decision) for m, position in ways for decision in m.decisions(position))

    def _doubt(self, victim: Memory, read: Read, other: Memory, write: Write) -> None:
        text = (
            f"whether {other.judge.describe(write.position)} of {other.name} writes over "
            f"the state %{read.slot} is not known"
        )
        if text not in victim.a.reasons:
            victim.a.reasons.append(text)

    # --- shared state -------------------------------------------------------------------------------------------------

    def _shared_party(
        self, victim: Memory, read: Read, arena: int, other: Memory
    ) -> tuple[Party, Load | None, Write | None]:
        state = victim.tensor(read.object)
        hits = other.writes_over(arena, read.low, read.high)
        load = next((ld for ld in other.loads.get(arena, ()) if ld.low <= read.low < ld.high), None)
        finals = other.finals(arena, read.low, hits)
        written = next((w for w in finals if w and w.known and self._means(victim, state, read, other, w.object)), None)
        return self._party(victim, state, read, other, finals, load), load, written

    def _triples(
        self, victim: Memory, read: Read, arena: int, others: list[Memory], found: dict[str, Fault]
    ) -> None:
        """State that one method has written, a second one's loading resets and a third reads."""
        parts = {m.name: self._shared_party(victim, read, arena, m) for m in others}
        own = victim.writes_over(arena, read.low, read.high)
        me = Party(SHARED if read.loaded else KEPT, _own_leaves(victim, arena, read.low, own), True)
        for loader in others:
            load = parts[loader.name][1]
            if load is None:
                continue
            for writer in others:
                write = parts[writer.name][2]
                if writer is loader or write is None:
                    continue
                parties = (me, parts[loader.name][0], parts[writer.name][0])
                sequences = self._sequences("reset", (victim, loader, writer), parties, arena)
                if sequences:
                    clobber = loader.load_place(load.slot)
                    found["reset"] = Fault(
                        "reset", victim, read, arena, read.low, read.high, loader, clobber,
                        writer.place(write.position, write.slot, write.object), victim.surely_reached(read.position),
                        False, sequences, (), [clobber],
                    )  # fmt: skip
                    return

    def _blank(self, victim: Memory, read: Read, arena: int, others: list[Memory], found: dict[str, Fault]) -> None:
        """Shared state that is read before any method has written it."""
        if read.loaded:
            return
        me = Party(KEPT, frozenset({KEPT}), True)
        for other in others:
            party, load, write = self._shared_party(victim, read, arena, other)
            if write is None and (load is None or party.loads != SHARED):
                continue
            sequences = self._sequences("blank", (victim, other), (me, party), arena)
            if not sequences:
                continue
            place = other.place(write.position, write.slot, write.object) if write else other.load_place(read.object)
            if "blank" in found:
                found["blank"].all_clobbers.append(place)
                continue
            found["blank"] = Fault(
                "blank", victim, read, arena, read.low, read.high, other, place, None,
                victim.surely_reached(read.position), False, sequences, (), [place],
            )  # fmt: skip

    # --- methods that run at the same time ----------------------------------------------------------------------------

    def _concurrent(self) -> None:
        for victim in self.memories:
            for other in self.memories:
                if other is victim:
                    continue
                hit = self._first_meeting(victim, other)
                if hit is None:
                    continue
                read, arena, write = hit
                together = Event("call", victim.name, f"while {other.name} runs")
                events = (Event("load", victim.name), Event("load", other.name), together)
                sequences: dict[Host, tuple[Event, ...]] = {
                    h: events for h in self.sharing(victim, other, arena) if h.concurrent
                }
                if not sequences:
                    continue
                clobber = other.place(write.position, write.slot, write.object)
                low, high = max(read.low, write.low), min(read.high, write.high)
                fault = Fault(
                    "concurrent", victim, read, arena, low, high, other, clobber, None, True, False, sequences,
                    tuple(h for h in self.hosts if h not in sequences), [clobber],
                )  # fmt: skip
                self.faults.append(fault)

    def _first_meeting(self, victim: Memory, other: Memory) -> tuple[Read, int, Write] | None:
        """A read of the victim whose bytes the other method writes."""
        for position, effect in enumerate(victim.a.effects):
            if isinstance(victim.flow.code[position], Stage):
                continue
            for slot in effect.reads:
                facts = victim.reaching.reads.get((position, slot), ())
                for obj in sorted({f[0] for f in facts} or {slot}):
                    arena, low, high = victim.regions.region(obj)
                    if arena <= 0 or not self.sharing(victim, other, arena):
                        continue
                    hits = [w for w in other.writes_over(arena, low, high) if w.known]
                    if hits:
                        return Read(position, slot, obj, low, high, False, effect.partial), arena, hits[0]
        return None


def _length(sequences: dict[Host, tuple[Event, ...]]) -> int:
    return min(map(len, sequences.values()))


def _own_leaves(victim: Memory, arena: int, byte: int, own: list[Write]) -> frozenset[str]:
    return frozenset(KEPT if w is None else SHARED for w in victim.finals(arena, byte, own))


def _join(fault: Fault, more: Fault) -> None:
    """Adds another method's part in the same fault; the shorter sequence of each host stays."""
    fault.all_clobbers.extend(more.all_clobbers)
    if len(more.sequence) < len(fault.sequence):
        fault.clobberer, fault.clobber, fault.define = more.clobberer, more.clobber, more.define
        fault.low, fault.high = more.low, more.high
        fault.certain, fault.layout, fault.approximations = more.certain, more.layout, more.approximations
        fault.decisions = more.decisions
    for host, events in more.sequences.items():
        if host not in fault.sequences or len(events) < len(fault.sequences[host]):
            fault.sequences[host] = events
