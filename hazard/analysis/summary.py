"""What other methods and callers can notice of a method: what it loads, what a call may leave behind, what it reads
from before the call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from hazard.analysis.check import MethodAnalysis, _Judge
from hazard.analysis.conflicts import Kind, Place
from hazard.analysis.paths import Path
from hazard.analysis.reaching import FILL, INTACT, LOAD
from hazard.program import Dynamism, JumpFalse, Tensor, record

#: Planning puts state that methods share into this arena id, or a higher one under a planner of one's own.
FIRST_SHARED_ARENA: Final = 2


@record
class Write:
    """One write of a method: ``strong`` if it surely defines all its bytes, ``known`` unless its effect is a guess."""

    position: int
    slot: int
    object: int
    low: int
    high: int
    sure: int
    strong: bool
    known: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A read of bytes that were there before the call."""

    position: int
    slot: int
    object: int
    low: int
    high: int
    loaded: bool
    partial: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Initial contents that loading a method writes; ``index`` names them."""

    slot: int
    low: int
    high: int
    index: int


class Memory:
    """What other methods can notice of one method."""

    def __init__(self, analysis: MethodAnalysis) -> None:
        self.a, self.method, self.name = analysis, analysis.method, analysis.method.name
        self.regions, self.reaching, self.flow = analysis.regions, analysis.reaching, analysis.flow
        self._judge: _Judge | None = None
        self._reached: dict[int, set[int]] = {}
        self._ways: dict[int, tuple[Path | None, bool]] = {}
        self._hits: dict[tuple[int, int, int], list[Write]] = {}
        self._finals: dict[tuple[tuple[int, int, int], ...], frozenset[int]] = {}

    @cached_property
    def loads(self) -> dict[int, list[Load]]:
        """What loading the method writes, by arena."""
        found: dict[int, list[Load]] = {}
        for slot, value in enumerate(self.method.values):
            if isinstance(value, Tensor) and value.initial is not None and value.planned and value.nbytes:
                space, low, high = self.regions.region(slot)
                found.setdefault(space, []).append(Load(slot, low, high, value.initial))
        return found

    @cached_property
    def kept(self) -> list[int]:
        """Slots whose bytes must last from call to call, without the inputs that a call updates."""
        inputs = set(self.method.inputs)
        kept = {ld.slot for loads in self.loads.values() for ld in loads} | {r.object for r in self.reads}
        return sorted(s for s in kept if s not in inputs and s not in self.a.roles.views)

    @property
    def judge(self) -> _Judge:
        if self._judge is None:
            self._judge = _Judge(self.a)
        return self._judge

    def tensor(self, slot: int) -> Tensor:
        return self.method.tensor(slot)

    def reads_of_input(self, slot: int, staged: int) -> list[tuple[int, int]]:
        """(position, slot) of what may read the value that staging at position ``staged`` put into input ``slot``."""
        return self._input_reads.get((slot, staged), [])

    @cached_property
    def _input_reads(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for key, facts in self.reaching.reads.items():
            for obj, definer, _, _ in facts:
                if 0 <= definer < self.flow.first:
                    found.setdefault((obj, definer), []).append(key)
        return found

    @cached_property
    def states(self) -> set[int]:
        """Slots that hold state by the look of it: contents or a name in the file, kept from call to call, or updated
        in place."""
        found: set[int] = set()
        values = self.method.values
        for slot, value in enumerate(values):
            if isinstance(value, Tensor) and (value.initial is not None or value.fqn is not None):
                found.add(slot)
        found.update(s for s in self.reaching.live_in.get(0, ()) if isinstance(values[s], Tensor))
        for effect in self.a.effects:
            found.update(effect.updates)
            found.update(s for s in effect.writes if s in effect.shapes)
        moved = self._moved()
        return {s for s in found if s not in moved and self.method.is_tensor(s) and self.tensor(s).planned}

    def _moved(self) -> set[int]:
        """Slots that a call makes refer to other tensors. Graphs bind names, and a buffer's to its next value."""
        return set() if self.method.meaning == "graph" else self.a.roles.moved

    @cached_property
    def writes(self) -> dict[int, list[Write]]:
        """All writes by arena, in the order of positions; inputs are written by staging. Memory that the caller brings
        for a slot counts as an arena of its own, with the number that `Regions` gives it."""
        found: dict[int, list[Write]] = {}
        for (position, slot), objects in self.reaching.writes.items():
            effect = self.a.effects[position]
            if slot in effect.shapes and self.reaching.copies_onto_itself(position):
                continue
            for obj in objects:
                space, low, high = self.regions.region(obj)
                if low == high or not self.method.is_tensor(obj):
                    continue
                static = self.tensor(obj).dynamism is Dynamism.STATIC
                strong = len(objects) == 1 and static and slot in effect.writes
                known = slot not in effect.may_writes
                write = Write(position, slot, obj, low, high, self.regions.sure[obj], strong, known)
                found.setdefault(space, []).append(write)
        for writes in found.values():
            writes.sort(key=lambda w: (w.position, w.slot, w.object))
        return found

    @cached_property
    def reads(self) -> list[Read]:
        """Reads that see bytes from before the call, in the order of positions and views last."""
        return [*self._reads_of_state(), *self._reads_through_views()]

    def _reads_of_state(self) -> Iterator[Read]:
        moved = self._moved()
        found = [
            (position, slot, fact[0], fact[1])
            for (position, slot), facts in self.reaching.reads.items()
            for fact in facts
            if fact[1] in (LOAD, FILL) and fact[2] == INTACT
        ]
        for position, slot, obj, definer in sorted(found):
            effect = self.a.effects[position]
            if slot not in effect.reads or slot in effect.may_writes or (slot in moved and obj == slot):
                continue
            space, low, high = self.regions.region(obj)
            if space > 0 and low < high:
                yield Read(position, slot, obj, low, high, definer == LOAD, effect.partial)

    def _reads_through_views(self) -> Iterator[Read]:
        unwritten = {(c.use.position, c.use.slot) for c in self.a.conflicts if c.kind is Kind.UNWRITTEN}
        for (position, view), contents in sorted(self.reaching.contents.items()):
            effect = self.a.effects[position]
            if view not in effect.reads or view in effect.may_writes or (position, view) in unwritten:
                continue
            pieces = {(a, b, d) for c in contents for a, b, d, _ in c if d in (LOAD, FILL)}
            space = self.regions.space[view]
            for low, high, definer in sorted(pieces):
                if space > 0 and low < high:
                    yield Read(position, view, view, low, high, definer == LOAD, effect.partial)

    # --- what a call leaves -------------------------------------------------------------------------------------------

    def writes_over(self, arena: int, low: int, high: int) -> list[Write]:
        """All writes into bytes ``low`` to ``high``, in the order of positions."""
        key = (arena, low, high)
        found = self._hits.get(key)
        if found is None:
            found = [w for w in self.writes.get(arena, ()) if w.low < high and low < w.high]
            self._hits[key] = found
        return found

    def finals(self, arena: int, byte: int, hits: Sequence[Write]) -> list[Write | None]:
        """The writes that can be the last into a byte when a call ends; None if the byte may be left alone."""
        covering = tuple(i for i, w in enumerate(hits) if w.low <= byte < w.high)
        chosen = [hits[i] for i in covering]
        key = tuple((w.position, w.slot, w.object) for w in chosen)
        known = self._finals.get(key)
        if known is None:
            known = self._finals[key] = self._flow_of(chosen)
        return [None if i < 0 else chosen[i] for i in sorted(known)]

    def _flow_of(self, writes: list[Write]) -> frozenset[int]:
        flow = self.flow
        by_block: dict[int, list[int]] = {}
        for i, w in enumerate(writes):
            by_block.setdefault(flow.block_of[w.position], []).append(i)
        before: dict[int, frozenset[int]] = {0: frozenset({-1})}
        work = deque([0])
        after: frozenset[int] = frozenset({-1})
        while work:
            b = work.popleft()
            current = before[b]
            for i in by_block.get(b, ()):
                current = frozenset({i}) if writes[i].strong else current | {i}
            if b == flow.exit:
                after = current
                continue
            for target, _ in flow.blocks[b].successors:
                merged = before.get(target, frozenset()) | current
                if merged != before.get(target):
                    before[target] = merged
                    work.append(target)
        return after

    # --- certainty ----------------------------------------------------------------------------------------------------

    def surely_reached(self, position: int) -> bool:
        """Whether some execution that is a free choice of the inputs reaches a position."""
        path = self._way(position)
        return self.flow.block_of[position] == 0 or (path is not None and path.exact)

    def _way(self, position: int) -> Path | None:
        """The shortest way found to a position from the start of a call; None for none, and where no jump is met."""
        return self._answer(position)[0]

    def excluded(self, position: int) -> bool:
        """Whether no execution reaches a position."""
        path, exhausted = self._answer(position)
        return path is None and exhausted

    def _answer(self, position: int) -> tuple[Path | None, bool]:
        if self.flow.block_of[position] == 0:
            return None, False
        if position not in self._ways:
            answer = self.judge.paths.to_position(position)
            self._ways[position] = (answer.paths[0] if answer.paths else None, answer.exhausted)
        return self._ways[position]

    def decisions(self, position: int) -> tuple[tuple[int, int, bool], ...]:
        """Jumps on the shortest way to a position within one call: (instruction, predicate slot, whether it held)."""
        path = self._way(position)
        found = []
        for block, outcome in path.steps if path else ():
            jump = self.flow.blocks[block].end - 1
            step, site = self.flow.code[jump], self.flow.sites[jump]
            if outcome is not None and isinstance(step, JumpFalse) and site is not None and site[1] is not None:
                found.append((site[1], step.condition, outcome))
        return tuple(dict.fromkeys(found))

    def follows(self, first: int, then: int) -> bool:
        """Whether position ``then`` can come after ``first`` within one call."""
        a, b = self.flow.block_of[first], self.flow.block_of[then]
        if a == b and first < then:
            return True
        known = self._reached.get(a)
        if known is None:
            known = set()
            work = [t for t, _ in self.flow.blocks[a].successors]
            while work:
                block = work.pop()
                if block not in known:
                    known.add(block)
                    work.extend(t for t, _ in self.flow.blocks[block].successors)
            self._reached[a] = known
        return b in known

    def on_every_path(self, position: int) -> bool:
        """Whether every call executes a position."""
        block = self.flow.block_of[position]
        seen = {0}
        work = [0]
        if block == 0:
            return True
        while work:
            b = work.pop()
            if b == self.flow.exit:
                return False
            for target, _ in self.flow.blocks[b].successors:
                if target not in seen and target != block:
                    seen.add(target)
                    work.append(target)
        return True

    # --- telling ------------------------------------------------------------------------------------------------------

    def place(self, position: int, slot: int | None, obj: int | None, call: int | None = None) -> Place:
        """A position of this method as an event of a story; the place names the method."""
        return replace(self.judge.place(position, slot, obj, call), method=self.name)

    def state_place(self, slot: int) -> Place:
        """A state as such, without an instruction."""
        return replace(self.load_place(slot), operator="state")

    def load_place(self, slot: int) -> Place:
        """The loading of the initial contents of a slot."""
        value = self.tensor(slot)
        arena, offset = (value.planned.arena, value.planned.offset) if value.planned else (None, 0)
        return Place(
            -1, 0, None, None, f"load {self.name}", slot, arena, offset, value.nbytes, None, value.name, value.fqn,
            self.name,
        )  # fmt: skip


def same_state(a: Tensor, b: Tensor) -> bool:
    """Whether two methods mean to share a tensor, by its place, size, dtype and name."""
    return (
        a.planned is not None
        and a.planned == b.planned
        and a.planned.arena >= FIRST_SHARED_ARENA
        and a.nbytes == b.nbytes
        and a.dtype == b.dtype
        and (a.fqn is None or b.fqn is None or a.fqn == b.fqn)
    )
