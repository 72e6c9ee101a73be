"""Memory that the caller owns, or holds on to: output buffers, inputs, and outputs that are read late or fed back.

How a call begins on the released hosts: inputs are set one after the other, a planned input by a copy and an unplanned
one by its pointer; then each output that is not planned gets a pointer to a buffer of the caller. Both act on the
tensor object that the slot refers to *at that moment*. A slot that a move has bound to a branch's tensor in an earlier
call still refers to it, since nothing resets slots between calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hazard.analysis.conflicts import Place
from hazard.analysis.flow import Stage, Use
from hazard.analysis.reaching import FILL, LOAD, UNKNOWN
from hazard.analysis.summary import Memory, Write
from hazard.hosts import Event, Host, event_notes, event_properties, tell
from hazard.program import Tensor, Unplanned


@dataclass(frozen=True, slots=True)
class CallerFault:
    """A read that sees a caller's buffer, or bytes that a caller wrongly takes to last.

    ``what`` names the kind: view, lost, unfilled (HZ601), input (HZ602), fed-back (HZ603), restaged (HZ604) or
    perishable (HZ504). ``other`` is the slot on the other side: the output that is fed back, the branch's tensor.
    """

    what: str
    memory: Memory
    slot: int
    use: Place
    define: Place | None
    clobber: Place | None
    certain: bool
    sequences: dict[Host, tuple[Event, ...]]
    other: int | None = None
    clobberer: Memory | None = None
    approximations: tuple[str, ...] = field(default=())

    @property
    def told(self) -> str:
        """The shortest sequence, in one line."""
        chosen: tuple[Event, ...] = min(self.sequences.values(), key=lambda events: len(events))
        return tell(chosen)

    def parts(self, hosts: tuple[Host, ...]) -> dict[str, Any]:
        """The fields of a finding that every rule fills in the same way; ``hosts`` are all that were looked at."""
        right = [h for h in hosts if h not in self.sequences]
        return {
            "method": self.memory.name,
            "certain": self.certain,
            "define": self.define,
            "clobber": self.clobber,
            "use": self.use,
            "all_defines": (self.define,) if self.define else (),
            "all_clobbers": (self.clobber,) if self.clobber else (),
            "approximations": self.approximations,
            "notes": event_notes(self.sequences, right),
            "properties": event_properties(self.sequences, right),
        }


def output_positions(memory: Memory) -> list[tuple[int, int]]:
    """(position of the read, slot) of every tensor output."""
    return [
        (position, step.slot)
        for position, step in enumerate(memory.flow.code)
        if isinstance(step, Use) and memory.method.is_tensor(step.slot)
    ]


def _unplanned(memory: Memory, slot: int) -> bool:
    value = memory.method.values[slot]
    return isinstance(value, Tensor) and isinstance(value.placement, Unplanned) and value.nbytes > 0


def _with_buffers(memory: Memory, hosts: tuple[Host, ...], target: int, count: int) -> dict[Host, tuple[Event, ...]]:
    """Calls before each of which the output has a new buffer of the caller."""
    rebind = Event("rebind", memory.name, f"%{target} <- output buffer")
    call = Event("call", memory.name)
    own = (rebind, call) * count
    return {h: (Event("load", memory.name), *((call,) * count if h.buffers else own)) for h in hosts}


def _calls(memory: Memory, count: int) -> tuple[Event, ...]:
    return (Event("load", memory.name), *[Event("call", memory.name)] * count)


# --- output buffers ---------------------------------------------------------------------------------------------------


def rebound_outputs(memory: Memory, hosts: tuple[Host, ...]) -> Iterator[CallerFault]:
    """Outputs whose buffer replaces the memory of another tensor from the second call on (HZ601)."""
    done: set[int] = set()
    for position, target in output_positions(memory):
        own = memory.method.emitted_slot(target)
        if target in done or not _unplanned(memory, own):
            continue
        done.add(target)
        facts = memory.reaching.reads.get((position, target), set())
        objects = sorted({f[0] for f in facts if f[0] != own})
        found = False
        for obj in objects:
            for fault in _through(memory, hosts, target, obj):
                found = True
                yield fault
        planned = [o for o in objects if memory.regions.space[o] > 0]
        if planned and not found:
            use = memory.place(position, target, target, 1)
            yield CallerFault(
                "unfilled", memory, target, use, None, None, True,
                _with_buffers(memory, hosts, target, 1 if len(planned) < 2 else 3), planned[0],
            )  # fmt: skip


def _through(memory: Memory, hosts: tuple[Host, ...], target: int, obj: int) -> Iterator[CallerFault]:
    reaching = memory.reaching
    sequences = _with_buffers(memory, hosts, target, 2)
    writers = {p: slot for (p, slot), objects in reaching.writes.items() if obj in objects}
    stages = {p for p, step in enumerate(memory.flow.code) if isinstance(step, Stage)}
    # A view that stays in the arena while its base has moved into the caller's buffer.
    for (position, view), contents in sorted(reaching.contents.items()):
        if view not in memory.a.effects[position].reads:
            continue
        for definer in sorted({d for c in contents for _, _, d, s in c if writers.get(d) == s}):
            yield _stale(memory, sequences, target, obj, position, view, view, definer)
            break
    for (position, slot), facts in sorted(reaching.reads.items()):
        if slot not in memory.a.effects[position].reads:
            continue
        for seen, definer, _, quality in sorted(facts):
            if quality == UNKNOWN:
                continue
            if seen != obj and definer in writers and memory.regions.overlap(seen, obj):
                yield _stale(memory, sequences, target, obj, position, slot, seen, definer)
                break
            if seen == obj and (definer in (LOAD, FILL) or definer in stages):
                # Contents from before the call are in the old memory; the caller's buffer does not have them.
                define = memory.judge.definition(definer, obj, slot, None)
                yield CallerFault(
                    "lost", memory, target, memory.place(position, slot, seen, 2), define,
                    _buffer(memory, target), memory.surely_reached(position), sequences, obj,
                )  # fmt: skip
                break


def _stale(
    memory: Memory,
    sequences: dict[Host, tuple[Event, ...]],
    target: int,
    obj: int,
    position: int,
    slot: int,
    seen: int,
    definer: int,
) -> CallerFault:
    define = memory.place(definer, obj, obj, 2)
    use = memory.place(position, slot, seen, 2)
    return CallerFault(
        "view", memory, target, use, define, _buffer(memory, target), memory.surely_reached(position), sequences, obj
    )


def _buffer(memory: Memory, target: int) -> Place:
    value = memory.method.tensor(target)
    return Place(
        -1, 0, None, 2, "output buffer", target, None, 0, value.nbytes, None, value.name, value.fqn, memory.name
    )


def outputs_over_inputs(memory: Memory, hosts: tuple[Host, ...]) -> Iterator[CallerFault]:
    """Slots that are an input and an output, neither planned: the output's buffer takes the input's place (HZ602)."""
    stages = {step.slot: p for p, step in enumerate(memory.flow.code) if isinstance(step, Stage)}
    for slot in dict.fromkeys(map(memory.method.emitted_slot, memory.method.outputs)):
        if slot not in stages or not _unplanned(memory, slot):
            continue
        reads = sorted(
            position
            for (position, read), facts in memory.reaching.reads.items()
            if read in memory.a.effects[position].reads
            and any(f[0] == slot and f[1] == stages[slot] for f in facts)
        )
        if not reads:
            continue
        # Hosts that bring no buffers leave the input's own memory in place unless the caller sets one for this output.
        sequences = _with_buffers(memory, hosts, slot, 1)
        certain = any(h.buffers for h in hosts) and memory.surely_reached(reads[0])
        yield CallerFault(
            "input", memory, slot, memory.place(reads[0], slot, slot, 1), memory.place(stages[slot], slot, slot, 1),
            _buffer(memory, slot), certain, sequences,
            approximations=() if certain else ("whether the caller sets a buffer for this output",),
        )  # fmt: skip


# --- outputs as inputs ------------------------------------------------------------------------------------------------


def fed_back_outputs(producer: Memory, consumer: Memory, hosts: tuple[Host, ...]) -> Iterator[CallerFault]:
    """Inputs of ``consumer`` that lose their data when they are outputs of ``producer``, handed on as they are (HZ603).

    One fault for each input: the first output of the same dtype and sizes that does not survive.
    """
    outputs: list[tuple[int, int, int]] = []  # position, slot, object
    for position, slot in output_positions(producer):
        for obj in sorted({f[0] for f in producer.reaching.reads.get((position, slot), ())}):
            own = producer is consumer and obj == slot and slot not in producer.method.inputs
            if producer.regions.space[obj] > 0 or (own and _unplanned(producer, obj)):
                if producer.regions.low[obj] < producer.regions.high[obj]:
                    outputs.append((position, slot, obj))
    if not outputs:
        return
    stages = {step.slot: p for p, step in enumerate(consumer.flow.code) if isinstance(step, Stage)}
    for slot, staged in stages.items():
        value = consumer.method.values[slot]
        if not isinstance(value, Tensor) or not value.nbytes:
            continue
        reads = _reads_of(consumer, slot, staged)
        if not reads:
            continue
        for position, output, obj in outputs:
            tensor = producer.method.tensor(obj)
            if tensor.dtype != value.dtype or tensor.sizes != value.sizes:
                continue
            arena, low, high = producer.regions.region(obj)
            sharing = _holding(hosts, producer, consumer, arena)
            if not sharing:
                continue
            hits = [w for w in consumer.writes_over(arena, low, high) if w.known]
            if value.planned:
                found = _while_staging(consumer, slot, staged, arena, low, high, hits)
            else:
                found = _before_read(consumer, hits, reads, low, high)
            if found is None:
                continue
            write, read = found
            loads: tuple[Event, ...] = (Event("load", producer.name),)
            if consumer is not producer:
                loads = (*loads, Event("load", consumer.name))
            name = f"%{slot} <- %{output}"
            rebind = Event("rebind", consumer.name, name)
            events = (*loads, Event("call", producer.name), rebind, Event("call", consumer.name))
            certain = consumer.on_every_path(write.position) and consumer.on_every_path(read)
            certain = certain and write.low < write.sure and max(low, write.low) < min(high, write.sure)
            yield CallerFault(
                "fed-back", consumer, slot, consumer.place(read, slot, slot, 2),
                producer.place(position, output, obj, 1), consumer.place(write.position, write.slot, write.object, 2),
                certain, dict.fromkeys(sharing, events), output, producer,
            )  # fmt: skip
            break


def _holding(hosts: Iterable[Host], producer: Memory, other: Memory, arena: int) -> tuple[Host, ...]:
    """Hosts whose callers hold an output's own memory, in an arena that a call of ``other`` writes as well.

    An output that is not planned lies in a buffer; a host that brings buffers brings the same one for every call.
    """
    if arena <= 0:
        return tuple(h for h in hosts if h.buffers and not h.cloned and other is producer)
    return tuple(h for h in hosts if not h.cloned and h.shares(producer.method, other.method, arena))


def _reads_of(memory: Memory, slot: int, staged: int) -> list[int]:
    """Positions that read what was staged into an input."""
    found = {p for p, read in memory.reads_of_input(slot, staged) if read in memory.a.effects[p].reads}
    for (position, view), contents in memory.reaching.contents.items():
        if view in memory.a.effects[position].reads and any(d == staged for c in contents for _, _, d, _ in c):
            found.add(position)
    return sorted(found)


def _before_read(memory: Memory, hits: list[Write], reads: list[int], low: int, high: int) -> tuple[Write, int] | None:
    """A write over the fed-back bytes after which the input is still read, or which meets the read itself."""
    for write in hits:
        for read in reads:
            if isinstance(memory.flow.code[read], Use):
                continue  # the output is read when the call is over, by a caller that knows what it fed
            if memory.follows(write.position, read):
                return write, read
            exactly = (write.low, write.high) == (low, high)
            if write.position == read and not (exactly and memory.a.effects[read].elementwise):
                return write, read
    return None


def _while_staging(
    memory: Memory, slot: int, staged: int, arena: int, low: int, high: int, hits: list[Write]
) -> tuple[Write, int] | None:
    """The copy of another input that overwrites the fed-back bytes before this input's own copy is made."""
    for write in hits:
        step = memory.flow.code[write.position]
        if isinstance(step, Stage) and write.position < staged and step.slot != slot:
            return write, staged
    own = memory.regions.region(slot)
    if own[0] == arena and own[1] < high and low < own[2] and (own[1], own[2]) != (low, high):
        copy = next((w for w in hits if w.position == staged), None)
        if copy is not None:
            return copy, staged
    return None


# --- inputs and outputs that are left alone ---------------------------------------------------------------------------


def restaged_inputs(memory: Memory, others: list[Memory], hosts: tuple[Host, ...]) -> Iterator[CallerFault]:
    """Planned inputs that the next call finds overwritten unless they are set again (HZ604)."""
    for staged, step in enumerate(memory.flow.code):
        if not isinstance(step, Stage) or not memory.method.is_tensor(step.slot):
            continue
        slot = step.slot
        arena, low, high = memory.regions.region(slot)
        if arena <= 0 or low == high:
            continue
        reads = _reads_of(memory, slot, staged)
        if not reads:
            continue
        hits = [
            w for w in memory.writes_over(arena, low, high)
            if w.known and w.position != staged and not isinstance(memory.flow.code[w.position], Stage)
        ]  # fmt: skip
        if hits:
            write = hits[0]
            certain = memory.on_every_path(write.position) and low < write.sure
            yield CallerFault(
                "restaged", memory, slot, memory.place(reads[0], slot, slot, 2), memory.place(staged, slot, slot, 1),
                memory.place(write.position, write.slot, write.object, 1), certain,
                {h: _calls(memory, 2) for h in hosts}, None, memory,
            )  # fmt: skip
            continue
        for other in others:
            sharing = [h for h in hosts if h.shares(memory.method, other.method, arena)]
            theirs = [w for w in other.writes_over(arena, low, high) if w.known]
            if sharing and theirs:
                write = theirs[0]
                events = (
                    Event("load", memory.name), Event("load", other.name), Event("stage", memory.name),
                    Event("call", other.name), Event("call", memory.name),
                )  # fmt: skip
                yield CallerFault(
                    "restaged", memory, slot, memory.place(reads[0], slot, slot, 1),
                    memory.place(staged, slot, slot, 1), other.place(write.position, write.slot, write.object, 1),
                    other.on_every_path(write.position), dict.fromkeys(sharing, events), None, other,
                )  # fmt: skip
                break


def perishable_outputs(memory: Memory, others: list[Memory], hosts: tuple[Host, ...]) -> Iterator[CallerFault]:
    """Outputs in memory that a later call overwrites while the caller may still hold them (HZ504).

    ``other`` is set when the output is state. Only hosts that do not copy outputs are concerned.
    """
    hosts = tuple(h for h in hosts if not h.cloned)
    done: set[int] = set()
    for position, slot in output_positions(memory):
        if slot in done:
            continue
        done.add(slot)
        for obj in sorted({f[0] for f in memory.reaching.reads.get((position, slot), ())} or {slot}):
            arena, low, high = memory.regions.region(obj)
            if low == high or (arena <= 0 and not (obj == slot and _unplanned(memory, obj))):
                continue
            state = next((s for s in memory.kept if memory.regions.overlap(s, obj)), None)
            use = memory.place(position, slot, obj, 1)
            wanted = Event("read", memory.name, f"%{slot}")
            for other in (memory, *others):
                sharing = _holding(hosts, memory, other, arena)
                hits = [w for w in other.writes_over(arena, low, high) if w.known] if sharing else []
                if not sharing or not hits:
                    continue
                loads: tuple[Event, ...] = (Event("load", memory.name),)
                if other is not memory:
                    loads = (*loads, Event("load", other.name))
                events = (*loads, Event("call", memory.name), Event("call", other.name), wanted)
                write = hits[-1]
                yield CallerFault(
                    "perishable", memory, slot, use, use, other.place(write.position, write.slot, write.object, 2),
                    other.on_every_path(write.position), dict.fromkeys(sharing, events), state, other,
                )  # fmt: skip
