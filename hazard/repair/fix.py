"""A repaired program: planned anew from what the analysis found, checked again, and written only if that proves it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from hazard.analysis.check import analyse, prepare
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.effects import Declaration
from hazard.api import ProgramReport, check_program, chosen_rules, unjudged
from hazard.hosts import RELEASED, Host
from hazard.program import DelegateCall, InputError, Program, Tensor
from hazard.repair.interference import Bond, Demand, Intrusion, demand, intrusions, without_lookalikes
from hazard.repair.placement import ArenaPlan, Placement, place, placed_program
from hazard.repair.write import Plan, write_plan
from hazard.rule import Rule, site_word


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that has another place: ``before`` and ``after`` are offsets in bytes within the same arena."""

    method: str
    slot: int
    arena: int
    nbytes: int
    before: int
    after: int


@dataclass(slots=True)
class Repair:
    """What re-planning made of a program.

    ``refusals``: why the result must not be used, empty if it is proved (under ``assumptions``). ``before`` and
    ``after`` are the reports on the program as it was and as it is now; ``intrusions`` what one method did to the state
    of another. ``kept``: arenas, by (method, arena), that the shipped plan had at least as small and that stay as they
    were.
    """

    before: ProgramReport
    after: ProgramReport
    program: Program
    placement: Placement
    intrusions: list[Intrusion]
    refusals: list[str]
    assumptions: list[str]
    kept: set[tuple[str, int]]

    @property
    def was_wrong(self) -> bool:
        """Whether there was anything that a plan could be blamed for."""
        return self.before.verdict == "hazard" or bool(self.intrusions)

    @property
    def moved(self) -> list[Moved]:
        """Tensors that have another place, in the order of methods and slots."""
        found = []
        for old, new in zip(self.before.program.methods, self.program.methods, strict=True):
            for slot, (a, b) in enumerate(zip(old.values, new.values, strict=True)):
                was = a.planned if isinstance(a, Tensor) else None
                now = b.planned if isinstance(b, Tensor) else None
                if isinstance(a, Tensor) and was and now and was != now:
                    found.append(Moved(old.name, slot, was.arena, a.nbytes, was.offset, now.offset))
        return found

    @property
    def arenas(self) -> list[ArenaPlan]:
        """All arenas with their sizes before and after."""
        return self.placement.arenas

    @property
    def plan(self) -> Plan:
        return Plan(self.placement.offsets, self.placement.sizes)


def repair_program(
    program: Program,
    path: str = "<program>",
    effects: Mapping[str, Declaration] | None = None,
    hosts: tuple[Host, ...] = RELEASED,
    *,
    bonds: Mapping[int, Sequence[Bond]] | None = None,
    alignment: int | None = None,
    rules: Sequence[Rule] | None = None,
    stand_in: bool = False,
    sharing: bool = True,
) -> Repair:
    """Plans ``program`` anew and checks the result, on the given hosts.

    ``bonds``, ``alignment`` (bytes) and ``sharing`` are those of `hazard.repair.interference.demand`; ``rules`` are all
    that are on by default if left out.

    Where the program was free of hazards, an arena that would not become smaller stays as it was, unless its plan was
    only a ``stand_in``: then it is not judged either, and ``before`` has no findings and no verdict.
    """
    rules = rules or chosen_rules(None, None)
    prepared = [prepare(m, effects) for m in program.methods] if stand_in else []
    if stand_in:
        known = zip(program.methods, prepared, strict=True)
        before = unjudged(program, path, None, [p or analyse(m, effects) for m, p in known])
    else:
        before = check_program(program, path, None, rules, effects, hosts)
    demanded = demand(program, [m.analysis for m in before.methods], bonds, alignment, sharing)
    intruding = intrusions(demanded)
    sound = before.verdict == "proved" and not intruding and not stand_in
    delegates = any(isinstance(i, DelegateCall) for m in program.methods for _, _, i in m.instructions())
    repair = None
    for wanted in (demanded, without_lookalikes(demanded)) if delegates else (demanded,):
        placement = place(wanted)
        if wanted is demanded:
            bounds = {(a.method, a.arena): a.bound for a in placement.arenas}
        else:
            # What is asked for the sake of the check is no law of nature.
            placement.arenas = [
                replace(a, bound=bounds[a.method, a.arena], optimal=a.size == bounds[a.method, a.arena])
                for a in placement.arenas
            ]
        kept: set[tuple[str, int]] = set()
        if sound:
            placement, kept = _keep_smaller(demanded, placement)
        fixed = placed_program(program, placement)
        after = check_program(fixed, path, None, rules, effects, hosts, prepared=prepared)
        left = []
        if len(program.methods) > 1:
            left = intrusions(demand(fixed, [m.analysis for m in after.methods], bonds, alignment, sharing))
        assumptions = [a for m in after.methods for a in m.assumptions]
        refusals = _refusals(after, left, demanded)
        repair = Repair(before, after, fixed, placement, intruding, refusals, assumptions, kept)
        if not refusals:
            break
    assert repair is not None
    if repair.refusals and sound:
        # The plan was sound, and no other could be proved: it stays.
        placement, kept = _shipped(demanded, repair.placement)
        assumptions = [a for m in before.methods for a in m.assumptions]
        return Repair(before, before, program, placement, intruding, [], assumptions, kept)
    return repair


def _keep_smaller(demanded: Demand, placement: Placement) -> tuple[Placement, set[tuple[str, int]]]:
    """Arenas of a sound plan stay as they are unless the new plan is smaller for some method and larger for none."""
    better = {
        arena
        for arena in {a.arena for a in placement.arenas}
        if any(a.size < a.shipped for a in placement.arenas if a.arena == arena)
        and all(a.size <= a.shipped for a in placement.arenas if a.arena == arena)
    }
    return _shipped(demanded, placement, better)


def _shipped(
    demanded: Demand, placement: Placement, better: Set[int] = frozenset()
) -> tuple[Placement, set[tuple[str, int]]]:
    """The placement with all arenas but ``better`` as they were, and which these are."""
    program = demanded.program
    offsets, sizes = dict(placement.offsets), dict(placement.sizes)
    plans, kept = [], set()
    for a in placement.arenas:
        if a.arena in better:
            plans.append(a)
        else:
            kept.add((a.method, a.arena))
            optimal = a.shipped == a.bound or (a.optimal and a.size == a.shipped)
            plans.append(replace(a, size=a.shipped, optimal=optimal, how="shipped"))
    for m, method in enumerate(program.methods):
        sizes.update({(m, a): arena.size for a, arena in method.arenas.items() if a not in better})
    for group in demanded.groups:
        if group.arena not in better:
            for m, slot, _ in group.members:
                planned = program.methods[m].tensor(slot).planned
                assert planned is not None
                offsets[m, slot] = planned.offset
    return Placement(offsets, sizes, plans), kept


def _view_refusal(method: str, conflict: Conflict) -> str:
    word = "whose base has changed" if conflict.kind is Kind.STALE else "of bytes that are not its own"
    return (
        f"{method}: {site_word(conflict.use)} reads %{conflict.use.slot}, a view {word}; the file does not say what it "
        "is a view of, the graph does: export with hazard.SafePlanning"
    )


def _refusals(after: ProgramReport, left: list[Intrusion], demanded: Demand) -> list[str]:
    found: dict[str, None] = {}
    for lived in demanded.lives:
        for conflict in lived.analysis.conflicts:
            if conflict.view and conflict.use.slot in lived.unexplained:
                found[_view_refusal(lived.analysis.method.name, conflict)] = None
    for method in after.methods:
        for conflict in method.analysis.conflicts:
            if conflict.view and conflict.kind is not Kind.UNINITIALIZED:
                found[_view_refusal(method.name, conflict)] = None
        for reason in method.reasons:
            found[f"{method.name}: not decided: {reason}"] = None
    views = {
        (m.name, c.use.position, c.use.slot) for m in after.methods for c in m.analysis.conflicts if c.view
    }
    for f in after.findings:
        if f.severity != "note" and not (f.use and (f.method, f.use.position, f.use.slot) in views):
            found[f"{f.method}: {f.code} {f.message}; {f.help}"] = None
    for intrusion in left:
        owner = demanded.program.methods[intrusion.owner].name
        writer = demanded.program.methods[intrusion.writer].name
        found[f"{owner}: the state %{intrusion.slot} is overwritten by method {writer}, %{intrusion.other}"] = None
    if after.verdict != "proved" and not found:
        found[f"the new plan is not proved: {after.verdict}"] = None
    return list(found)


def repair_file(
    source: str | os.PathLike[str],
    effects: Mapping[str, Declaration] | None = None,
    hosts: tuple[Host, ...] = RELEASED,
) -> Repair:
    """As `repair_program`, for the ``.pte`` file ``source``. Raises InputError when it cannot be used."""
    from hazard.frontends import load

    return repair_program(load(source), os.fspath(source), effects, hosts)


def write_repair(
    source: str | os.PathLike[str], target: str | os.PathLike[str], repair: Repair, *, in_place: bool = False
) -> str:
    """Writes the repaired program, reads it again and compares; returns its SHA-256.

    Raises InputError when the repair is refused, when ``target`` is ``source`` and ``in_place`` is not set, or when a
    file cannot be used. ``target`` is never left half-written.
    """
    from hazard.frontends import load

    if repair.refusals:
        raise InputError(f"{os.fspath(source)}: not written: {repair.refusals[0]}")
    same = os.path.exists(target) and os.path.samefile(source, target)
    if same and not in_place:
        raise InputError(f"{os.fspath(target)}: is the input; say --in-place to overwrite it")
    digest = ""

    def approve(path: str) -> None:
        nonlocal digest
        if load(path) != repair.program:
            raise AssertionError(f"{os.fspath(source)}: the program that was written reads differently")
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()

    write_plan(source, target, repair.plan, approve)
    return digest
