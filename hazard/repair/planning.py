"""A memory planning pass that plans without hazards: the shipped planner's lifetimes are replaced by measured ones.

The pass that it wraps runs first: it decides which tensors are planned, in which arena, and what shares storage. Then
all methods are read as one program with the meaning of their graphs, every tensor gets a new place, and the result is
written into the specs, read again and checked. torch and executorch are imported when the pass is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hazard.api import Report, chosen_rules
from hazard.frontends.fx import program_from_graphs
from hazard.frontends.fx_specs import field, is_planned, view_base
from hazard.hosts import choose_hosts
from hazard.pipeline import CheckedPlanning
from hazard.program import Program
from hazard.repair.fix import Repair, repair_program
from hazard.repair.interference import Bond
from hazard.repair.writebacks import settle_write_backs

_HOST_OPTIONS: Final = ("host", "load", "feedback", "borrowed", "concurrent", "restaged")
_CHECK_OPTIONS: Final = ("select", "ignore", "effects", "name", *_HOST_OPTIONS)


class SafePlanning(CheckedPlanning):
    """Plans memory without hazards; used like ExecuTorch's ``MemoryPlanningPass``, with the same arguments::

        ExecutorchBackendConfig(memory_planning_pass=hazard.SafePlanning(alloc_graph_input=False))

    The first argument may instead be a planning pass, whose choices of arenas and of what is planned are then kept.
    Arguments named ``on_hazard`` and ``fail_on`` are those of `hazard.CheckedPlanning`, those of `hazard.check` go
    there, all others to ``MemoryPlanningPass``. Write-backs of state that ExecuTorch drops or puts in an order that
    loses a value are put right in the graph. What cannot be cured is not let through: ``to_executorch`` raises
    `hazard.HazardError`, whose report says what to change in the model.

    After planning ``repair`` holds what was done, arena by arena.
    """

    def __init__(self, *arguments: Any, on_hazard: str = "raise", fail_on: str = "error", **options: Any) -> None:
        """Raises ValueError for another ``on_hazard`` than raise and warn."""
        ours = {key: options.pop(key) for key in _CHECK_OPTIONS if key in options}
        if arguments and hasattr(arguments[0], "run"):
            (planner,) = arguments
            if options:
                raise TypeError(f"with a planning pass, {', '.join(options)} is the business of that pass")
        else:
            from executorch.exir.passes import MemoryPlanningPass

            planner = MemoryPlanningPass(*arguments, **options)
        super().__init__(planner, on_hazard=on_hazard, fail_on=fail_on, **ours)
        self.__dict__["repair"] = None

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        """Puts write-backs right and plans one method; the places are settled in `run_multimethod`."""
        settle_write_backs(graph_module, graph_signature)
        return super().run(graph_module, graph_signature)

    def _check(self) -> None:
        graphs = dict(self.graphs)
        self.graphs.clear()
        if not graphs:
            return
        specs: dict[str, dict[int, Any]] = {}
        program = program_from_graphs(graphs, specs=specs)
        promised = {k: self.options[k] for k in _HOST_OPTIONS[1:] if k in self.options}
        hosts = choose_hosts(self.options.get("host"), **promised)
        bonds = {m: _same_memory(specs.get(method.name, {})) for m, method in enumerate(program.methods)}
        repair = repair_program(
            program, "planned graphs", self.options.get("effects"), hosts,
            bonds=bonds, alignment=getattr(self.planner, "alignment", None),
            rules=chosen_rules(self.options.get("select"), self.options.get("ignore")),
        )  # fmt: skip
        self.__dict__["repair"] = repair
        _write(repair, program, graphs, specs)
        self._deliver(Report([repair.after]), None)


def _same_memory(specs: Mapping[int, Any]) -> list[Bond]:
    """Slots whose specs are views of one spec: they have one offset, whatever it is."""
    first: dict[int, int] = {}
    bonds = []
    for slot, spec in specs.items():
        if is_planned(spec):
            other = first.setdefault(id(_root(spec)), slot)
            if other != slot:
                bonds.append(Bond(other, slot, 0, "view"))
    return bonds


def _offsets(specs: Mapping[int, Any]) -> Iterator[tuple[int, int]]:
    for slot, spec in specs.items():
        if is_planned(spec):
            yield slot, int(field(spec, "mem_offset"))


def _root(spec: Any) -> Any:
    while (base := view_base(spec)) is not None:
        spec = base
    return spec


def _write(repair: Repair, program: Program, graphs: Mapping[str, Any], specs: Mapping[str, Mapping[int, Any]]) -> None:
    for m, method in enumerate(program.methods):
        known = specs.get(method.name, {})
        for slot, spec in known.items():
            offset = repair.placement.offsets.get((m, slot))
            if offset is not None:
                _root(spec).mem_offset = offset
        # Specs that share memory in ways that were not seen would show here.
        if any(repair.placement.offsets.get((m, s), o) != o for s, o in _offsets(known)):
            raise AssertionError(f"{method.name}: the graph does not hold the plan that was made for it")
        if method.name not in graphs:
            continue
        sizes = graphs[method.name].module.meta["non_const_buffer_sizes"]
        for (n, arena), size in repair.placement.sizes.items():
            if n == m:
                sizes.extend([0] * (arena + 1 - len(sizes)))
                sizes[arena] = size
