"""Which outputs a wrong value can show at, by what reads what; the order of instructions is not asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hazard.analysis.check import MethodAnalysis
from hazard.program import Alias, JumpFalse, Kernel, Method, Move, Tensor, TensorList

Slot = tuple[int, int]  # index of the method, slot


def outputs_reached(analyses: Sequence[MethodAnalysis], wrong: Slot) -> set[tuple[int, int]]:
    """(index of the method, number of the output) of all outputs that the value of a slot can influence, in this call
    or in later ones."""
    onward: dict[Slot, set[Slot]] = defaultdict(set)
    outputs: set[tuple[int, int]] = set()
    deciding: set[Slot] = set()
    for m, analysis in enumerate(analyses):
        for source, target in _edges(analysis):
            onward[m, source].add((m, target))
        deciding |= {(m, step.condition) for step in analysis.flow.code if isinstance(step, JumpFalse)}
    for same in _same_states([a.method for a in analyses]):
        for state in same:
            onward[state].update(same)
    found = {wrong}
    work = [wrong]
    while work:
        for slot in onward[work.pop()] - found:
            found.add(slot)
            work.append(slot)
    for m, analysis in enumerate(analyses):
        method = analysis.method
        # A wrong decision can make anything wrong.
        everything = bool(found & deciding)
        for number, out in enumerate(method.outputs):
            if everything or any((m, s) in found for s in (out, *method.tensors_of(out))):
                outputs.add((m, number))
    return outputs


def _edges(analysis: MethodAnalysis) -> set[tuple[int, int]]:
    """(source, target) of everything that carries a value on."""
    method = analysis.method
    edges: set[tuple[int, int]] = set()
    for step, effect in zip(analysis.flow.code, analysis.effects, strict=True):
        if isinstance(step, Move | Alias):
            edges.add((step.source, step.target))
        targets = {*effect.writes, *effect.updates, *effect.appends, *effect.may_writes, *effect.scalars}
        if effect.points:
            edges.add((effect.points[1], effect.points[0]))
        numbers = [a for a in step.args if not method.is_tensor(a)] if isinstance(step, Kernel) else []
        edges.update((s, t) for s in (*effect.reads, *effect.shapes, *numbers) for t in targets)
    for slot, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.slot is not None:
            # A name and the slot behind it.
            edges |= {(slot, value.slot), (value.slot, slot)}
        elif isinstance(value, TensorList):
            edges.update((item, slot) for item in value.items if item >= 0)
    views = analysis.roles.views
    if views:
        by_region: dict[Any, list[int]] = defaultdict(list)
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.planned:
                by_region[analysis.regions.region(slot)].append(slot)
        for view in views & {s for slots in by_region.values() for s in slots}:
            edges.update((s, view) for s in by_region[analysis.regions.region(view)])
    return edges


def _same_states(methods: Sequence[Method]) -> list[set[Slot]]:
    """Slots of one state in several methods."""
    by_name: dict[str, set[Slot]] = defaultdict(set)
    for m, method in enumerate(methods):
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.fqn is not None:
                by_name[value.fqn].add((m, slot))
    return [slots for slots in by_name.values() if len(slots) > 1]
