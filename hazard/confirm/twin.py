"""The twin of a program: the same instructions on the same values, with every tensor on bytes of its own.

What the program computes wrong because two tensors share bytes, the twin computes right. It shares what is wrong in the
instructions themselves: lost or reordered write-backs, old state handed out, values that were written in place.

A view without an instruction has to lie where its base lies. The base is the tensor of the same bytes that was defined
last, in program order, before the view is first read. Where that is the target of moves (nobody writes its bytes), the
results of all branches are placed there too, so that the view reads what the branch wrote. Where there is no base at
all, the view gets bytes of its own with a given pattern: what a right program computes cannot depend on it.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hazard.analysis.check import MethodAnalysis
from hazard.program import Method, Move, Tensor

#: Distance of two tensors of the twin in bytes; a multiple of every alignment that the runtime's kernels ask for.
ALIGNMENT: Final = 64

#: The first arena id that methods may share on purpose (``share_mutable_buffers`` of ExecuTorch's planner).
SHARED_ARENA: Final = 2

Slot = tuple[int, int]  # index of the method, slot


@dataclass(frozen=True, slots=True)
class Twin:
    """``data`` is the twin's program file.

    ``on_results``: views that were placed on the results of branches. ``orphans``: views without a base, which hold the
    pattern. Both as (index of the method, slot). ``offsets`` are the places of all planned slots, in bytes.
    """

    data: bytes
    on_results: frozenset[Slot]
    orphans: frozenset[Slot]
    offsets: Mapping[Slot, int]


def make_twin(
    data: bytes,
    analyses: Sequence[MethodAnalysis],
    *,
    together: Iterable[Iterable[Slot]] = (),
    alone: Iterable[Slot] = (),
    pattern: int = 0,
) -> Twin:
    """The twin of the program file ``data``, whose methods ``analyses`` describe in file order.

    The slots of each set of ``together`` keep their places relative to each other: a twin with some of the faults left
    in. ``alone`` are views that get no base. ``pattern`` fills views without a base: 0 or 1. Needs executorch. Raises
    whatever ExecuTorch's reader raises when it does not take the file.
    """
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary
    from executorch.exir.schema import Buffer

    file = deserialize_pte_binary(data)
    if file.program.segments:
        # Without segment data ExecuTorch's reader leaves the list as it was, and its writer would append to it.
        file.program.segments = []
        file.program.constant_buffer = [Buffer(storage=b"")]
    plan = _Plan(analyses, frozenset(alone))
    for slots in together:
        plan.keep(list(slots))
    offsets, sizes = plan.place()
    patterns = _Patterns(file, pattern)
    for (m, slot), offset in offsets.items():
        tensor = file.program.execution_plan[m].values[slot].val
        # The serialised tree may share objects between values; a copy keeps one value's place from moving another's.
        tensor.allocation_info = copy.copy(tensor.allocation_info)
        tensor.allocation_info.memory_offset_low = offset & 0xFFFFFFFF
        tensor.allocation_info.memory_offset_high = offset >> 32
        if (m, slot) in plan.orphans and tensor.data_buffer_idx == 0:
            tensor.data_buffer_idx = patterns.index(analyses[m].method.tensor(slot))
    for method in file.program.execution_plan:
        buffers = method.non_const_buffer_sizes
        for arena in range(1, len(buffers)):
            buffers[arena] = max(buffers[arena], sizes.get(arena, 0))
    written = serialize_pte_binary(file, extract_delegate_segments=True)
    return Twin(bytes(written), frozenset(plan.on_results), frozenset(plan.orphans), offsets)


class _Plan:
    """Which slots lie on common bytes, and where each group goes."""

    def __init__(self, analyses: Sequence[MethodAnalysis], alone: frozenset[Slot]) -> None:
        self.analyses = analyses
        self.alone = alone
        self.parent: dict[Slot, tuple[Slot, int]] = {}
        self.orphans: set[Slot] = set()
        self.on_results: set[Slot] = set()
        self.slots = [
            (m, slot)
            for m, analysis in enumerate(analyses)
            for slot, value in enumerate(analysis.method.values)
            if isinstance(value, Tensor) and value.planned is not None
        ]
        for m, analysis in enumerate(analyses):
            for base, other in _same_state(analysis.method):
                self.unite((m, base), (m, other), 0)
            self._place_views(m, analysis)

    def tensor(self, slot: Slot) -> Tensor:
        return self.analyses[slot[0]].method.tensor(slot[1])

    def find(self, slot: Slot) -> tuple[Slot, int]:
        """The leader of a slot's group, and the slot's distance from the leader in bytes."""
        distance = 0
        while slot in self.parent:
            slot, step = self.parent[slot]
            distance += step
        return slot, distance

    def unite(self, base: Slot, other: Slot, distance: int) -> None:
        """Places ``other`` at ``distance`` bytes from ``base``, unless they are in one group already."""
        (a, from_a), (b, from_b) = self.find(base), self.find(other)
        if a != b:
            self.parent[b] = (a, from_a + distance - from_b)

    def keep(self, slots: list[Slot]) -> None:
        """Keeps the slots' places relative to each other, as far as they are in one arena."""
        for other in slots[1:]:
            first, second = self.tensor(slots[0]).planned, self.tensor(other).planned
            if first and second and first.arena == second.arena:
                self.unite(slots[0], other, second.offset - first.offset)

    def _place_views(self, m: int, analysis: MethodAnalysis) -> None:
        method, regions = analysis.method, analysis.regions
        views = sorted(analysis.roles.views | _written_in_place_only(analysis))
        if not (views := [v for v in views if method.tensor(v).planned]):
            return
        events: dict[Any, list[tuple[int, int, bool]]] = defaultdict(list)  # region -> (position, slot, by a move)
        sources: dict[int, list[int]] = defaultdict(list)
        first_read: dict[int, int] = {}
        for position, (step, effect) in enumerate(zip(analysis.flow.code, analysis.effects, strict=True)):
            for slot in (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes):
                events[regions.region(slot)].append((position, slot, False))
            if isinstance(step, Move):
                events[regions.region(step.target)].append((position, step.target, True))
                sources[step.target].append(step.source)
            for slot in (*effect.reads, *effect.shapes):
                first_read.setdefault(slot, position)
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.initial is not None and slot not in analysis.roles.views:
                events[regions.region(slot)].insert(0, (-1, slot, False))
        for view in views:
            presumed = view in analysis.roles.views
            found = events[regions.region(view)]
            read_at = first_read.get(view, 0)
            before = [e for e in found if e[0] < read_at and e[1] != view]
            if not presumed:
                # State, unless there is something that it can be a view of.
                if before and not before[-1][2]:
                    self.unite((m, before[-1][1]), (m, view), 0)
                continue
            if (m, view) in self.alone:
                self.orphans.add((m, view))
                continue
            if before:
                _, base, moved = before[-1]
            elif found and not found[-1][2]:
                # State without initial contents: only its write-back, which comes later, shows its slot.
                _, base, moved = found[-1]
            else:
                self.orphans.add((m, view))
                continue
            if not moved:
                self.unite((m, base), (m, view), 0)
            elif self._bring_results(m, analysis, base, sources):
                self.unite((m, base), (m, view), 0)
                self.on_results.add((m, view))
            else:
                self.orphans.add((m, view))

    def _bring_results(self, m: int, analysis: MethodAnalysis, target: int, sources: dict[int, list[int]]) -> bool:
        """Places all that is moved to ``target`` on its bytes, if each of these is a branch's own result."""
        method = analysis.method
        members: list[int] = []
        work = [target]
        while work:
            slot = work.pop()
            for source in sources.get(slot, ()):
                value = method.values[source]
                shared = sum(s.count(source) for s in sources.values()) > 1
                if shared or not isinstance(value, Tensor) or value.planned is None or value.initial is not None:
                    return False
                if source in method.inputs or source in analysis.roles.views or source in members:
                    return False
                if value.planned.arena != method.tensor(target).planned.arena:  # type: ignore[union-attr]
                    return False
                members.append(source)
                work.append(source)
        for source in members:
            self.unite((m, target), (m, source), 0)
        return True

    def place(self) -> tuple[dict[Slot, int], dict[int, int]]:
        """New offsets of all slots, and new sizes of the arenas by id."""
        groups: dict[Slot, list[tuple[Slot, int]]] = defaultdict(list)
        fixed = self._shared_arenas()
        for slot in self.slots:
            if self.tensor(slot).planned.arena not in fixed:  # type: ignore[union-attr]
                leader, distance = self.find(slot)
                groups[leader].append((slot, distance))
        offsets: dict[Slot, int] = {}
        ends: dict[int, int] = defaultdict(int)
        for leader, members in groups.items():
            planned = self.tensor(leader).planned
            assert planned is not None
            low = min(distance for _, distance in members)
            # Within a group that keeps its places, what was aligned before must be aligned again.
            start = ends[planned.arena] + (planned.offset + low) % ALIGNMENT
            for slot, distance in members:
                offsets[slot] = start + distance - low
            high = max(offsets[slot] + self.tensor(slot).nbytes for slot, _ in members)
            ends[planned.arena] = -(-(high + 1) // ALIGNMENT) * ALIGNMENT
        return offsets, dict(ends)

    def _shared_arenas(self) -> set[int]:
        """Arenas that several methods share on purpose, in which nothing needs to be moved apart."""
        if len(self.analyses) < 2:
            return set()
        by_arena: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for slot in self.slots:
            tensor = self.tensor(slot)
            if tensor.planned and tensor.planned.arena >= SHARED_ARENA:
                by_arena[tensor.planned.arena].add((tensor.planned.offset, tensor.planned.offset + tensor.nbytes))
        return {
            arena
            for arena, regions in by_arena.items()
            if all(a[1] <= b[0] for a, b in zip(sorted(regions), sorted(regions)[1:], strict=False))
        }


def _same_state(method: Method) -> Iterable[tuple[int, int]]:
    """Pairs of slots that loading fills with the same contents at the same place: a state and its views."""
    seen: dict[Any, int] = {}
    for slot, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.planned and value.initial is not None:
            key = (value.planned, value.nbytes, value.initial)
            if key in seen:
                yield seen[key], slot
            else:
                seen[key] = slot


def _written_in_place_only(analysis: MethodAnalysis) -> set[int]:
    """Slots without initial contents that only in-place kernels write: state, or a view that is written through."""
    updated: set[int] = set()
    defined: set[int] = set()
    for effect in analysis.effects:
        updated.update(effect.updates)
        defined.update(effect.writes)
    tensor = analysis.method.tensor
    return {s for s in updated - defined if tensor(s).initial is None and s not in analysis.roles.views}


class _Patterns:
    """Initial contents for views that nobody writes."""

    def __init__(self, file: Any, pattern: int) -> None:
        self.file = file
        self.pattern = pattern
        self.known: dict[bytes, int] = {}

    def index(self, tensor: Tensor) -> int:
        from executorch.exir.schema import Buffer

        contents = self._contents(tensor)
        if contents not in self.known:
            if not self.file.mutable_data:
                self.file.mutable_data = [Buffer(storage=b"")]
            self.file.mutable_data.append(Buffer(storage=contents))
            self.known[contents] = len(self.file.mutable_data) - 1
        return self.known[contents]

    def _contents(self, tensor: Tensor) -> bytes:
        item = tensor.itemsize
        if self.pattern == 0:
            return bytes(tensor.nbytes)
        if tensor.dtype.startswith(("f", "c")):
            return b"\x40" * tensor.nbytes  # 3.0039 as f32, 32.5 as f64
        return (b"\x01" + bytes(item - 1)) * (tensor.nbytes // item)
