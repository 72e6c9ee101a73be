"""Sequences of events against a brute-force run of every short sequence on shadow memory, on random programs.

The runner below shares no code with `hazard.analysis`: it executes methods instruction by instruction, keeps for every
byte who wrote it last, and for every state byte who wrote it last of those that may.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import hazard
from hazard.hosts import Host, choose_hosts
from hazard.program import Arena, Instruction, JumpFalse, Kernel, Method, Planned, Program, Scalar, Tensor
from hazard.rule import Context

SEEDS = range(40)
CALLS = 3

Key = tuple[str, int, int, int]  # method, arena, first byte, end


# --- random programs --------------------------------------------------------------------------------------------------


def random_method(rng: random.Random, name: str) -> Method:
    """A predicate, an input, one or two states, scratch tensors that are written before they are read."""

    def tensor(arena: int, offset: int, elements: int = 2, initial: int | None = None) -> Tensor:
        return Tensor("f32", (elements,), Planned(arena, offset), initial=initial)

    values: list[Tensor | Scalar] = [
        Tensor("bool", (), Planned(1, 0)),
        tensor(1, 4),
        Scalar("bool", False),
    ]
    states = []
    for _ in range(rng.randint(0, 2)):
        # Apart from the method's own scratch, so that each method alone is right.
        arena, offset = rng.choice([(1, 48), (1, 56), (1, 60), (2, 0), (2, 8), (2, 4)])
        taken = {range(0)}
        taken |= {range(values[s].placement.offset, values[s].placement.offset + 8) for s in states  # type: ignore[union-attr]
                  if values[s].placement.arena == arena}  # type: ignore[union-attr]
        if any(set(r) & set(range(offset, offset + 8)) for r in taken):
            continue
        states.append(len(values))
        values.append(tensor(arena, offset, initial=rng.choice([None, 1, 1])))
    free = list(range(12, 80, 4))
    for s in states:
        place = values[s].placement  # type: ignore[union-attr]
        if place.arena == 1:
            free = [b for b in free if b + 8 <= place.offset or place.offset + 8 <= b]
    code: list[Instruction] = []
    result = 1
    branch = rng.random() < 0.4
    used: list[tuple[int, int]] = []
    steps: list[Instruction] = []
    for _ in range(rng.randint(1, 3)):
        places = [b for b in free if all(b + 8 <= low or high <= b for low, high in used)]
        if not places:
            break
        offset = rng.choice(places)
        used.append((offset, offset + 8))
        slot = len(values)
        values.append(tensor(1, offset))
        operand = rng.choice([*states, 1, result])
        steps.append(Kernel("aten::sin.out", (operand, slot, slot)))
        result = slot
    if branch and steps:
        # The branch ends in a tensor that nobody needs behind it.
        code.append(JumpFalse(0, len(steps) + 1))
        code.extend(steps)
        result = 1
    else:
        code.extend(steps)
    outputs = [result]
    for state in states:
        if rng.random() < 0.6:
            code.append(Kernel("aten::copy_", (state, result, 2, state)))
        if rng.random() < 0.6:
            outputs.append(state)
    arenas = {1: Arena(96), 2: Arena(32)}
    return Method(name, tuple(values), (0, 1), tuple(dict.fromkeys(outputs)), (tuple(code),), arenas)


def random_programs() -> Iterator[tuple[int, Program]]:
    for seed in SEEDS:
        rng = random.Random(seed)
        yield seed, Program(tuple(random_method(rng, name) for name in "abc"[: rng.randint(2, 3)]))


# --- the runner -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Writer:
    """Who wrote a byte: a method's loading or one of its calls, and the slot written through."""

    method: str
    slot: int
    by_load: bool


class Shadow:
    """One host's memory with every byte's last writer, and who may have written what."""

    def __init__(self, program: Program, host: Host) -> None:
        self.program, self.host = program, host
        self.methods = {m.name: m for m in program.methods}
        self.history: dict[tuple[str, int, int], list[Writer]] = {}
        self.shown: set[tuple[Key, str]] = set()

    def space(self, method: str, arena: int) -> str:
        return "all" if self.host.shared is None or arena in self.host.shared else method

    def write(self, method: str, slot: int, by_load: bool) -> None:
        value = self.methods[method].tensor(slot)
        place = value.planned
        assert place is not None
        for byte in range(place.offset, place.offset + value.nbytes):
            key = (self.space(method, place.arena), place.arena, byte)
            self.history.setdefault(key, []).append(Writer(method, slot, by_load))

    def means(self, victim: Method, slot: int, writer: Writer) -> bool:
        """Whether a writer may change the victim's state."""
        if writer.method == victim.name:
            return True
        ours, theirs = victim.tensor(slot), self.methods[writer.method].tensor(writer.slot)
        assert ours.planned is not None
        return ours.planned.arena >= 2 and ours.planned == theirs.planned and ours.nbytes == theirs.nbytes

    def read(self, victim: Method, slot: int, since: dict[tuple[str, int, int], int]) -> None:
        """Notes what a read of bytes from before the call finds; ``since`` counts the writes before the call."""
        value = victim.tensor(slot)
        place = value.planned
        if place is None:
            return
        key = (victim.name, place.arena, place.offset, place.offset + value.nbytes)
        for byte in range(place.offset, place.offset + value.nbytes):
            cell = (self.space(victim.name, place.arena), place.arena, byte)
            history = self.history.get(cell, [])
            if len(history) != since.get(cell, 0):
                return  # written in this call
        for byte in range(place.offset, place.offset + value.nbytes):
            history = self.history.get((self.space(victim.name, place.arena), place.arena, byte), [])
            if not history:
                continue
            last = history[-1]
            if not self.means(victim, slot, last):
                self.shown.add((key, "foreign"))
            elif last.by_load and any(not w.by_load and self.means(victim, slot, w) for w in history):
                earlier = [w for w in history if self.means(victim, slot, w)]
                if any(not w.by_load for w in earlier):
                    self.shown.add((key, "reset"))

    def load(self, method: str) -> None:
        for slot, value in enumerate(self.methods[method].values):
            if isinstance(value, Tensor) and value.initial is not None:
                self.write(method, slot, True)

    def call(self, method: str, predicate: bool) -> None:
        m = self.methods[method]
        since = {key: len(writers) for key, writers in self.history.items()}
        for slot in m.inputs:
            self.write(method, slot, False)
        i = 0
        while i < len(m.chains[0]):
            step = m.chains[0][i]
            i += 1
            if isinstance(step, JumpFalse):
                i = i if predicate else step.target
                continue
            assert isinstance(step, Kernel)
            source, target = (step.args[1], step.args[0]) if "copy_" in step.operator else (step.args[0], step.args[-1])
            self.read(m, source, since)
            self.write(method, target, False)
        for slot in m.outputs:
            self.read(m, slot, since)


def sequences(program: Program, host: Host) -> Iterator[list[tuple[str, str]]]:
    """All sequences of loads and calls with up to CALLS calls, shortest first."""
    names = [m.name for m in program.methods]
    for calls in range(1, CALLS + 1):
        for called in itertools.product(names, repeat=calls):
            if host.load == "lazy":
                loaded: set[str] = set()
                events = []
                for name in called:
                    if name not in loaded:
                        events.append(("load", name))
                        loaded.add(name)
                    events.append(("call", name))
                yield events
            else:
                for count in range(1, len(names) + 1):
                    for order in itertools.permutations(names, count):
                        if set(called) <= set(order):
                            yield [*(("load", n) for n in order), *(("call", n) for n in called)]


def brute_force(program: Program, host: Host) -> dict[tuple[Key, str], int]:
    """What goes wrong, with the number of events after which it first does."""
    found: dict[tuple[Key, str], int] = {}
    branches = {m.name: any(isinstance(step, JumpFalse) for step in m.chains[0]) for m in program.methods}
    for events in sequences(program, host):
        choices = [[True, False] if branches[name] else [True] for kind, name in events if kind == "call"]
        for outcomes in itertools.product(*choices):
            shadow = Shadow(program, host)
            ways = iter(outcomes)
            for kind, name in events:
                if kind == "load":
                    shadow.load(name)
                else:
                    shadow.call(name, next(ways))
            for key in shadow.shown:
                found[key] = min(found.get(key, len(events)), len(events))
    return found


def by_search(program: Program, host: Host) -> dict[tuple[Key, str], int]:
    """The same by `hazard.analysis.events`."""
    from hazard.analysis.check import analyse

    context = Context(program, [analyse(m) for m in program.methods], (host,))
    result = {}
    for fault in context.events.faults:
        if fault.kind in ("foreign", "reset"):
            region = fault.victim.regions.region(fault.read.object)
            result[(fault.victim.name, *region), fault.kind] = len(fault.sequences[host])
    return result


@pytest.mark.parametrize("host", choose_hosts(), ids=lambda h: h.label)
def test_search_finds_what_brute_force_finds(host: Host) -> None:
    wrong = 0
    for seed, program in random_programs():
        alone = [hazard.check(Program((m,)), select=["HZ1", "HZ2", "HZ3"]) for m in program.methods]
        if any(r.verdict == "hazard" for r in alone):
            continue
        expected = brute_force(program, host)
        found = by_search(program, host)
        assert found == expected, seed
        wrong += bool(expected)
    assert (wrong > 5) is (host.name != "module")
