"""Where everybody can live: offsets for groups of tensors whose interference is known.

Allocators look for the smallest arena, the fastest first, until one reaches the bound. On a straight line of code
interference is overlap of lifetimes, which is what the allocators of the field solve (``omnimalloc``, optional: `pip
install 'hazard[fix]'`); branches that exclude each other make it a general graph, for which lifetimes are only a safe
relaxation, so that a first-fit search on the graph itself stands beside them. z3 settles small cases for good.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

from hazard.program import Arena, Planned, Program, Tensor
from hazard.repair.interference import Demand, bits, mask_of

#: Groups up to which z3 is asked for the optimum, where the lower bound has not been reached.
EXACT_LIMIT: Final = 18
#: Deterministic limit of z3's work for one arena.
Z3_LIMIT: Final = 20_000_000
#: Seconds that the library's search may take for one arena; it ends earlier when it has proved its answer.
SEARCH_SECONDS: Final = 2.0
#: Times that first fit is tried, each time with what did not fit before the rest.
ROUNDS: Final = 4
#: Steps back that the library's first search may take for one arena.
BACKTRACKS: Final = 2_000
#: Groups from which a clique is grown where the simple lower bound has not been reached.
CLIQUES: Final = 200
#: Attempts of the improvement of an order, divided by the number of groups.
ATTEMPTS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """One arena of one method: sizes in bytes. ``bound``: no plan can be smaller; ``optimal``: none is, proved.

    ``how`` names the allocator whose answer this is. ``separate`` is the size with no sharing at all.
    """

    method: str
    arena: int
    shipped: int
    size: int
    bound: int
    separate: int
    optimal: bool
    how: str


@dataclass(slots=True)
class Placement:
    """New offsets in bytes by (method index, slot), the sizes of all arenas by (method index, arena), and how good."""

    offsets: dict[tuple[int, int], int]
    sizes: dict[tuple[int, int], int]
    arenas: list[ArenaPlan]

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


def omnimalloc_missing() -> str | None:
    """What to install, if the allocator library is not there."""
    from importlib.util import find_spec

    if find_spec("omnimalloc") is not None:
        return None
    return "omnimalloc is not installed, arenas may be larger than need be: pip install 'hazard[fix]'"


def place(demand: Demand) -> Placement:
    """A hazard-free placement of all groups, each arena on its own."""
    offsets: dict[int, int] = {}
    how: dict[tuple[int, int], tuple[str, bool, int]] = {}
    for arena in sorted({g.arena for g in demand.groups}):
        _place_arena(demand, arena, offsets, how)
    if wrong := clashes(demand, offsets):
        raise AssertionError(f"placement is wrong: groups {wrong[0]} share bytes")
    return _result(demand, offsets, how)


def _place_arena(
    demand: Demand, arena: int, offsets: dict[int, int], how: dict[tuple[int, int], tuple[str, bool, int]]
) -> None:
    unit = demand.alignment
    here = [g for g in demand.groups if g.arena == arena]
    pinned = {g.index: g.offset // unit for g in here if g.pinned}
    state = [g.index for g in here if g.persistent and not g.pinned]
    fixed = _first_fit(demand, state, dict(pinned))
    floor = max((fixed[i] + demand.units(i) for i in fixed), default=0)
    answers = {}
    for m in range(len(demand.lives)):
        own = [g.index for g in here if g.index not in fixed and m in g.methods]
        if own:
            answers[m] = _best(demand, m, own)
        else:
            how[m, arena] = ("kept" if fixed else "none", True, sum(demand.units(i) for i in fixed))
    peaks = {m: _peak(demand, best, best) for m, (best, _, _, _) in answers.items()}
    # State excludes everybody from its bytes for ever, so it lies at the bottom, or else on top of all.
    if not pinned and (on_top := _state_on_top(demand, state, peaks, floor)):
        fixed, floor = on_top, 0
    placed = dict(fixed)
    for m, (best, name, optimal, bound) in answers.items():
        above = {i: o + floor for i, o in best.items()}
        if pinned:
            # Holes between pinned state can be used by first fit only.
            simple = _first_fit(demand, _by_size(demand, list(best)), dict(fixed))
            if _peak(demand, simple, best) < _peak(demand, above, best):
                above, name, optimal = {i: simple[i] for i in best}, "first fit", False
        placed.update(above)
        interfering = [i for i in fixed if m in demand.groups[i].methods]
        ours = sum(demand.units(i) for i in interfering)
        # What other methods keep is in the way of this one, which need not be so at every place.
        optimal = optimal and _peak(demand, placed, (*best, *interfering)) == ours + peaks[m]
        how[m, arena] = (name, optimal, ours + bound if demand.lives[m].written else bound)
    offsets.update({i: o * unit for i, o in placed.items()})


def _state_on_top(demand: Demand, state: Sequence[int], peaks: Mapping[int, int], floor: int) -> dict[int, int]:
    """Places for state above everything else, where that makes the arenas of all methods together smaller than with
    ``floor`` units of state at the bottom; else nothing. ``peaks``: what is needed besides state, by method."""
    keepers: dict[int, list[int]] = {}
    for i in state:
        keepers.setdefault(min(demand.groups[i].methods), []).append(i)
    sizes = dict(peaks)
    at = max(peaks.values(), default=0)
    placed = {}
    for m, groups in sorted(keepers.items(), key=lambda pair: sum(map(demand.units, pair[1]))):
        for i in groups:
            placed[i] = at
            at += demand.units(i)
        sizes[m] = at
    below = sum(floor + peaks.get(m, 0) for m in sizes)
    return placed if sum(sizes.values()) < below else {}


def _result(demand: Demand, offsets: dict[int, int], how: dict[tuple[int, int], tuple[str, bool, int]]) -> Placement:
    slots: dict[tuple[int, int], int] = {}
    ends: dict[tuple[int, int], int] = {}
    separate: dict[tuple[int, int], int] = {}
    for group in demand.groups:
        base = offsets[group.index]
        for m in group.methods:
            separate[m, group.arena] = separate.get((m, group.arena), 0) + demand.units(group.index) * demand.alignment
        for m, slot, above in group.members:
            slots[m, slot] = base + above
            end = base + above + demand.program.methods[m].tensor(slot).nbytes
            end = -(-end // demand.alignment) * demand.alignment
            ends[m, group.arena] = max(ends.get((m, group.arena), 0), end)
    # Hosts make an arena that methods share once, as large as one of them says: all must say the same.
    for arena in {g.arena for g in demand.groups if len(g.methods) > 1}:
        alike = [(m, arena) for m, method in enumerate(demand.program.methods) if arena in method.arenas]
        most = max(ends.get(key, 0) for key in alike)
        needed = max((how[key][2] for key in alike if key in how), default=0)
        for key in alike:
            ends[key] = most
            name, optimal, _ = how.get(key, ("kept", True, 0))
            how[key] = (name, optimal, needed)
            separate.setdefault(key, 0)
    sizes: dict[tuple[int, int], int] = {}
    plans = []
    for m, method in enumerate(demand.program.methods):
        for arena in sorted({*method.arenas, *(a for n, a in ends if n == m)}):
            padding = demand.padding.get((m, arena), 0)
            sizes[m, arena] = ends.get((m, arena), 0) + padding
            if (m, arena) not in ends:
                continue
            name, optimal, bound = how[m, arena]
            low = bound * demand.alignment + padding
            shipped = method.arenas[arena].size if arena in method.arenas else 0
            optimal = optimal or sizes[m, arena] == low
            plans.append(
                ArenaPlan(
                    method.name, arena, shipped, sizes[m, arena], low, separate[m, arena] + padding, optimal, name
                )
            )
    return Placement(slots, sizes, plans)


def first_free(demand: Demand, index: int, moved: Mapping[int, int]) -> int:
    """The first offset in bytes of a group that nobody needs who interferes with it, all others where they are.

    ``moved``: groups that are elsewhere by now, by index.
    """
    size, unit = demand.groups[index].size, demand.alignment
    others = [demand.groups[j] for j in bits(demand.edges[index])]
    taken = sorted((moved.get(g.index, g.offset), moved.get(g.index, g.offset) + g.size) for g in others)
    at = 0
    for low, high in taken:
        if low - at >= size:
            break
        at = max(at, -(-high // unit) * unit)
    return at


def placed_program(program: Program, placement: Placement) -> Program:
    """The program with the placement: regions and arena sizes are new, everything else is what it was."""
    methods = []
    for m, method in enumerate(program.methods):
        values = list(method.values)
        for (n, slot), offset in placement.offsets.items():
            if n == m:
                value = values[slot]
                assert isinstance(value, Tensor)
                assert isinstance(value.placement, Planned)
                values[slot] = replace(value, placement=Planned(value.placement.arena, offset))
        arenas = {
            a: Arena(size, method.arenas[a].device if a in method.arenas else None)
            for (n, a), size in sorted(placement.sizes.items())
            if n == m
        }
        methods.append(replace(method, values=tuple(values), arenas=arenas))
    return Program(tuple(methods))


# --- lower bound ------------------------------------------------------------------------------------------------------


def _clique(demand: Demand, m: int, own: int) -> int:
    """Units that groups of ``own`` need which all interfere with each other; the heaviest such set found."""
    weight = {i: demand.units(i) for i in bits(own)}
    best = max(weight.values(), default=0)
    seen: set[int] = {0}
    moments = []
    total = before = 0
    for moment in demand.moments[m]:
        there = moment & own
        if there not in seen:
            # Most of what is there was there a moment ago.
            total += sum(weight[i] for i in bits(there & ~before)) - sum(weight[i] for i in bits(before & ~there))
            before = there
            seen.add(there)
            moments.append((total, there))
    moments.sort(key=lambda pair: -pair[0])
    for total, there in moments:
        if total <= best:
            break
        best = max(best, _clique_within(demand, there, weight))
    return best


def _clique_anywhere(demand: Demand, own: Sequence[int]) -> int:
    """The same without regard to time: in a loop, values that are never there together can still all interfere."""
    weight = {i: demand.units(i) for i in own}
    inside = mask_of(own)
    best = 0
    for start in sorted(own, key=lambda i: -weight[i])[:CLIQUES]:
        total, left = weight[start], inside & demand.edges[start]
        for i in sorted(bits(left), key=lambda i: (-weight[i], -(demand.edges[i] & left).bit_count())):
            if left >> i & 1:
                total += weight[i]
                left &= demand.edges[i]
        best = max(best, total)
    return best


def _clique_within(demand: Demand, among: int, weight: dict[int, int]) -> int:
    members = sorted(bits(among), key=lambda i: -weight[i])
    best = 0
    # From several starts, since the heaviest group need not be in the heaviest clique.
    for start in members[:8]:
        clique, total, left = 1 << start, weight[start], among & demand.edges[start]
        for i in members:
            if left >> i & 1:
                clique |= 1 << i
                total += weight[i]
                left &= demand.edges[i]
        best = max(best, total)
        if clique == among:
            break
    return best


# --- allocators -------------------------------------------------------------------------------------------------------


def _peak(demand: Demand, offsets: dict[int, int], own: Iterable[int]) -> int:
    return max((offsets[i] + demand.units(i) for i in own), default=0)


def _first_fit(demand: Demand, order: Sequence[int], placed: dict[int, int]) -> dict[int, int]:
    """Each group at the lowest offset that no interfering group has; adds to ``placed`` and returns it. In units."""
    done = mask_of(placed)
    spans = {i: (at, at + demand.units(i)) for i, at in placed.items()}
    for i in order:
        size = demand.units(i)
        taken = sorted([spans[j] for j in bits(demand.edges[i] & done)])
        at = 0
        unlike = {placed[j] for j in bits(demand.unlike.get(i, 0) & done)}
        for low, high in taken:
            while at in unlike:
                at += 1
            if low - at >= size:
                break
            at = max(at, high)
        while at in unlike:
            at += 1
        placed[i] = at
        spans[i] = (at, at + size)
        done |= 1 << i
    return placed


def _by_size(demand: Demand, own: Sequence[int]) -> list[int]:
    return sorted(own, key=lambda i: (-demand.units(i), demand.groups[i].first, i))


def _best(demand: Demand, m: int, own: Sequence[int]) -> tuple[dict[int, int], str, bool, int]:
    """The smallest placement found of groups of method ``m``, counted from 0; the allocator's name; whether it is the
    optimum; the bound."""
    best: dict[int, int] = {}
    name = ""

    def consider(found: dict[int, int], how: str) -> bool:
        nonlocal best, name
        if found and (not best or _peak(demand, found, own) < _peak(demand, best, own)):
            best, name = found, how
        return bool(best) and _peak(demand, best, own) <= bound

    interval = _is_interval(demand, own)
    library = _Library.of(demand, own, interval)
    bound = _load(demand, own) if interval else _clique(demand, m, mask_of(own))
    if library is not None and interval:
        # What the library sees is all that there is: it is fast, and its word on the optimum counts.
        order = _by_size(demand, own)
        for _ in range(ROUNDS):
            found, _ = library.place("first fit", order)
            if consider(found, "greedy by size"):
                return best, name, True, bound
            # What sticks out is placed first in the next round.
            order.sort(key=lambda i: found.get(i, 0) + demand.units(i) <= bound)
        for how in ("telamalloc", "supermalloc"):
            found, proved = library.place(how)
            if consider(found, how) or proved:
                return best, name, True, bound
    for how, key in _orders(demand):
        if consider(_first_fit(demand, sorted(own, key=key), {}), how):
            return best, name, True, bound
    found = {}
    if not interval:
        bound = max(bound, _clique_anywhere(demand, own))
        if _peak(demand, best, own) <= bound:
            return best, name, True, bound
        if library is not None:
            found, _ = library.place("supermalloc")
            if consider(found, "supermalloc"):
                return best, name, True, bound
    if not interval or not found:
        improved = _improve(demand, own, bound, _peak(demand, best, own))
        if improved and consider(improved, "order search"):
            return best, name, True, bound
    if len(own) <= EXACT_LIMIT:
        exact, proved = _exact(demand, own, bound, _peak(demand, best, own))
        if exact:
            consider(exact, "z3")
        if proved:
            return best, name, True, bound
    return best, name, False, bound


def _orders(demand: Demand) -> list[tuple[str, Callable[[int], tuple[float, ...]]]]:
    groups = demand.groups
    return [
        ("greedy by size", lambda i: (-demand.units(i), groups[i].first)),
        ("greedy by area", lambda i: (-demand.units(i) * (groups[i].last - groups[i].first + 1), groups[i].first)),
        ("greedy by duration", lambda i: (groups[i].first - groups[i].last, -demand.units(i))),
        ("greedy by conflicts", lambda i: (-(demand.edges[i].bit_count() * demand.units(i)), groups[i].first)),
        ("greedy by start", lambda i: (groups[i].first, -demand.units(i))),
    ]


def _is_interval(demand: Demand, own: Sequence[int]) -> bool:
    """Whether interference is the same as overlap of the groups' spans of positions."""
    inside = mask_of(own)
    pairs = sum((demand.edges[i] & inside).bit_count() for i in own) // 2
    overlapping = 0
    ends: list[int] = []
    for i in sorted(own, key=lambda i: demand.groups[i].first):
        first, last = demand.groups[i].first, demand.groups[i].last
        overlapping += len(ends) - bisect_left(ends, first)
        insort(ends, last)
        if overlapping > pairs:
            return False
    return overlapping == pairs


def _load(demand: Demand, own: Sequence[int]) -> int:
    """The most units that spans of positions need at one time; where these are the interference, the exact bound."""
    groups = demand.groups
    starts = sorted((groups[i].first, i) for i in own)
    ends = sorted((groups[i].last, i) for i in own)
    now = most = 0
    ended = iter(ends)
    last, gone = next(ended, (0, -1))
    for first, i in starts:
        while last < first:
            now -= demand.units(gone)
            last, gone = next(ended)
        now += demand.units(i)
        most = max(most, now)
    return most


class _Library:
    """omnimalloc's allocators on sizes and spans of positions, which is all that they see of the interference."""

    def __init__(self, demand: Demand, own: Sequence[int], interval: bool) -> None:
        from omnimalloc import Allocation

        groups = demand.groups
        self.demand, self.own, self.interval = demand, own, interval
        self.allocations = {i: Allocation(i, demand.units(i), groups[i].first, groups[i].last + 1) for i in own}

    @classmethod
    def of(cls, demand: Demand, own: Sequence[int], interval: bool) -> _Library | None:
        """None without the library. ``interval``: spans are all that there is."""
        try:
            return cls(demand, own, interval)
        except ImportError:
            return None

    def place(self, how: str, order: Sequence[int] = ()) -> tuple[dict[int, int], bool]:
        """One allocator's answer, and whether it is the optimum for the spans; empty if the interference forbids it.

        ``order`` is that of first fit.
        """
        from omnimalloc import allocators

        proved = False
        wanted = tuple(self.allocations[i] for i in order or self.own)
        if how == "supermalloc":
            result = allocators.SupermallocAllocator(timeout=SEARCH_SECONDS, num_threads=1).solve(wanted)
            placed, proved = result.allocations, bool(result.proved_optimal)
        elif how == "telamalloc":
            placed = allocators.TelamallocAllocator(max_backtracks=BACKTRACKS, timeout=None).allocate(wanted)
        else:
            placed = allocators.GreedyAllocator().allocate(wanted)
        offsets = {int(a.id): int(a.offset) for a in placed if a.offset is not None}
        # Some pair may have to be apart although it never lives together; spans do not know.
        if not self.interval and _meetings(self.demand, offsets, self.demand.units):
            return {}, False
        unlike, inside = self.demand.unlike, mask_of(self.own)
        if any(offsets[i] == offsets[j] for i in self.own for j in bits(unlike.get(i, 0) & inside)):
            return {}, False
        return offsets, proved


def _meetings(demand: Demand, offsets: Mapping[int, int], size: Callable[[int], int]) -> list[tuple[int, int]]:
    """Pairs of groups of one arena that interfere and share bytes; sizes in the unit of the offsets."""
    found: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    reached = 0
    for i in sorted(offsets, key=lambda i: offsets[i]):
        low = offsets[i]
        while ends and ends[0][0] <= low:
            reached &= ~(1 << heappop(ends)[1])
        if demand.edges[i] & reached:
            found.extend((j, i) for j in bits(demand.edges[i] & reached))
        if size(i):
            heappush(ends, (low + size(i), i))
            reached |= 1 << i
    return found


def clashes(demand: Demand, offsets: Mapping[int, int]) -> list[tuple[int, int]]:
    """Pairs of groups that interfere and share bytes under ``offsets`` (in bytes, by group)."""
    arenas: dict[int, dict[int, int]] = {}
    for i, offset in offsets.items():
        arenas.setdefault(demand.groups[i].arena, {})[i] = offset
    return [pair for there in arenas.values() for pair in _meetings(demand, there, lambda i: demand.groups[i].size)]


def _improve(demand: Demand, own: Sequence[int], bound: int, peak: int) -> dict[int, int]:
    """Swaps in the order of first fit; deterministic."""
    if len(own) < 3:
        return {}
    rng = random.Random(0)
    order = _by_size(demand, own)
    best: dict[int, int] = {}
    height = _peak(demand, _first_fit(demand, order, {}), own)
    for _ in range(min(400, ATTEMPTS // len(own))):
        trial = list(order)
        # A group that reaches the top is the one to place earlier.
        now = _first_fit(demand, trial, {})
        top = [k for k, i in enumerate(trial) if now[i] + demand.units(i) == height]
        if not top:
            break
        k = rng.choice(top)
        j = rng.randrange(len(trial))
        trial.insert(min(j, k), trial.pop(k)) if rng.random() < 0.7 else trial.insert(j, trial.pop(k))
        found = _first_fit(demand, trial, {})
        reached = _peak(demand, found, own)
        if reached <= height:
            order, height = trial, reached
            if reached < peak:
                peak, best = reached, found
                if peak <= bound:
                    break
    return best


def _exact(demand: Demand, own: Sequence[int], bound: int, peak: int) -> tuple[dict[int, int], bool]:
    """z3's answer below ``peak`` if there is one, and whether the best known answer is now proved to be the optimum."""
    import z3

    solver = z3.SolverFor("QF_IDL")
    solver.set("rlimit", Z3_LIMIT)
    at = {i: z3.Int(f"at_{i}") for i in own}
    for n, i in enumerate(own):
        solver.add(at[i] >= 0)
        for j in own[:n]:
            if demand.edges[i] >> j & 1:
                solver.add(z3.Or(at[i] + demand.units(i) <= at[j], at[j] + demand.units(j) <= at[i]))
            if demand.unlike.get(i, 0) >> j & 1:
                solver.add(at[i] != at[j])
    best: dict[int, int] = {}
    while peak > bound:
        solver.add(*(at[i] <= peak - 1 - demand.units(i) for i in own))
        answer = solver.check()
        if answer != z3.sat:
            return best, bool(answer == z3.unsat)
        model = solver.model()
        best = {i: model.eval(at[i], model_completion=True).as_long() for i in own}
        peak = _peak(demand, best, own)
    return best, True
