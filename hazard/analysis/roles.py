"""What the slots of a method are for, as far as its instructions tell.

A planned graph drops the instruction of a static view and leaves a second tensor entry on the same bytes. In the
bytecode such a *presumed view* is a planned slot that nothing ever writes. What it reads can only be presumed, and a
verdict that rests on it says so (``elided-view v17=v8``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hazard.analysis.effects import Declarations, Effect, effect_of
from hazard.analysis.flow import Flow, InstanceOrder, Stage, Use
from hazard.analysis.sizes import Expression, Sizes, SymbolicBytes
from hazard.program import (
    NULL,
    Alias,
    Constant,
    DelegateCall,
    Dynamism,
    Method,
    Move,
    Planned,
    Scalar,
    Tensor,
)

Region = tuple[int, int, int]  # space, first byte, end


@dataclass(frozen=True, slots=True)
class Guess:
    """A delegate call whose outputs could not be told from its inputs: ``sure`` to ``most`` of its last arguments."""

    position: int
    sure: int
    most: int


@dataclass(slots=True)
class Roles:
    """What each slot is for.

    ``moved``: slots that a move, an alias or a run-time view can make refer to another tensor object's bytes.
    ``renamed``: those of them that a move or an alias does it to, whose own sizes then say nothing.
    ``views``: presumed views. ``states``: planned slots that keep a meaning from one call to the next.
    ``adopters``: position of a write to state -> the other entries of that state. ``bases``: slots that are only ever
    updated in place, with the writes that may define them: such a slot is state without contents, or a view without
    instruction of a tensor on exactly its bytes.
    ``root``: for each tensor slot, the representative of the slots that moves connect it with.
    """

    moved: set[int]
    renamed: set[int]
    views: set[int]
    written: set[int]
    root: dict[int, int]
    move_targets: set[int]
    guesses: list[Guess]
    adopters: dict[int, tuple[int, ...]]
    bases: dict[int, frozenset[int]]


class Regions:
    """The bytes of every tensor slot's own object, as (space, first byte, end).

    Spaces: arenas by id; constants and caller-owned memory each in a space of their own (negative numbers).
    """

    def __init__(self, method: Method) -> None:
        count = len(method.values)
        self._overlapping: dict[Region, list[int]] = {}
        self._by_size: dict[int, list[tuple[int, list[int], list[int]]]] | None = None
        self.space = [-1] * count
        self.low = [0] * count
        self.high = [0] * count
        self.sure = [0] * count  # end of the bytes that every non-empty instance has
        constants: dict[int | str, int] = {}
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and not value.nbytes:
                self.space[slot] = -2 - slot  # no bytes: wherever it lies, it meets nobody
                continue
            if not isinstance(value, Tensor):
                self.space[slot] = -2 - slot
                self.high[slot] = self.sure[slot] = 1 if isinstance(value, Scalar) else 0
                continue
            match value.placement:
                case Planned(arena, offset):
                    self.space[slot], self.low[slot] = arena, offset
                case Constant(key):
                    self.space[slot] = -2 - count - constants.setdefault(key, len(constants))
                case _:
                    self.space[slot] = -2 - slot
            self.high[slot] = self.low[slot] + value.nbytes
            self.sure[slot] = self.low[slot] + value.sure_nbytes
        symbolic = SymbolicBytes(method) if method.symbols else None
        #: Byte ranges as expressions over size symbols, where a graph gives any.
        self.symbolic = symbolic if symbolic is not None and symbolic.extents else None

    def region(self, slot: int) -> Region:
        return self.space[slot], self.low[slot], self.high[slot]

    def overlapping(self, obj: int) -> list[int]:
        """All slots whose own object has a byte in common with that of slot ``obj``, itself included."""
        region = self.region(obj)
        found = self._overlapping.get(region)
        if found is None:
            space, low, high = region
            found = []
            # By size class, so that one large tensor does not widen the window for the small ones.
            for largest, lows, slots in self._classes().get(space, ()):
                first = bisect_right(lows, low - largest)
                for i in range(first, bisect_left(lows, high)):
                    if self.high[slots[i]] > low:
                        found.append(slots[i])
            self._overlapping[region] = found
        return found

    def _classes(self) -> dict[int, list[tuple[int, list[int], list[int]]]]:
        if self._by_size is None:
            groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
            for slot, space in enumerate(self.space):
                size = self.high[slot] - self.low[slot]
                if size:
                    groups.setdefault((space, size.bit_length()), []).append((self.low[slot], slot))
            self._by_size = {}
            for (space, bits), members in groups.items():
                members.sort()
                entry = (1 << bits, [m[0] for m in members], [m[1] for m in members])
                self._by_size.setdefault(space, []).append(entry)
        return self._by_size

    def overlap(self, a: int, b: int) -> bool:
        """Whether the objects of two slots have a byte in common (at their largest sizes, or at any known ones)."""
        if self.space[a] != self.space[b] or self.low[a] >= self.high[b] or self.low[b] >= self.high[a]:
            return False
        if self.symbolic is None or (a not in self.symbolic.extents and b not in self.symbolic.extents):
            return True
        return self.symbolic.can_meet(a, b, self.low[b] - self.low[a])

    def surely_overlap(self, a: int, b: int) -> bool:
        """The same at the smallest non-empty sizes."""
        return self.space[a] == self.space[b] and self.low[a] < self.sure[b] and self.low[b] < self.sure[a]

    def exactly_overlap(self, a: int, b: int) -> bool:
        """The same at all sizes, or at sizes that a caller can choose because they are known as expressions."""
        if self.surely_overlap(a, b):
            return True
        return self._exact(a) and self._exact(b) and self.overlap(a, b)

    def _exact(self, slot: int) -> bool:
        """Whether the bytes of an object are known for all sizes."""
        static = self.sure[slot] == self.high[slot]
        return static or (self.symbolic is not None and slot in self.symbolic.extents)

    def sizes_of_overlap(self, a: int, b: int, facts: Iterable[tuple[Expression, bool]]) -> Sizes | None:
        """The smallest sizes at which two objects have a byte in common, None if there are none.

        ``facts`` are predicates on sizes and their truth. Without expressions for the sizes there are none to tell.
        """
        if not self.overlap(a, b):
            return None
        symbolic = self.symbolic
        if symbolic is None or not (self._exact(a) and self._exact(b)) or not {a, b} & symbolic.extents.keys():
            return ()
        return symbolic.meeting(a, b, self.low[b] - self.low[a], facts)


def instruction_effects(flow: Flow, declared: Declarations) -> list[Effect]:
    """The effect of every position; staging writes its slot, a use reads it."""
    method = flow.method
    effects: list[Effect] = []
    for step in flow.code:
        if isinstance(step, Stage):
            effects.append(Effect(writes=(step.slot,)) if method.is_tensor(step.slot) else Effect(scalars=(step.slot,)))
        elif isinstance(step, Use):
            effects.append(Effect(reads=method.tensors_of(step.slot)))
        else:
            effects.append(effect_of(method, step, declared))
    return effects


def settle_roles(
    flow: Flow, effects: list[Effect], regions: Regions, outputs: Mapping[int, int] | None = None
) -> Roles:
    """Finds what each slot is for and settles the outputs of delegates, changing their effects in place.

    ``outputs`` gives the least number of outputs of a delegate call, by position, where more is known than its
    arguments tell.
    """
    method = flow.method
    states_meaning = method.meaning == "graph"
    parent: dict[int, int] = {}

    def find(slot: int) -> int:
        while parent.get(slot, slot) != slot:
            parent[slot] = parent.get(parent[slot], parent[slot])
            slot = parent[slot]
        return slot

    moved: set[int] = set()
    renamed: set[int] = set()
    move_targets: set[int] = set()
    written: set[int] = set()
    delegate_positions: list[int] = []
    for position, step in enumerate(flow.code):
        effect = effects[position]
        match step:
            case Move(source, target) | Alias(source, target):
                moved.add(target)
                renamed.add(target)
                if isinstance(step, Move):
                    move_targets.add(target)
                parent[find(target)] = find(source)
                written.add(target)
            case DelegateCall(outputs=None):
                delegate_positions.append(position)
                continue
            case _ if effect.points:
                target, source = effect.points
                moved.add(target)
                written.add(target)
                parent[find(target)] = find(source)
        written.update(effect.writes, effect.updates, effect.appends, effect.may_writes if effect.known else ())
    guesses = _settle_delegates(flow, effects, regions, written, move_targets, delegate_positions, outputs or {})
    for position in delegate_positions:
        written.update(effects[position].writes)
    views: set[int] = set()
    if not states_meaning:
        views = _presumed_views(flow, effects, regions, written)
    root = {s: find(s) for s, v in enumerate(method.values) if isinstance(v, Tensor)}
    adopters, bases = ({}, {}) if states_meaning else _adopters(flow, effects, regions, moved)
    return Roles(moved, renamed, views, written, root, move_targets, guesses, adopters, bases)


def _adopters(
    flow: Flow, effects: list[Effect], regions: Regions, moved: set[int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, frozenset[int]]]:
    """``adopters`` and ``bases`` of `Roles`.

    A write may define the base of a slot if it writes exactly the slot's bytes before the slot's updates, and not after
    them, in one call and in one iteration of the loops around them.
    """
    method = flow.method
    updates: dict[int, list[int]] = {}
    whole: set[int] = set(method.inputs) | moved
    writers: dict[Region, list[tuple[int, int, bool]]] = {}
    for position, effect in enumerate(effects):
        for slot in effect.updates:
            updates.setdefault(slot, []).append(position)
        whole.update(effect.writes, effect.appends, effect.may_writes)
        for slot in (*effect.writes, *effect.updates):
            if slot not in moved:
                writers.setdefault(regions.region(slot), []).append((position, slot, slot in effect.writes))
    found: dict[int, set[int]] = {}
    bases: dict[int, frozenset[int]] = {}
    states: dict[tuple[Region, int], list[int]] = {}
    for slot, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.planned and value.initial is not None and slot not in moved:
            states.setdefault((regions.region(slot), value.initial), []).append(slot)
    for (region, _), entries in states.items():
        for position, slot, _ in writers.get(region, ()) if len(entries) > 1 else ():
            if slot in entries:
                found.setdefault(position, set()).update(e for e in entries if e != slot)
    for slot, positions in updates.items():
        value = method.tensor(slot)
        if slot in whole or not value.planned or value.initial is not None or value.dynamism is not Dynamism.STATIC:
            continue
        order = InstanceOrder(flow, positions)
        defining = set()
        for position, writer, is_whole in writers.get(regions.region(slot), ()):
            if writer == slot or not is_whole:
                continue
            after = any(order.before(u, position) for u in positions)
            if not after and any(order.before(position, u) for u in positions):
                defining.add(position)
        if defining:
            bases[slot] = frozenset(defining)
    return {position: tuple(sorted(slots)) for position, slots in found.items()}, bases


def _presumed_views(flow: Flow, effects: list[Effect], regions: Regions, written: set[int]) -> set[int]:
    method = flow.method
    used: set[int] = set()
    for position, step in enumerate(flow.code):
        used.update(effects[position].reads)
        if isinstance(step, Move):
            used.update(method.tensors_of(step.source))
        if (points := effects[position].points) is not None:
            used.add(points[1])
    written_regions: dict[Region, int] = {}
    for slot in written:
        value = method.values[slot]
        if isinstance(value, Tensor) and value.planned:
            written_regions.setdefault(regions.region(slot), slot)
    views = set()
    for slot in used - written:
        value = method.values[slot]
        if not isinstance(value, Tensor) or not value.planned or value.nbytes == 0:
            continue
        # State with initial contents has a writer, the loader. A second entry on the same bytes that only reads is a
        # view of the state when another entry is the one that instructions write.
        if value.initial is None or regions.region(slot) in written_regions:
            views.add(slot)
    return views


def _settle_delegates(
    flow: Flow,
    effects: list[Effect],
    regions: Regions,
    written: set[int],
    move_targets: set[int],
    positions: list[int],
    known_outputs: Mapping[int, int],
) -> list[Guess]:
    """Chooses which last arguments of each delegate call are its outputs.

    An output is a planned or caller-owned tensor that nothing else defines: no input, constant, state with contents or
    result of another instruction. The longest such suffix is the most that can be outputs. An argument that could
    instead be a view without instruction (a slot on exactly the bytes of a written one) is not sure; the outputs reach
    at least back to the first argument that is sure, and at least to the last argument.
    """
    method = flow.method
    inputs = set(method.inputs)
    seen_before: dict[int, int] = {}
    for position in positions:
        step = flow.code[position]
        assert isinstance(step, DelegateCall)
        for a in step.args:
            for slot in method.tensors_of(a):
                seen_before.setdefault(slot, position)
    owners: dict[Region, set[int]] = {}
    for slot in {*written, *move_targets, *(s for s in seen_before if s not in written)}:
        if method.is_tensor(slot):
            owners.setdefault(regions.region(slot), set()).add(slot)
    guesses = []
    claimed: set[int] = set()
    for position in positions:
        step = flow.code[position]
        assert isinstance(step, DelegateCall)
        args = step.args
        most = sure = 0
        first: dict[int, int] = {}
        for i, arg in enumerate(args):
            for slot in method.tensors_of(arg):
                first.setdefault(slot, i)
        for count in range(1, len(args) + 1):
            arg = args[-count]
            slots = method.tensors_of(arg)
            if isinstance(method.values[arg], Scalar) and method.values[arg] != NULL:
                continue  # a number: an input, or an output beside those that are tensors
            if not slots or any(not _can_be_output(method, s, written, inputs, claimed) for s in slots):
                break
            if any(first[s] < len(args) - count for s in slots):
                break
            most = count
            if all(_cannot_be_view(method, s, regions, owners) for s in slots):
                sure = count
        if most:
            sure = max(sure, 1, min(most, known_outputs.get(position, 0)))
        uncertain = args[len(args) - most : len(args) - sure]
        outs = [s for a in args[len(args) - sure :] for s in method.tensors_of(a)] if sure else []
        ins = [s for a in args[: len(args) - sure] for s in method.tensors_of(a)]
        unsure = [s for a in uncertain for s in method.tensors_of(a)]
        if not most:  # no argument looks like an output, so any may be one
            unsure = [s for s in ins if not method.tensor(s).is_constant]
        claimed.update(outs)
        effects[position] = replace(
            effects[position],
            reads=tuple(dict.fromkeys(ins)),
            writes=tuple(dict.fromkeys(outs)),
            may_writes=tuple(dict.fromkeys(unsure)),
            scalars=tuple(a for a in args if isinstance(method.values[a], Scalar) and method.values[a] != NULL),
            known=most > 0 and sure == most,
        )
        if sure != most or most == 0:
            guesses.append(Guess(position, sure, most))
    return guesses


def _can_be_output(method: Method, slot: int, written: set[int], inputs: set[int], claimed: set[int]) -> bool:
    value = method.values[slot]
    return (
        isinstance(value, Tensor)
        and not value.is_constant
        and value.initial is None
        and slot not in inputs
        and slot not in written
        and slot not in claimed
    )


def _cannot_be_view(method: Method, slot: int, regions: Regions, owners: dict[Region, set[int]]) -> bool:
    value = method.tensor(slot)
    if value.planned is None or value.dynamism is not Dynamism.STATIC:
        return True  # views without an instruction are planned and static
    if value.fqn is not None:
        return False
    return owners.get(regions.region(slot), set()) <= {slot}
