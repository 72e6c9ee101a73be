"""Who must not share bytes with whom, from what the program does and not from any planner's lifetimes.

Two tensor objects interfere when one is written while the value of the other is still expected by a later read on some
path. Liveness and what each slot can refer to come from the program; where the bytes are now plays no part in it, with
one exception: what a presumed view sees today is what it has to see under any other plan.

Sets of slots are integers with one bit for each slot: with thousands of instructions and dozens of live values this is
what makes the whole question cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Kind
from hazard.analysis.flow import Stage
from hazard.analysis.reaching import FILL, LOAD
from hazard.program import Alias, DelegateCall, JumpFalse, Method, Move, Planned, Program, Tensor

#: Alignment in bytes where a plan shows none (ExecuTorch's default, ``exir/memory_planning.py``), and with delegates.
DEFAULT_ALIGNMENT: Final = 16
DELEGATE_ALIGNMENT: Final = 64


def bits(mask: int) -> Iterator[int]:
    """The members of a set, in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(slots: Iterable[int]) -> int:
    """The set with the given members."""
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


@dataclass(frozen=True, slots=True)
class Bond:
    """Two objects that have to move together: ``second`` lies ``distance`` bytes above ``first``. ``why`` is a word."""

    first: int
    second: int
    distance: int
    why: str


@dataclass(slots=True)
class Lives:
    """Interference within one method; objects are the planned tensors that have bytes, by slot.

    ``persistent``: objects whose value outlives a call; they interfere with everything that is ever written.
    ``edges``: for each other object those that it interferes with; of each pair at least one lists the other.
    ``present``: for each position the objects that hold a value there, are read or are written. ``written``: objects
    that something writes. ``overlays``: (operand, result) pairs that share their bytes today and may go on doing so,
    but must not begin to overlap in part. ``unexplained``: presumed views that read wrong bytes and of which nothing
    tells what they are views of; whatever a plan makes of them is a guess.
    """

    analysis: MethodAnalysis
    objects: int
    edges: dict[int, int]
    present: list[int]
    persistent: int
    written: int
    bonds: list[Bond]
    overlays: list[tuple[int, int]]
    unexplained: list[int]


def lives(analysis: MethodAnalysis, bonds: Iterable[Bond] = ()) -> Lives:
    """The interference of one method; ``bonds`` are those that its origin knows of besides."""
    found = _Lives(analysis).run()
    found.bonds.extend(b for b in bonds if found.objects >> b.first & 1 and found.objects >> b.second & 1)
    return found


class _Lives:
    def __init__(self, analysis: MethodAnalysis) -> None:
        self.a = analysis
        self.flow, self.method, self.reaching = analysis.flow, analysis.method, analysis.reaching
        self.effects, self.roles, self.regions = analysis.effects, analysis.roles, analysis.regions
        self.objects = mask_of(
            s for s, v in enumerate(self.method.values) if isinstance(v, Tensor) and v.planned and v.nbytes
        )
        self.moved = mask_of(self.roles.moved)
        self.live_after = self._liveness()
        self.refers = self._points_to()
        self.edges: dict[int, int] = dict.fromkeys(bits(self.objects), 0)
        self.present = [0] * len(self.flow.code)
        self.written = self.persistent = 0
        self.overlays: dict[tuple[int, int], None] = {}
        self.bonds: list[Bond] = []
        self.unexplained: list[int] = []

    def run(self) -> Lives:
        self.persistent = persistent = self._persistent()
        for b in self.flow.order:
            self._walk(b)
        self._staging()
        self._bind_views()
        self._bind_updated()
        self._bind_initial()
        self._bind_storage()
        self._bind_aliases()
        self._bind_unknown()
        passing = ~persistent
        self.edges = {a: neighbours & passing for a, neighbours in self.edges.items() if passing >> a & 1}
        return Lives(
            self.a, self.objects, self.edges, self.present, persistent, self.written, self.bonds, list(self.overlays),
            self.unexplained,
        )  # fmt: skip

    # --- liveness and points-to ---------------------------------------------------------------------------------------

    def _liveness(self) -> list[int]:
        """For each position the slots whose meaning is used after it, further calls included."""
        flow, restarts = self.flow, self.reaching.restarts
        uses = [mask_of(self.reaching.uses(p)) for p in range(len(flow.code))]
        kills = [mask_of(self.reaching.kills(p)) for p in range(len(flow.code))]
        edges: dict[int, list[tuple[int, int]]] = {}
        for b in flow.order:
            targets = [t for t, _ in flow.blocks[b].successors]
            if b == flow.exit:
                targets.append(0)
            # On these edges the rows of a loop's result begin anew: nobody wants the old ones.
            edges[b] = [(t, mask_of(restarts.get((b, t), ()))) for t in targets]
        live_in = dict.fromkeys(flow.order, 0)
        result = [0] * len(flow.code)
        changed = True
        while changed:
            changed = False
            for b in reversed(flow.order):
                live = 0
                for target, dropped in edges[b]:
                    live |= live_in[target] & ~dropped
                for position in range(flow.blocks[b].end - 1, flow.blocks[b].start - 1, -1):
                    result[position] = live
                    live = (live & ~kills[position]) | uses[position]
                if live != live_in[b]:
                    live_in[b] = live
                    changed = True
        self.live_at_start = live_in[0]
        return result

    def _points_to(self) -> dict[int, dict[int, int]]:
        """For each block, on entry, the objects that each slot which moves can refer to."""
        flow = self.flow
        moving = {
            b: [p for p in range(flow.blocks[b].start, flow.blocks[b].end) if self._redirects(p)] for b in flow.order
        }
        entry: dict[int, dict[int, int]] = {0: {s: 1 << s for s in self.roles.moved}}
        # In the order of the program, so that a block is met after most of what leads to it.
        waiting = {0}
        while waiting:
            for b in flow.order:
                if b not in waiting:
                    continue
                waiting.discard(b)
                state = dict(entry[b])
                for position in moving[b]:
                    self._step(position, state)
                targets = [t for t, _ in flow.blocks[b].successors]
                if b == flow.exit:
                    targets.append(0)
                for target in targets:
                    known = entry.get(target)
                    if known is None:
                        entry[target] = dict(state)
                        waiting.add(target)
                        continue
                    for slot, objects in state.items():
                        if objects & ~known.get(slot, 0):
                            known[slot] = known.get(slot, 0) | objects
                            waiting.add(target)
        return entry

    def _redirects(self, position: int) -> bool:
        """Whether an instruction makes a slot refer to another object."""
        return isinstance(self.flow.code[position], Move | Alias) or self.effects[position].points is not None

    def _step(self, position: int, state: dict[int, int]) -> None:
        step = self.flow.code[position]
        match step:
            case Move(source, target):
                if self.method.is_tensor(target):
                    state[target] = self._refers(source, state)
            case Alias(source, target):
                own = 1 << target if self.objects >> target & 1 else 0
                state[target] = own or self._refers(source, state)
            case _:
                points = self.effects[position].points
                if points is not None:
                    state[points[0]] = self._refers(points[1], state)

    def _refers(self, slot: int, state: dict[int, int]) -> int:
        return state.get(slot, 1 << slot) if self.moved >> slot & 1 else 1 << slot

    # --- edges --------------------------------------------------------------------------------------------------------

    def _persistent(self) -> int:
        """Objects whose value is there when a call begins: what loading wrote, and what an earlier call left."""
        state = self.refers[0]
        found = 0
        for slot in bits(self.live_at_start):
            found |= self._refers(slot, state)
        for slot in bits(self.objects):
            value = self.method.tensor(slot)
            if value.initial is not None or value.fqn is not None:
                found |= 1 << slot
        return found & self.objects

    def _walk(self, b: int) -> None:
        block = self.flow.blocks[b]
        state = dict(self.refers[b])
        for position in range(block.start, block.end):
            effect = self.effects[position]
            targets = dict.fromkeys((*effect.writes, *effect.updates, *effect.appends, *effect.may_writes))
            written = {t: self._refers(t, state) & self.objects for t in targets}
            read = {s: self._refers(s, state) & self.objects for s in effect.reads}
            self._step(position, state)
            live = self.live_after[position]
            expected = live & self.objects & ~self.moved
            through = {s: self._refers(s, state) & self.objects for s in bits(live & self.moved)}
            for objects in through.values():
                expected |= objects
            here = expected
            for slot, objects in written.items():
                here |= objects
                self.written |= objects
                wanted = expected
                if slot in through:
                    # Which object this slot refers to is settled by the path: writing it leaves the others alone.
                    wanted = live & self.objects & ~self.moved
                    for other, others in through.items():
                        if other != slot:
                            wanted |= others
                for obj in bits(objects):
                    self.edges[obj] |= wanted & ~(1 << obj)
                    for other, others in written.items():
                        if other != slot:
                            self.edges[obj] |= others & ~(1 << obj)
                    for reader, victims in read.items():
                        if reader != slot:
                            self._operand(effect.elementwise, obj, victims & ~(1 << obj))
            for objects in read.values():
                here |= objects
            self.present[position] |= here

    def _operand(self, elementwise: bool, result: int, operands: int) -> None:
        for operand in bits(operands):
            if self._may_overlay(elementwise, operand, result):
                self.overlays[operand, result] = None
            else:
                self.edges[result] |= 1 << operand

    def _may_overlay(self, elementwise: bool, operand: int, result: int) -> bool:
        """Whether the result lies exactly on the operand today, and its kernel may write there."""
        if not elementwise or self.regions.region(operand) != self.regions.region(result):
            return False
        a, b = self.method.tensor(operand), self.method.tensor(result)
        return a.itemsize == b.itemsize and (a.layout or ()) == (b.layout or ())

    def _staging(self) -> None:
        """Hosts stage inputs in any order: what is wanted once all have arrived must survive each of them."""
        code = self.flow.code
        stages = [p for p, step in enumerate(code) if isinstance(step, Stage)]
        if not stages:
            return
        block = self.flow.block_of[stages[-1]]
        state = self.refers[block]
        expected = 0
        for slot in bits(self.live_after[stages[-1]]):
            expected |= self._refers(slot, state)
        expected &= self.objects
        for position in stages:
            step = code[position]
            assert isinstance(step, Stage)
            if self.objects >> step.slot & 1:
                self.edges[step.slot] |= expected & ~(1 << step.slot)
            self.present[position] |= expected

    # --- who moves together -------------------------------------------------------------------------------------------

    def _bind(self, first: int, second: int, why: str) -> bool:
        """Keeps the distance of two objects as it is. False where they are in different arenas."""
        a, b = self.regions.region(first), self.regions.region(second)
        if a[0] != b[0] or not (self.objects >> first & 1 and self.objects >> second & 1):
            return False
        if first != second:
            self.bonds.append(Bond(first, second, b[1] - a[1], why))
        return True

    def _bind_views(self) -> None:
        """Presumed views stay with the objects whose bytes they see."""
        seen: dict[int, dict[int, None]] = {}
        fills: set[int] = set()
        reached: dict[int, list[int]] = {}
        for (position, view), contents in sorted(self.reaching.contents.items()):
            found = seen.setdefault(view, {})
            reached.setdefault(view, []).append(position)
            for content in sorted(contents):
                for _, _, definer, slot in content:
                    if definer == FILL:
                        fills.add(view)
                    elif definer == LOAD:
                        found[slot] = None
                    else:
                        found.update(dict.fromkeys(sorted(self.reaching.writes.get((definer, slot), {slot}))))
        suspect = {c.use.slot: c for c in self.a.conflicts if c.view}
        for view, found in seen.items():
            conflict = suspect.get(view)
            if conflict is not None:
                # What a hazard lets it see says nothing about what it is a view of.
                if conflict.moved_region and self._bind_to_moved(view, reached[view]):
                    continue
                self.unexplained.append(view)
            found.pop(view, None)
            if self.method.tensor(view).initial is not None:
                # A second entry of a state; whatever else it sees today is not what it is a view of.
                found = {o: None for o in found if self.method.tensor(o).initial is not None}
                fills.add(view)
            region = self.regions.region(view)
            exact = [o for o in found if self.regions.region(o) == region]
            bound = [o for o in exact or found if self._bind(view, o, "view")]
            if view in fills and not bound:
                bound = [s for s in self._state_at(view) if self._bind(view, s, "view of state")]

    def _state_at(self, view: int) -> list[int]:
        region = self.regions.region(view)
        mask = self.persistent & ~(1 << view)
        return [s for s in bits(mask) if self.regions.region(s) == region]

    def _bind_to_moved(self, view: int, positions: list[int]) -> bool:
        """A view of bytes that nobody has written in time, on exactly the bytes of a slot that a move fills: it has to
        see what the slot refers to. False where that does not settle it."""
        region, value = self.regions.region(view), self.method.tensor(view)
        candidates = []
        for target in sorted(self.roles.move_targets):
            if self.method.is_tensor(target) and self.regions.region(target) == region and target != view:
                objects = 0
                for position in positions:
                    objects |= self._refers_at(position, target)
                candidates.append((target, objects))
        if len(candidates) != 1:
            return False
        target, objects = candidates[0]
        tensors = [self.method.values[o] for o in bits(objects)]
        if objects & ~self.objects or objects >> target & 1 or not all(
            isinstance(t, Tensor) and t.nbytes == value.nbytes and t.planned and t.planned.arena == region[0]
            for t in tensors
        ):
            return False
        if self._quarrel(objects):
            return False
        self.bonds.append(Bond(view, target, 0, "view of a moved slot"))
        self.bonds.extend(Bond(view, o, 0, "view of a moved slot") for o in bits(objects))
        return True

    def _quarrel(self, objects: int) -> bool:
        """Whether some of the objects must not share bytes with each other."""
        if objects & self.persistent and objects.bit_count() > 1:
            return True
        return any(self.edges[o] & objects for o in bits(objects))

    def _refers_at(self, position: int, slot: int) -> int:
        block = self.flow.block_of[position]
        state = dict(self.refers.get(block, {}))
        for p in range(self.flow.blocks[block].start, position):
            self._step(p, state)
        return self._refers(slot, state)

    def _bind_updated(self) -> None:
        """Slots that are changed in part and never made: state, or views without an instruction that an operator
        changes in place. What was written over the whole of one before it is read may be its base, and stays with it.
        """
        changed: set[int] = set()
        made: set[int] = set(self.method.inputs)
        for effect in self.effects:
            changed.update(effect.updates)
            made.update(effect.writes, effect.appends)
        unclear = {s for s in changed - made if self.objects >> s & 1 and self._is_anonymous(s)}
        for (_, slot), facts in sorted(self.reaching.reads.items()):
            if slot not in unclear:
                continue
            for _, _, writer, _ in sorted(facts):
                if writer < 0:
                    continue
                for target in self.effects[writer].writes:
                    for obj in sorted(self.reaching.writes.get((writer, target), ())):
                        if self.regions.region(obj) == self.regions.region(slot):
                            self._bind(slot, obj, "perhaps a view")

    def _is_anonymous(self, slot: int) -> bool:
        value = self.method.tensor(slot)
        return value.initial is None and value.fqn is None and self.method.meaning != "graph"

    def _bind_initial(self) -> None:
        """Entries of one initialised state: loading writes its bytes once for each."""
        entries: dict[tuple[tuple[int, int, int], int], int] = {}
        for slot in bits(self.objects):
            value = self.method.tensor(slot)
            if value.initial is not None:
                first = entries.setdefault((self.regions.region(slot), value.initial), slot)
                self._bind(first, slot, "state")

    def _bind_storage(self) -> None:
        """Storage that a graph asked to lie within another tensor's."""
        for slot in bits(self.objects):
            value = self.method.tensor(slot)
            if value.base is not None and self.objects >> value.base & 1:
                self.bonds.append(Bond(value.base, slot, value.base_offset, "storage"))

    def _bind_aliases(self) -> None:
        """What a graph calls an alias, with bytes of its own, lies on the bytes of everything it can be."""
        for b in self.flow.order:
            state = dict(self.refers[b])
            for position in range(self.flow.blocks[b].start, self.flow.blocks[b].end):
                step = self.flow.code[position]
                wanted = isinstance(step, Alias) and self.live_after[position] >> step.target & 1
                if isinstance(step, Alias) and wanted and self.objects >> step.target & 1:
                    target = self.method.tensor(step.target)
                    for obj in bits(self._refers(step.source, state) & self.objects & ~(1 << step.target)):
                        source = self.method.tensor(obj)
                        if source.planned and target.planned and source.planned.arena == target.planned.arena:
                            self.bonds.append(Bond(obj, step.target, 0, "alias"))
                self._step(position, state)

    def _bind_unknown(self) -> None:
        """What an unknown operator does with operands and results that overlap is kept as it is."""
        for effect in self.effects:
            if effect.known:
                continue
            slots = dict.fromkeys((*effect.reads, *effect.writes, *effect.updates, *effect.may_writes))
            planned = [s for s in slots if self.objects >> s & 1]
            for i, first in enumerate(planned):
                for second in planned[:i]:
                    if self.regions.overlap(first, second):
                        self._bind(first, second, "unknown operator")


class _Regrouped:
    """Sets of slots as sets of groups. One is made from the last by what has changed: sets that follow each other are
    nearly alike."""

    def __init__(self, group_of: Mapping[int, int]) -> None:
        self.group_of = group_of
        self.counts: dict[int, int] = {}
        self.slots = self.mask = 0

    def groups(self, slots: int) -> int:
        """The groups of the slots of a set."""
        changed, counts, group_of = slots ^ self.slots, self.counts, self.group_of
        mask = self.mask
        for slot in bits(changed & slots):
            g = group_of[slot]
            counts[g] = counts.get(g, 0) + 1
            mask |= 1 << g
        for slot in bits(changed & self.slots):
            g = group_of[slot]
            counts[g] -= 1
            if not counts[g]:
                mask &= ~(1 << g)
        self.slots, self.mask = slots, mask
        return mask


def transposed(rows: Sequence[int]) -> list[int]:
    """For each ``j`` the set of all ``i`` whose ``rows[i]`` holds ``j``, where rows that follow each other are nearly
    alike: time goes by the differences."""
    columns = [0] * len(rows)
    began: dict[int, int] = {}
    before = 0
    for i, row in enumerate((*rows, 0)):
        changed = row ^ before
        for j in bits(changed & row):
            began[j] = i
        for j in bits(changed & before):
            columns[j] |= (1 << i) - (1 << began[j])
        before = row
    return columns


# --- the whole program ------------------------------------------------------------------------------------------------

Key = tuple[int, int]  # method index, slot


@dataclass(slots=True)
class Group:
    """Objects that move together. ``members`` are (method, slot, bytes above the group's first byte).

    ``size`` in bytes, not rounded; ``offset`` is where the group is now. ``pinned``: it has to stay there.
    ``first`` and ``last`` are positions of its method between which it holds a value (0 and the end for state).
    """

    index: int
    arena: int
    members: list[tuple[int, int, int]]
    size: int
    offset: int
    persistent: bool = False
    pinned: bool = False
    first: int = 0
    last: int = 0

    @property
    def methods(self) -> set[int]:
        return {m for m, _, _ in self.members}


@dataclass(slots=True)
class Demand:
    """All groups of a program and who interferes with whom; ``edges`` and ``moments`` are sets of group indices.

    ``moments``: for each method the groups that are present at each position. ``alignment`` in bytes. ``padding``:
    bytes that a backend asks for behind an arena, by (method, arena).

    ``unlike``: groups that must not begin at the same byte as others, though they may share bytes with them.

    Objects of one group may interfere as well; no placement can part them, and the check has the last word on it.
    """

    program: Program
    lives: list[Lives]
    groups: list[Group]
    edges: list[int]
    moments: list[list[int]]
    alignment: int
    padding: dict[tuple[int, int], int]
    unlike: dict[int, int] = field(default_factory=dict)

    def units(self, group: int) -> int:
        """Size of a group in units of the alignment."""
        return -(-self.groups[group].size // self.alignment)


def plan_alignment(program: Program) -> int:
    """The largest power of two, at most 64, that divides all offsets and arena sizes of the plan."""
    common = 0
    for method in program.methods:
        for value in method.values:
            if isinstance(value, Tensor) and isinstance(value.placement, Planned):
                common = gcd(common, value.placement.offset)
        for arena in method.arenas.values():
            common = gcd(common, arena.size)
    if common == 0:
        return DELEGATE_ALIGNMENT if any(m.delegates for m in program.methods) else DEFAULT_ALIGNMENT
    return min(common & -common, DELEGATE_ALIGNMENT)


def demand(
    program: Program,
    analyses: Sequence[MethodAnalysis],
    bonds: Mapping[int, Sequence[Bond]] | None = None,
    alignment: int | None = None,
    sharing: bool = True,
) -> Demand:
    """What a plan of ``program`` has to satisfy; ``analyses`` are those of its methods, in order.

    ``bonds``: who moves together besides what the analysis tells, by method index. ``alignment`` in bytes; that of the
    plan if left out. ``sharing``: methods that place state alike in an arena of the id 2 or above share it on purpose.
    """
    known = bonds or {}
    found = [lives(a, known.get(m, ())) for m, a in enumerate(analyses)]
    return _Demand(program, found, sharing).run(alignment or plan_alignment(program))


class _Demand:
    def __init__(self, program: Program, all_lives: list[Lives], sharing: bool) -> None:
        self.program, self.sharing = program, sharing
        self.lives = all_lives
        self.parent: dict[Key, tuple[Key, int]] = {}

    def run(self, alignment: int) -> Demand:
        for m, found in enumerate(self.lives):
            for bond in found.bonds:
                self._unite((m, bond.first), (m, bond.second), bond.distance)
        shared = self._shared_state()
        groups, group_of = self._groups(shared)
        edges = self._edges(groups, group_of)
        groups, group_of, edges = self._overlay(groups, group_of, edges, shared)
        moments = self._moments(groups, group_of)
        padding = {
            (m, a): pad
            for m, method in enumerate(self.program.methods)
            for a in method.arenas
            if (pad := self._padding(m, a, alignment))
        }
        return Demand(self.program, self.lives, groups, edges, moments, alignment, padding)

    # --- union ----------------------------------------------------------------------------------------------------

    def _find(self, key: Key) -> tuple[Key, int]:
        """The representative of an object, and how far above it the object lies."""
        above = 0
        while key in self.parent:
            key, distance = self.parent[key]
            above += distance
        return key, above

    def _unite(self, first: Key, second: Key, distance: int) -> bool:
        """Puts ``second`` ``distance`` bytes above ``first``. False where they already stand otherwise."""
        a, above_a = self._find(first)
        b, above_b = self._find(second)
        if a == b:
            return above_b - above_a == distance
        self.parent[b] = (a, above_a + distance - above_b)
        return True

    def _shared_state(self) -> set[Key]:
        """State that several methods place alike in an arena of the id 2 or above, on purpose; it keeps its place."""
        places: dict[tuple[int, int, int], list[Key]] = {}
        for m, found in enumerate(self.lives if self.sharing else ()):
            for slot in bits(found.persistent):
                region = found.analysis.regions.region(slot)
                if region[0] >= 2:
                    places.setdefault(region, []).append((m, slot))
        shared: set[Key] = set()
        for keys in places.values():
            names = {self.program.methods[m].tensor(s).fqn for m, s in keys} - {None}
            if len({m for m, _ in keys}) > 1 and len(names) <= 1:
                shared.update(keys)
                for key in keys[1:]:
                    self._unite(keys[0], key, 0)
        return shared

    def _groups(self, shared: set[Key]) -> tuple[list[Group], dict[Key, int]]:
        members: dict[Key, list[tuple[Key, int]]] = {}
        for m, found in enumerate(self.lives):
            for slot in bits(found.objects):
                root, above = self._find((m, slot))
                members.setdefault(root, []).append(((m, slot), above))
        groups: list[Group] = []
        group_of: dict[Key, int] = {}
        for found_members in members.values():
            low = min(above for _, above in found_members)
            high = max(above + self._tensor(key).nbytes for key, above in found_members)
            key, above = found_members[0]
            planned = self._tensor(key).planned
            assert planned is not None
            group = Group(
                len(groups), planned.arena, [(*k, a - low) for k, a in found_members], high - low,
                planned.offset - (above - low),
            )  # fmt: skip
            group.persistent = any(self.lives[m].persistent >> s & 1 for m, s, _ in group.members)
            group.pinned = any((m, s) in shared for m, s, _ in group.members)
            groups.append(group)
            group_of.update((k, group.index) for k, _ in found_members)
        return groups, group_of

    def _tensor(self, key: Key) -> Tensor:
        return self.program.methods[key[0]].tensor(key[1])

    def _edges(self, groups: list[Group], group_of: dict[Key, int]) -> list[int]:
        edges = [0] * len(groups)
        in_arena: dict[int, int] = {}
        for group in groups:
            in_arena[group.arena] = in_arena.get(group.arena, 0) | 1 << group.index
        for m, found in enumerate(self.lives):
            lone = {s: group_of[m, s] for s in bits(found.objects)}
            regrouped = _Regrouped(lone)
            for slot, neighbours in found.edges.items():
                if not neighbours:
                    continue
                here = lone[slot]
                edges[here] |= regrouped.groups(neighbours) & in_arena[groups[here].arena] & ~(1 << here)
        edges = [a | b for a, b in zip(edges, transposed(edges), strict=True)]
        # State is never shared: its bytes keep their meaning while its method does not run, and hosts may give all
        # methods the same arenas, so that what one method keeps no other may write.
        for arena, members in in_arena.items():
            there = [g for g in groups if g.arena == arena]
            state = mask_of(g.index for g in there if g.persistent)
            if not state:
                continue
            touched = state | mask_of(g.index for g in there if self._written(g))
            for i in bits(touched & members):
                edges[i] |= (touched if state >> i & 1 else state) & ~(1 << i)
        return edges

    def _written(self, group: Group) -> bool:
        return any(self.lives[m].written >> s & 1 for m, s, _ in group.members)

    def _overlay(
        self, groups: list[Group], group_of: dict[Key, int], edges: list[int], shared: set[Key]
    ) -> tuple[list[Group], dict[Key, int], list[int]]:
        """Operands and results that share bytes today go on doing so where nothing speaks against it."""
        merged: dict[int, int] = {}

        def now(key: Key) -> int:
            g = group_of[key]
            while g in merged:
                g = merged[g]
            return g

        pairs = [((m, a), (m, b)) for m, found in enumerate(self.lives) for a, b in found.overlays]
        for operand, result in pairs:
            one, two = now(operand), now(result)
            if one == two or edges[one] >> two & 1 or groups[one].persistent or groups[two].persistent:
                continue
            self._unite(operand, result, 0)
            merged[two] = one
            for g in bits(edges[two]):
                edges[g] |= 1 << one
            edges[one] |= edges[two]
        if merged:
            groups, group_of = self._groups(shared)
            edges = self._edges(groups, group_of)
        for operand, result in pairs:
            one, two = group_of[operand], group_of[result]
            if one != two:
                edges[one] |= 1 << two
                edges[two] |= 1 << one
        return groups, group_of, edges

    # --- time -----------------------------------------------------------------------------------------------------

    def _moments(self, groups: list[Group], group_of: dict[Key, int]) -> list[list[int]]:
        """The groups present at each position, and with it the first and last position of each group."""
        result = []
        for group in groups:
            group.first, group.last = 1 << 60, -1
        for m, found in enumerate(self.lives):
            regrouped = _Regrouped({s: group_of[m, s] for s in bits(found.objects)})
            moments = []
            before = 0
            for position, present in enumerate(found.present):
                now = regrouped.groups(present)
                if now != before:
                    for g in bits(now & ~before):
                        groups[g].first = min(groups[g].first, position)
                    for g in bits(before & ~now):
                        groups[g].last = max(groups[g].last, position - 1)
                    before = now
                moments.append(before)
            for g in bits(before):
                groups[g].last = max(groups[g].last, len(found.present) - 1)
            result.append(moments)
        for group in groups:
            if group.persistent:
                group.first, group.last = 0, max(len(found.present) for found in self.lives)
            elif group.last < 0:
                group.first = group.last = 0
        return result

    def _padding(self, m: int, arena: int, alignment: int) -> int:
        """Bytes behind the last tensor that XNNPACK may read (``extra_padding`` of ``exir/memory_planning.py``).

        As much as the plan had; a planner puts it behind the tensors of the graph that has the delegate, which for a
        branch is somewhere within the arena.
        """
        method = self.program.methods[m]
        if not method.delegates:
            return 0
        if arena in _arenas_in_parts(method):
            return DELEGATE_ALIGNMENT
        end = max(
            (
                v.placement.offset + -(-v.nbytes // alignment) * alignment
                for v in method.values
                if isinstance(v, Tensor) and isinstance(v.placement, Planned) and v.placement.arena == arena
            ),
            default=0,
        )
        return DELEGATE_ALIGNMENT if method.arenas[arena].size - end >= DELEGATE_ALIGNMENT and end else 0


def _arenas_in_parts(method: Method) -> set[int]:
    """The arenas of what XNNPACK is called with in branches and loops."""
    found: set[int] = set()
    for code in method.chains:
        spans = [sorted((i, step.target)) for i, step in enumerate(code) if isinstance(step, JumpFalse)]
        for i, step in enumerate(code):
            if not isinstance(step, DelegateCall) or "xnnpack" not in method.delegates[step.delegate].lower():
                continue
            if any(low <= i < high for low, high in spans):
                values = (method.values[method.emitted_slot(s)] for a in step.args for s in method.tensors_of(a))
                found.update(v.planned.arena for v in values if isinstance(v, Tensor) and v.planned)
    return found


def without_lookalikes(demanded: Demand) -> Demand:
    """The same demand, but the first output of a delegate does not get the very bytes of another tensor of its size.

    A file does not tell where the outputs of a delegate begin. Where the first lies exactly where another tensor lies,
    it could as well be a view of that one and thus an input, and a check of the file cannot go on.
    """
    sizes: dict[tuple[int, int], int] = {}
    for group in demanded.groups:
        for m, slot, _ in group.members:
            key = (group.arena, demanded.program.methods[m].tensor(slot).nbytes)
            sizes[key] = sizes.get(key, 0) | 1 << group.index
    unlike: dict[int, int] = {}
    for m, found in enumerate(demanded.lives):
        outputs = mask_of(
            effect.writes[0]
            for step, effect in zip(found.analysis.flow.code, found.analysis.effects, strict=True)
            if isinstance(step, DelegateCall) and effect.writes
        )
        for group in demanded.groups:
            for n, slot, _ in group.members:
                if n == m and outputs >> slot & 1:
                    alike = sizes[group.arena, demanded.program.methods[m].tensor(slot).nbytes] & ~(1 << group.index)
                    unlike[group.index] = unlike.get(group.index, 0) | alike
                    for other in bits(alike):
                        unlike[other] = unlike.get(other, 0) | 1 << group.index
    return replace(demanded, unlike=unlike)


# --- what one method does to another's state ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Intrusion:
    """Method ``writer`` writes to bytes of its ``other`` slot that are state of ``owner``'s ``slot``: where all methods
    of a program get the same arenas, the state is lost."""

    owner: int
    slot: int
    writer: int
    other: int


def intrusions(demanded: Demand) -> list[Intrusion]:
    """Pairs of a method's state and another method's tensor that share bytes in the program as it is."""
    found = []
    for state in demanded.groups:
        if not state.persistent:
            continue
        for other_index in bits(demanded.edges[state.index]):
            other = demanded.groups[other_index]
            for m, s, _ in state.members:
                if not demanded.lives[m].persistent >> s & 1:
                    continue
                here = demanded.lives[m].analysis.regions.region(s)
                for n, t, _ in other.members:
                    there = demanded.lives[n].analysis.regions.region(t)
                    touched = demanded.lives[n].written | demanded.lives[n].persistent
                    if n != m and touched >> t & 1 and here[1] < there[2] and there[1] < here[2]:
                        found.append(Intrusion(m, s, n, t))
    return found


def kinds(analysis: MethodAnalysis) -> set[Kind]:
    """The kinds of conflict of a method, but for state without initial contents, which no plan concerns."""
    return {c.kind for c in analysis.conflicts if c.kind is not Kind.UNINITIALIZED}
