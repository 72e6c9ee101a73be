"""A repaired program: planned anew from what the analysis found, checked again, and written only if that proves it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.effects import Declaration
from hazard.api import ProgramReport, check_program
from hazard.program import InputError, Program, Tensor
from hazard.repair.interference import Demand, Intrusion, demand, intrusions
from hazard.repair.placement import ArenaPlan, Placement, place, placed_program
from hazard.repair.write import Plan, write_plan
from hazard.rule import all_rules, site_word


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
                if isinstance(a, Tensor) and isinstance(b, Tensor) and a.planned and b.planned and a.planned != b.planned:
                    found.append(
                        Moved(old.name, slot, a.planned.arena, a.nbytes, a.planned.offset, b.planned.offset)
                    )
        return found

    @property
    def arenas(self) -> list[ArenaPlan]:
        """All arenas with their sizes before and after."""
        return self.placement.arenas

    @property
    def plan(self) -> Plan:
        return Plan(self.placement.offsets, self.placement.sizes)


def repair_program(
    program: Program, path: str = "<program>", effects: Mapping[str, Declaration] | None = None
) -> Repair:
    """Plans ``program`` anew and checks the result with all rules.

    Where the program was free of hazards, an arena that would not become smaller stays as it was.
    """
    rules = all_rules()
    before = check_program(program, path, None, rules, effects)
    demanded = demand(program, [m.analysis for m in before.methods])
    intruding = intrusions(demanded)
    placement = place(demanded)
    kept: set[tuple[str, int]] = set()
    if before.verdict == "proved" and not intruding:
        placement, kept = _keep_smaller(demanded, placement)
    fixed = placed_program(program, placement)
    after = check_program(fixed, path, None, rules, effects)
    left = intrusions(demand(fixed, [m.analysis for m in after.methods]))
    assumptions = [a for m in after.methods for a in m.assumptions]
    return Repair(
        before, after, fixed, placement, intruding, _refusals(after, left, demanded), assumptions, kept
    )


def _keep_smaller(demanded: Demand, placement: Placement) -> tuple[Placement, set[tuple[str, int]]]:
    """Arenas of a sound plan stay as they are unless the new plan is smaller for some method and larger for none."""
    kept = set()
    offsets, sizes = dict(placement.offsets), dict(placement.sizes)
    program = demanded.program
    plans = []
    for arena in sorted({a.arena for a in placement.arenas}):
        here = [a for a in placement.arenas if a.arena == arena]
        if any(a.size < a.shipped for a in here) and all(a.size <= a.shipped for a in here):
            plans.extend(here)
            continue
        for m, method in enumerate(program.methods):
            if arena in method.arenas:
                sizes[m, arena] = method.arenas[arena].size
        for group in demanded.groups:
            if group.arena == arena:
                for m, slot, _ in group.members:
                    planned = program.methods[m].tensor(slot).planned
                    assert planned is not None
                    offsets[m, slot] = planned.offset
        for a in here:
            kept.add((a.method, arena))
            plans.append(
                ArenaPlan(a.method, arena, a.shipped, a.shipped, a.bound, a.separate, a.shipped == a.bound, "shipped")
            )
    order = {m.name: i for i, m in enumerate(program.methods)}
    plans.sort(key=lambda p: (order[p.method], p.arena))
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
            if conflict.kind is Kind.UNINITIALIZED:
                continue
            if conflict.view:
                found[_view_refusal(method.name, conflict)] = None
            else:
                found[f"{method.name}: {site_word(conflict.use)} still reads overwritten bytes, %{conflict.use.slot}"] = None
        for reason in method.reasons:
            found[f"{method.name}: not decided: {reason}"] = None
    for f in after.findings:
        if f.severity == "error" and f.use is None:
            found[f"{f.method}: {f.code} {f.message}"] = None
    for intrusion in left:
        owner = demanded.program.methods[intrusion.owner].name
        writer = demanded.program.methods[intrusion.writer].name
        found[f"{owner}: the state %{intrusion.slot} is overwritten by method {writer}, %{intrusion.other}"] = None
    if after.verdict != "proved" and not found:
        found[f"the new plan is not proved: {after.verdict}"] = None
    return list(found)


def repair_file(source: str | os.PathLike[str], effects: Mapping[str, Declaration] | None = None) -> Repair:
    """As `repair_program`, for the ``.pte`` file ``source``. Raises InputError when it cannot be used."""
    from hazard.frontends import load

    return repair_program(load(source), os.fspath(source), effects)


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
