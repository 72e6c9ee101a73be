"""Runs one path of a method on shadow memory, byte by byte.

Every write leaves its tag on the bytes, every slot carries the tags that it expects; a read compares. Numbers are
computed where the program's constants give them, so loops run as often as they really do. A path that the search
found is replayed before it becomes a witness: what the replay sees is what the finding says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hazard.analysis.beliefs import Believing
from hazard.analysis.operators import PLAIN_COPIES, base_name
from hazard.analysis.paths import Path
from hazard.analysis.reaching import FILL, LOAD, Reaching
from hazard.analysis.scalars import Number, constant_of, evaluate
from hazard.program import NULL, Alias, Dynamism, JumpFalse, Kernel, Method, Move, Scalar, Tensor

#: Positions that one replay may execute.
STEP_LIMIT: Final = 20_000
#: Mismatches that one replay keeps.
MISMATCH_LIMIT: Final = 20_000

Tag = tuple[int, int, int]  # call, position (or LOAD, FILL), slot written through
Piece = tuple[int, int, Tag | None]  # first byte, end (of the space), tag; None: any contents will do


@dataclass(frozen=True, slots=True)
class Seen:
    """A read that saw something else than it expects: in bytes ``low`` to ``high`` of its arena, ``seen`` stands for
    ``expected``."""

    call: int
    position: int
    slot: int
    object: int
    low: int
    high: int
    expected: Tag
    seen: Tag
    decided: int = 0  # how many jumps had been decided by then


@dataclass(slots=True)
class Replay:
    """What one run showed. ``followed``: the decisions of the path could all be taken."""

    mismatches: list[Seen] = field(default_factory=list)
    decisions: list[tuple[int, int, bool]] = field(default_factory=list)  # call, position of the jump, predicate held
    followed: bool = True
    complete: bool = True
    unknown_rows: bool = False  # a row was appended at a place that is not known


class _Memory:
    """One space: disjoint pieces in order, as far as anything has been written."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[Piece] = []

    def _touched(self, low: int, high: int) -> tuple[int, int]:
        """The range of pieces that have a byte between ``low`` and ``high``."""
        first = bisect_right(self.starts, low) - 1
        if first < 0 or self.pieces[first][1] <= low:
            first += 1
        return first, max(first, bisect_left(self.starts, high))

    def write(self, low: int, high: int, tag: Tag | None) -> None:
        if low >= high:
            return
        first, last = self._touched(low, high)
        fresh: list[Piece] = []
        if first < last and self.pieces[first][0] < low:
            fresh.append((self.pieces[first][0], low, self.pieces[first][2]))
        fresh.append((low, high, tag))
        if first < last and self.pieces[last - 1][1] > high:
            fresh.append((high, self.pieces[last - 1][1], self.pieces[last - 1][2]))
        self.pieces[first:last] = fresh
        self.starts[first:last] = [p[0] for p in fresh]

    def read(self, low: int, high: int, blank: Tag) -> list[Piece]:
        result: list[Piece] = []
        at = low
        first, last = self._touched(low, high)
        for a, b, t in self.pieces[first:last]:
            if a > at:
                result.append((at, a, blank))
            result.append((max(a, low), min(b, high), t))
            at = min(b, high)
        if at < high:
            result.append((at, high, blank))
        return result


# Decides a jump that nothing else decides: (call, position, how often met in this call) -> whether it holds
Policy = Callable[[int, int, int], bool]


class _Run:
    def __init__(self, reaching: Reaching, believing: Believing, path: Path | None, policy: Policy) -> None:
        self.reaching, self.flow, self.policy = reaching, reaching.flow, policy
        self.empty = self.beliefs = believing.empty
        self.back = {(latch, loop.header): i for i, loop in enumerate(self.flow.loops) for latch in loop.latches}
        self.met: dict[int, int] = {}
        self.method, self.regions = reaching.method, reaching.regions
        self.memory: dict[int, _Memory] = {}
        self.slots: dict[int, tuple[int, list[Piece]]] = {}  # object, expectation
        self.numbers: dict[int, Number | None] = {}
        self.rows: dict[int, int] = {}  # rows of the object of a slot, where they have been appended
        self.result = Replay()
        self.lead = path.lead if path else 0
        self.plan: dict[int, deque[bool]] = {}
        for block, outcome in path.steps if path else ():
            if outcome is not None:
                self.plan.setdefault(self.flow.blocks[block].end - 1, deque()).append(outcome)
        self.call = 0
        self.colliding = {c.position for c in reaching.collisions}
        self.hits: set[tuple[int, int]] = set()  # (call, position) of reads that saw something else

    def memory_of(self, space: int) -> _Memory:
        if space not in self.memory:
            self.memory[space] = _Memory()
        return self.memory[space]

    def entry(self, slot: int) -> tuple[int, list[Piece]]:
        known = self.slots.get(slot)
        if known is None:
            space, low, high = self.regions.region(slot)
            known = (slot, self.memory_of(space).read(low, high, self.blank(slot)))
            self.slots[slot] = known
        return known

    def blank(self, slot: int) -> Tag:
        """The tag of bytes that nobody has written, as seen through a slot."""
        return (0, FILL, self.regions.low[slot])

    def load(self) -> None:
        first: dict[object, int] = {}  # entries of one state (same bytes, same contents) are loaded as one
        for slot, value in enumerate(self.method.values):
            if not isinstance(value, Tensor):
                continue
            region = space, low, high = self.regions.region(slot)
            if value.initial is not None or value.is_constant:
                tag: Tag = (0, LOAD, first.setdefault((region, value.initial), slot))
                self.memory_of(space).write(low, high, tag)
            else:
                tag = self.blank(slot)
            if not value.is_constant and slot not in self.reaching.roles.views:
                self.slots[slot] = (slot, [(low, high, tag)])

    def number(self, slot: int) -> Number | None:
        if slot in self.numbers:
            return self.numbers[slot]
        return constant_of(self.method, slot)

    # --- execution ----------------------------------------------------------------------------------------------------

    def run(self, goal: int | None, calls: int) -> Replay:
        self.load()
        flow = self.flow
        executed = 0
        for self.call in range(1, calls + 1):
            b = 0
            self.beliefs, self.met = self.empty, {}
            while True:
                block = flow.blocks[b]
                for position in range(block.start, block.end):
                    self.step(position)
                    if goal is not None and position == goal and self.call == calls and self._hit(goal):
                        return self.result
                executed += block.end - block.start + 1
                if executed > STEP_LIMIT:
                    self.result.complete = False
                    return self.result
                if b == flow.exit:
                    break
                b = self.next_block(b)
                if not self.result.followed:
                    return self.result
        return self.result

    def _hit(self, goal: int) -> bool:
        return (self.call, goal) in self.hits

    def next_block(self, b: int) -> int:
        block = self.flow.blocks[b]
        if len(block.successors) == 1:
            target = block.successors[0][0]
        else:
            position = block.end - 1
            jump = self.flow.code[position]
            assert isinstance(jump, JumpFalse)
            outcome = self.outcome(b, position, jump.condition)
            self.result.decisions.append((self.call, position, outcome))
            target = next(t for t, side in block.successors if side is outcome)
        loop = self.back.get((b, target))
        if loop is not None:
            self.beliefs = self.beliefs.without_loop(loop)
        return target

    def outcome(self, b: int, position: int, condition: int) -> bool:
        met = self.met[position] = self.met.get(position, 0) + 1
        planned = self.plan.get(position) if self.call > self.lead else None
        wish = planned.popleft() if planned else None
        known = self.number(condition) if isinstance(self.method.values[condition], Scalar) else None
        if known is not None:
            return bool(known)
        if (self.call, position) in self.hits:
            return self.policy(self.call, position, met) if wish is None else wish  # a clobbered predicate is anything
        fixed = self.beliefs.fixed(position)
        if wish is None:
            wish = self.wish(b, position, met) if fixed is None else fixed
        elif fixed is not None and wish is not fixed:
            self.result.followed = False
        after = self.beliefs.decide(position, wish)
        if after is None:
            self.result.followed = self.result.followed and not planned
            wish = not wish
            after = self.beliefs.decide(position, wish)
        if after is not None:
            self.beliefs = after
        return wish

    def wish(self, b: int, position: int, met: int) -> bool:
        """A loop whose trip count is not known runs twice; other jumps go as the policy says."""
        for target, side in self.flow.blocks[b].successors:
            if (b, target) in self.back and side is not None:
                return side if met % 2 else not side
        return self.policy(self.call, position, met)

    def step(self, position: int) -> None:
        step, effect = self.flow.code[position], self.reaching.effects[position]
        match step:
            case Move(source, target):
                if isinstance(self.method.values[target], Scalar):
                    self.numbers[target] = self.number(source)
                else:
                    self.slots[target] = self.view_or_entry(source, position)
                return
            case Alias(source, target):
                self.slots[target] = self.rebound(target, self.view_or_entry(source, position))
                return
            case JumpFalse(condition, _):
                if self.method.is_tensor(condition):
                    self.check(position, condition)
                return
        if effect.points:
            target, source = effect.points
            self.slots[target] = self.view_or_entry(source, position)
            return
        for slot in effect.reads:
            self.check(position, slot)
        if position in self.colliding:
            self.collide(position)
        self.write(position)
        if effect.scalars and isinstance(step, Kernel):
            self.numbers[step.args[-1]] = self.value(step)

    def value(self, step: Kernel) -> Number | None:
        """The number that a call leaves in its last argument. The rows appended so far are a size that is known."""
        if base_name(step.operator) == "sym_size" and self.method.is_tensor(step.args[0]):
            rows = self.rows.get(self.object_of(step.args[0]))
            if rows is not None and self.number(step.args[1]) == 0:
                return rows
        return evaluate(self.method, step, self.number, self.reaching.roles.renamed)

    def collide(self, position: int) -> None:
        """Operands of one instruction that share bytes on this path."""
        for c in self.reaching.collisions:
            if c.position != position:
                continue
            victim, writer = self.object_of(c.victim), self.object_of(c.writer)
            if (victim, writer) == (c.victim_object, c.writer_object):
                first, end = self.written(position, c.writer, writer)
                low = max(self.regions.low[victim], first)
                high = min(self.regions.high[victim], end)
                whole = (first, end) == (self.regions.low[victim], self.regions.high[victim])
                if low >= high or (whole and c.writer in self.reaching.effects[position].appends):
                    continue  # missed, or a row copied onto itself
                tag: Tag = (self.call, position, c.writer)
                decided = len(self.result.decisions)
                seen = Seen(self.call, position, c.victim, victim, low, high, tag, tag, decided)
                self.hits.add((self.call, position))
                self.result.mismatches.append(seen)

    def written(self, position: int, slot: int, obj: int) -> tuple[int, int]:
        """The bytes that a position may write of an object: all of them, or the row that is appended."""
        effect = self.reaching.effects[position]
        low, high = self.regions.low[obj], self.regions.high[obj]
        row = self.number(effect.row) if effect.row is not None and slot in effect.appends else None
        if not isinstance(row, int):
            return low, high
        width = self.method.tensor(effect.reads[0]).nbytes
        return low + row * width, min(low + (row + 1) * width, high)

    def same_bytes(self, position: int) -> bool:
        """Whether an instruction leaves the bytes of its result as they are, on this path."""
        effect, step = self.reaching.effects[position], self.flow.code[position]
        if self.reaching.copies_onto_itself(position):
            return True
        if not isinstance(step, Kernel) or base_name(step.operator) not in PLAIN_COPIES or len(effect.reads) != 1:
            return False
        if not effect.writes:
            return False
        target, source = self.object_of(effect.writes[0]), self.object_of(effect.reads[0])
        same = self.regions.region(target) == self.regions.region(source)
        return same and self.reaching.same_elements(target, source)

    def object_of(self, slot: int) -> int:
        return slot if slot in self.reaching.roles.views else self.entry(slot)[0]

    def view_or_entry(self, slot: int, position: int) -> tuple[int, list[Piece]]:
        if slot not in self.reaching.roles.views:
            return self.entry(slot)
        space, low, high = self.regions.region(slot)
        return (slot, self.memory_of(space).read(low, high, self.blank(slot)))

    def rebound(self, target: int, source: tuple[int, list[Piece]]) -> tuple[int, list[Piece]]:
        value = self.method.values[target]
        if not isinstance(value, Tensor) or value.is_name_only:
            return source
        obj, expected = source
        if self.regions.region(obj) == self.regions.region(target):
            return (target, expected)
        # The bytes differ: shift what is expected to the target's own bytes, where nobody wrote it.
        shift = self.regions.low[target] - self.regions.low[obj]
        end = self.regions.high[target]
        return (target, [(a + shift, min(b + shift, end), t) for a, b, t in expected if a + shift < end])

    def check(self, position: int, slot: int) -> None:
        if slot in self.reaching.roles.views or not self.method.is_tensor(slot):
            return
        obj, expected = self.entry(slot)
        value = self.method.values[obj]
        if not isinstance(value, Tensor) or value.is_constant:
            return  # a move can make a slot refer to a number; reading that is no question of memory
        space = self.regions.space[obj]
        memory = self.memory_of(space)
        for low, high, want in expected:
            if want is None:
                continue
            for a, b in self.parts(position, slot, obj, low, high):
                for c, d, seen in memory.read(a, b, self.blank(obj)):
                    if seen is not None and seen != want:
                        decided = len(self.result.decisions)
                        self.hits.add((self.call, position))
                        if len(self.result.mismatches) < MISMATCH_LIMIT:
                            self.result.mismatches.append(
                                Seen(self.call, position, slot, obj, c, d, want, seen, decided)
                            )

    def parts(self, position: int, slot: int, obj: int, low: int, high: int) -> list[tuple[int, int]]:
        """The bytes between ``low`` and ``high`` that the instruction reads."""
        effect, step = self.reaching.effects[position], self.flow.code[position]
        if not effect.partial or not isinstance(step, Kernel) or step.args[0] != slot:
            return [(low, high)]
        value = self.method.tensor(obj)
        ranges = element_ranges(self.method, value, step, self.number)
        if ranges is None:
            return [(low, high)]
        base = self.regions.low[obj]
        return [(max(low, base + a), min(high, base + b)) for a, b in ranges if base + a < high and base + b > low]

    def write(self, position: int) -> None:
        effect, step = self.reaching.effects[position], self.flow.code[position]
        same = self.same_bytes(position)
        for slot in effect.writes:
            if not self.method.is_tensor(slot):
                continue
            obj = self.entry(slot)[0]
            space, low, high = self.regions.region(obj)
            tag: Tag = (self.call, position, slot)
            if not same:
                self.memory_of(space).write(low, high, tag)
            expected: Tag | None = None if effect.undefined else tag
            if same:
                # What a copy onto itself means: its source's meaning if that is there, else what is there now.
                pieces = self.memory_of(space).read(low, high, self.blank(obj))
                self.slots[slot] = (obj, [(a, b, None) for a, b, _ in pieces] if effect.undefined else pieces)
            else:
                self.slots[slot] = (obj, [(low, high, expected)])
        for slot in effect.frees:
            space, low, high = self.regions.region(self.entry(slot)[0])
            self.memory_of(space).write(low, high, (self.call, position, slot))
        for slot in effect.updates:
            self.update(position, slot)
        for slot in self.reaching.roles.adopters.get(position, ()):
            region = self.regions.region(slot)
            own = next(s for s in (*effect.writes, *effect.updates) if self.regions.region(s) == region)
            self.slots[slot] = (slot, list(self.slots[own][1]))
        for slot in effect.appends:
            assert isinstance(step, Kernel)
            row = self.number(effect.row) if effect.row is not None else None
            self.append(position, slot, effect.reads[0], row)

    def update(self, position: int, slot: int) -> None:
        """Any byte may change: where the slot's own value stands, it becomes the new one, elsewhere nothing heals."""
        obj, expected = self.entry(slot)
        space = self.regions.space[obj]
        memory = self.memory_of(space)
        tag: Tag = (self.call, position, slot)
        fresh: list[Piece] = []
        for low, high, want in expected:
            for a, b, seen in memory.read(low, high, self.blank(obj)):
                if want is None or seen == want:
                    memory.write(a, b, tag)
                    fresh.append((a, b, tag))
                else:
                    fresh.append((a, b, want))
        self.slots[slot] = (obj, fresh)

    def append(self, position: int, slot: int, source: int, row: Number | None) -> None:
        obj, expected = self.entry(slot)
        space, low, high = self.regions.region(obj)
        tag: Tag = (self.call, position, slot)
        width = self.method.tensor(source).nbytes
        if not isinstance(row, int) or isinstance(row, bool):
            self.result.unknown_rows = True
            self.update(position, slot)
            return
        first, end = low + row * width, min(low + (row + 1) * width, high)
        self.memory_of(space).write(first, end, tag)
        self.rows[obj] = row + 1
        kept = [] if row == 0 else [(a, min(b, first), t) for a, b, t in expected if a < first]
        rest: list[Piece] = [(end, high, None)] if end < high else []
        self.slots[slot] = (obj, [*kept, (first, end, tag), *rest])


def element_ranges(
    method: Method, value: Tensor, step: Kernel, number: Callable[[int], Number | None]
) -> list[tuple[int, int]] | None:
    """The bytes of an operand, from its first, that ``select`` or ``slice`` reads, or None where they are not known."""
    name = base_name(step.operator)
    contiguous = value.layout is None and value.dynamism is Dynamism.STATIC
    if not contiguous or name not in ("select_copy", "slice_copy"):
        return None
    numbers = [number(a) for a in step.args[1:]]
    sizes = value.sizes
    dim = numbers[0]
    if not isinstance(dim, int) or not -len(sizes) <= dim < len(sizes):
        return None
    dim %= len(sizes)
    extent = sizes[dim]
    if name == "select_copy":
        index = numbers[1] if len(numbers) > 1 else None
        if not isinstance(index, int) or not -extent <= index < extent:
            return None
        picks = range(index % extent, index % extent + 1)
    else:
        if len(numbers) < 4:
            return None
        first = 0 if method.values[step.args[2]] == NULL else numbers[1]
        end = extent if method.values[step.args[3]] == NULL else numbers[2]
        stride = numbers[3]
        if not isinstance(first, int) or not isinstance(end, int) or not isinstance(stride, int) or stride < 1:
            return None
        first = max(0, first + extent if first < 0 else first)
        end = min(extent, end + extent if end < 0 else end)
        picks = range(first, end, stride)
    inner = value.itemsize
    for s in sizes[dim + 1 :]:
        inner *= s
    outer = 1
    for s in sizes[:dim]:
        outer *= s
    if outer * len(picks) > 4096:
        return None
    if picks.step == 1:
        runs = [(picks.start, picks.stop)] if picks else []
    else:
        runs = [(k, k + 1) for k in picks]
    row = extent * inner
    return [(o * row + a * inner, o * row + b * inner) for o in range(outer) for a, b in runs]


def replay(reaching: Reaching, believing: Believing, path: Path, goal: int) -> Replay:
    """Executes a path up to the read at position ``goal`` in its last call."""
    return _Run(reaching, believing, path, _always_true).run(goal, path.call)


def _always_true(call: int, position: int, met: int) -> bool:
    return True


def _scattered(seed: int) -> Policy:
    return lambda call, position, met: bool((position * 2654435761 + seed * 40503 + call * 97 + met * 31) >> 7 & 1)


#: Ways through a method that between them take most pairs of outcomes; two calls each.
_POLICIES: Final[tuple[Policy, ...]] = (
    _always_true,
    lambda call, position, met: False,
    lambda call, position, met: call == 1,
    lambda call, position, met: call != 1,
    lambda call, position, met: met % 2 == 1,
    _scattered(1),
    _scattered(2),
    _scattered(3),
    _scattered(4),
)


def explore(reaching: Reaching, believing: Believing) -> list[Replay]:
    """A few runs of two calls along different ways; a fault that they show needs no search."""
    branching = any(len(b.successors) > 1 for b in reaching.flow.blocks)
    return [_Run(reaching, believing, None, policy).run(None, 2) for policy in _POLICIES[: None if branching else 1]]
