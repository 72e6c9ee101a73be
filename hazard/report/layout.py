"""What lives where, and for how long: `hazard layout`.

For each method and arena every state, input, output and exposed branch result with its place and live range, which of
them methods share, and how full the arena gets: ``planned`` (its size), ``used`` (the highest byte that any tensor
reaches) and ``needed`` (the largest sum of bytes that are live at once, which no placement can beat).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hazard.analysis.check import MethodAnalysis, analyse
from hazard.analysis.flow import Stage, Use
from hazard.analysis.summary import Memory, same_state
from hazard.program import Move, Program, Tensor
from hazard.repair.interference import Lives, bits, lives, mask_of
from hazard.report.terminal import clean

SCHEMA_VERSION: Final = "1.0"
#: Tensors that the text lists as live at the peak; JSON has them all.
SHOWN: Final = 12
ROLES: Final = ("state", "input", "output", "branch result", "temporary")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor.

    ``first`` and ``last`` are the instructions between which it holds a value: -1 for staging, the number of
    instructions for the reading of outputs; both None for state, which lasts from call to call, and for what never
    holds a value. ``arena`` and ``offset`` are None for memory of the caller. ``shared`` names the other methods that
    place the same state on the same bytes. ``bound``: slots whose tensors an output has at the end of a call instead
    of its own.
    """

    role: str
    slot: int
    name: str | None
    dtype: str
    sizes: tuple[int, ...]
    arena: int | None
    offset: int | None
    nbytes: int
    first: int | None
    last: int | None
    always: bool
    dynamic: bool = False
    shared: tuple[str, ...] = ()
    bound: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """One arena of a method, sizes in bytes. ``peak`` is the instruction at which most bytes are live, ``live`` what is
    live there, largest first."""

    id: int
    device: str | None
    planned: int
    used: int
    needed: int
    peak: int | None
    live: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class MethodLayout:
    """One method; ``instructions`` counts those of all chains."""

    name: str
    instructions: int
    arenas: tuple[ArenaLayout, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole program. ``path`` is how messages name it."""

    path: str
    methods: tuple[MethodLayout, ...]


def layout_of(
    program: Program, analyses: Sequence[MethodAnalysis] | None = None, *, path: str = "<program>", all: bool = False
) -> Layout:
    """The layout of a program; ``all`` lists every planned tensor, temporaries as well.

    ``analyses`` of its methods are made if they are not given.
    """
    analyses = analyses if analyses is not None else [analyse(m) for m in program.methods]
    memories = [Memory(a) for a in analyses]
    return Layout(path, tuple(_Method(a, memories, all).layout() for a in analyses))


class _Method:
    def __init__(self, analysis: MethodAnalysis, memories: Sequence[Memory], everything: bool) -> None:
        self.a, self.method, self.flow = analysis, analysis.method, analysis.flow
        self.memory = next(m for m in memories if m.a is analysis)
        self.others = [m for m in memories if m.a is not analysis]
        self.everything = everything
        self.lives: Lives = lives(analysis)
        # An operand that an unknown operator may only write, such as its scratch memory, is no state.
        states = {r.object for r in self.memory.reads} | {s for s in self.memory.states if self._named(s)}
        self.lasting = self.lives.persistent & mask_of(states)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for found, moments in ((self.first, list(enumerate(self.lives.present))), (self.last, self._backwards())):
            seen = 0
            for position, present in moments:
                for obj in bits(present & ~seen):
                    found[obj] = position
                seen |= present

    def _named(self, slot: int) -> bool:
        value = self.method.tensor(slot)
        return value.initial is not None or value.fqn is not None

    def _backwards(self) -> list[tuple[int, int]]:
        return list(enumerate(self.lives.present))[::-1]

    def layout(self) -> MethodLayout:
        roles = self._roles()
        entries = tuple(self._entry(slot, role) for slot, role in roles.items())
        ids = sorted({*self.method.arenas, *(e.arena for e in entries if e.arena is not None)})
        count = sum(map(len, self.method.chains))
        return MethodLayout(self.method.name, count, tuple(self._arena(i, roles) for i in ids), entries)

    def _roles(self) -> dict[int, str]:
        """Slots by role; the first role that fits counts, as in `ROLES`."""
        method = self.method
        found: dict[int, str] = {}
        lasting = sorted(bits(self.lasting), key=lambda s: (s in self.a.roles.views, s))
        places = set()
        for slot in lasting:
            region = self.a.regions.region(slot)
            if slot in method.inputs or slot in self.a.roles.moved or (slot in self.a.roles.views and region in places):
                continue  # a view of a state that has an entry of its own
            places.add(region)
            found[slot] = "state"
        for slot in method.inputs:
            if method.is_tensor(slot):
                found.setdefault(slot, "input")
        for slot in method.outputs:
            if method.is_tensor(slot):
                found.setdefault(slot, "output")
        for step in self.flow.code:
            if isinstance(step, Move) and method.is_tensor(step.source):
                if method.tensor(step.source).planned is not None:
                    found.setdefault(step.source, "branch result")
        if self.everything:
            for slot, value in enumerate(method.values):
                if isinstance(value, Tensor) and value.planned is not None:
                    found.setdefault(slot, "temporary")
        order = {role: i for i, role in enumerate(ROLES)}
        return dict(sorted(found.items(), key=lambda item: (order[item[1]], item[0])))

    def _entry(self, slot: int, role: str) -> Entry:
        value = self.method.tensor(slot)
        always = role == "state"
        first, last = (None, None) if always else self._range(slot)
        shared = tuple(
            m.name for m in self.others if always and any(same_state(value, m.tensor(s)) for s in m.states)
        )
        return Entry(
            role, slot, value.fqn or value.name, value.dtype, value.sizes,
            value.planned.arena if value.planned else None, value.planned.offset if value.planned else None,
            value.nbytes, first, last, always, value.dynamism.value != "static", shared, self._bound(slot, role),
        )  # fmt: skip

    def _bound(self, slot: int, role: str) -> tuple[int, ...]:
        if role != "output":
            return ()
        found: set[int] = set()
        for position, step in enumerate(self.flow.code):
            if isinstance(step, Use) and step.slot == slot:
                found.update(f[0] for f in self.a.reaching.reads.get((position, slot), ()))
        return tuple(sorted(found - {slot}))

    def _range(self, slot: int) -> tuple[int | None, int | None]:
        if slot not in self.first:
            return None, None
        return self._instruction(self.first[slot]), self._instruction(self.last[slot])

    def _instruction(self, position: int) -> int:
        step = self.flow.code[position]
        if isinstance(step, Stage):
            return -1
        if isinstance(step, Use):
            return sum(map(len, self.method.chains))
        return position - self.flow.first

    # --- how full -----------------------------------------------------------------------------------------------------

    def _arena(self, arena: int, roles: dict[int, str]) -> ArenaLayout:
        regions = self.a.regions
        inside = [s for s in bits(self.lives.objects) if regions.space[s] == arena]
        used = max((regions.high[s] for s in inside), default=0)
        groups = self._groups(inside)
        mask = 0
        members: dict[int, int] = {}
        for slot, group in groups.items():
            members[group] = members.get(group, 0) | 1 << slot
            mask |= 1 << slot
        persistent = self.lasting & mask
        lasting = {groups[s] for s in bits(persistent)}
        base = sum(self._extent(members[g] & persistent) for g in lasting)
        passing = mask & ~sum(members[g] for g in lasting)
        moments: dict[int, int] = {}
        for position, present in enumerate(self.lives.present):
            moments.setdefault(present & passing, position)
        # The plain sum of sizes is an upper bound: in descending order of it the rest is soon without a chance.
        sizes = {s: regions.high[s] - regions.low[s] for s in inside}
        ranked = sorted((-sum(sizes[s] for s in bits(here)), position, here) for here, position in moments.items())
        best, peak, chosen = base, None, frozenset[int]()
        for bound, position, present in ranked:
            if base - bound <= best:
                break
            extents = {g: self._extent(members[g] & present) for g in {groups[s] for s in bits(present)}}
            together = self._together(extents, members)
            weight = base + sum(extents[g] for g in together)
            if weight > best:
                best, peak, chosen = weight, position, together
        live = [self._entry(g, roles.get(g, "temporary")) for g in {*lasting, *chosen}]
        live.sort(key=lambda e: (-e.nbytes, e.slot))
        details = self.method.arenas.get(arena)
        return ArenaLayout(
            arena, details.device if details else None, details.size if details else 0, used, best,
            None if peak is None else self._instruction(peak), tuple(live),
        )  # fmt: skip

    def _groups(self, inside: Iterable[int]) -> dict[int, int]:
        """For each object the one that stands for all that lie on its bytes on purpose: the largest, then the first."""
        parent = {s: s for s in inside}

        def find(slot: int) -> int:
            while parent[slot] != slot:
                parent[slot] = parent[parent[slot]]
                slot = parent[slot]
            return slot

        pairs = [(b.first, b.second) for b in self.lives.bonds]
        for first, second in (*pairs, *self.lives.overlays):
            if first in parent and second in parent:
                parent[find(first)] = find(second)
        best: dict[int, int] = {}
        for slot in parent:
            root = find(slot)
            known = best.get(root)
            if known is None or (self._rank(slot) < self._rank(known)):
                best[root] = slot
        return {slot: best[find(slot)] for slot in parent}

    def _rank(self, slot: int) -> tuple[int, int]:
        return (-self.method.tensor(slot).nbytes, slot)

    def _extent(self, members: int) -> int:
        """Bytes that objects cover together, those that several of them cover counted once."""
        total = end = 0
        for low, high in sorted((self.a.regions.low[s], self.a.regions.high[s]) for s in bits(members)):
            total += max(0, high - max(low, end))
            end = max(end, high)
        return total

    def _together(self, sizes: dict[int, int], members: dict[int, int]) -> frozenset[int]:
        """Of groups that hold a value at one moment, some that hold one on the same path, with the largest sum found:
        results of different branches exclude each other."""
        chosen: list[int] = []
        for group in sorted(sizes, key=lambda g: (-sizes[g], g)):
            if all(self._clash(members[group], members[other]) for other in chosen):
                chosen.append(group)
        return frozenset(chosen)

    def _clash(self, a: int, b: int) -> bool:
        """Whether some member of the one must keep its bytes from some member of the other."""
        edges = self.lives.edges
        return any(edges.get(s, 0) & b for s in bits(a)) or any(edges.get(s, 0) & a for s in bits(b))


# --- text and JSON ----------------------------------------------------------------------------------------------------


def render_json(layout: Layout) -> str:
    """The layout as one JSON object."""
    return json.dumps(as_object(layout), indent=2) + "\n"


def as_object(layout: Layout) -> dict[str, Any]:
    """The object that `render_json` writes."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": layout.path,
        "methods": [
            {
                "name": m.name,
                "instructions": m.instructions,
                "arenas": [
                    {
                        "id": a.id,
                        "device": a.device,
                        "planned": a.planned,
                        "used": a.used,
                        "needed": a.needed,
                        "peak": a.peak,
                        "live_at_peak": [_entry(e) for e in a.live],
                    }
                    for a in m.arenas
                ],
                "tensors": [_entry(e) for e in m.entries],
            }
            for m in layout.methods
        ],
    }


def _entry(e: Entry) -> dict[str, Any]:
    return {
        "role": e.role, "value": e.slot, "name": e.name, "dtype": e.dtype, "sizes": list(e.sizes), "arena": e.arena,
        "offset": e.offset, "nbytes": e.nbytes, "first": e.first, "last": e.last, "always": e.always,
        "dynamic": e.dynamic, "shared_with": list(e.shared), "bound_to": list(e.bound),
    }  # fmt: skip


def render_text(layout: Layout) -> str:
    """The layout as tables."""
    lines: list[str] = []
    for m in layout.methods:
        lines.append(f"{clean(layout.path)}: method {clean(m.name)}, {m.instructions} instructions")
        for a in m.arenas:
            device = f" on {clean(a.device)}" if a.device else ""
            full = f"{a.planned} bytes planned, {a.used} used, {a.needed} needed at once"
            lines.append(f"  arena {a.id}{device}: {full}{_peak(a, m)}")
            if a.peak is not None:
                words = [_word(e) for e in a.live[:SHOWN]]
                if len(a.live) > SHOWN:
                    words.append(f"{len(a.live) - SHOWN} more")
                lines.append(f"    live then: {', '.join(words)}")
        lines.extend("  " + line for line in _table(m))
        lines.append("")
    return "\n".join(lines)


def _peak(a: ArenaLayout, m: MethodLayout) -> str:
    return "" if a.peak is None else f" (at {_where(a.peak, m)})"


def _where(instruction: int, m: MethodLayout) -> str:
    if instruction < 0:
        return "input"
    return "output" if instruction >= m.instructions else f"[{instruction}]"


def _word(e: Entry) -> str:
    return f"%{e.slot}" + (f" {clean(e.name)}" if e.name else "") + f" ({e.nbytes})"


def _table(m: MethodLayout) -> list[str]:
    rows = [("role", "value", "type", "arena", "offset", "bytes", "live", "shared with", "name")]
    for e in m.entries:
        live = "always" if e.always else "never"
        if e.bound:
            live = "is " + " or ".join(f"%{s}" for s in e.bound)
        elif e.first is not None and e.last is not None:
            live = f"{_where(e.first, m)}..{_where(e.last, m)}"
        rows.append(
            (
                e.role, f"%{e.slot}", f"{e.dtype}[{','.join(map(str, e.sizes))}]{'~' if e.dynamic else ''}",
                "caller" if e.arena is None else str(e.arena), "" if e.offset is None else str(e.offset),
                str(e.nbytes), live, clean(", ".join(e.shared)), clean(e.name or ""),
            )  # fmt: skip
        )
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    right = {4, 5}
    return [
        "  ".join(row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in used).rstrip()
        for row in rows
    ]
