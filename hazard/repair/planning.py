"""A memory planning pass that plans without hazards: the shipped planner's lifetimes are replaced by measured ones.

The pass that it wraps runs first: it decides which tensors are planned, in which arena, and what shares storage. Then
all methods are read as one program with the meaning of their graphs, every tensor gets a new place, and the result is
written into the specs, read again and checked. torch and executorch are imported when the pass is made.

Where the pass has ExecuTorch's own algorithm, its answer would be thrown away, so that a simple one stands in for it.
The answer is wanted only where the new plan is not known to be the smallest.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from hazard.api import HazardError, Report, chosen_rules, no_collection, worst_verdict
from hazard.frontends.fx import program_from_graphs
from hazard.frontends.fx_specs import field, is_planned, is_spec, storage_base, view_base
from hazard.hosts import choose_hosts
from hazard.pipeline import CheckedPlanning, unseen
from hazard.program import Program
from hazard.repair.fix import Repair, repair_program
from hazard.repair.interference import Bond
from hazard.repair.writebacks import settle_write_backs
from hazard.rule import Finding

_LOG = logging.getLogger("hazard")

_HOST_OPTIONS: Final = ("host", "load", "feedback", "borrowed", "concurrent", "restaged")
_CHECK_OPTIONS: Final = ("select", "ignore", "effects", "name", *_HOST_OPTIONS)


class SafePlanning(CheckedPlanning):
    """Plans memory without hazards; used like ExecuTorch's ``MemoryPlanningPass``, with the same arguments::

        ExecutorchBackendConfig(memory_planning_pass=hazard.SafePlanning(alloc_graph_input=False))

    The first argument may instead be a planning pass, whose choices of arenas and of what is planned are then kept.
    Arguments named ``on_hazard`` and ``fail_on`` are those of `hazard.CheckedPlanning`, those of `hazard.check` go
    there, all others to ``MemoryPlanningPass``. Write-backs of state that ExecuTorch drops or puts in an order that
    loses a value are put right in the graph, and initial values of state that are read although the program would lack
    them are put into it. What cannot be cured is not let through: ``to_executorch`` raises
    `hazard.HazardError`, whose report says what to change in the model, or what to promise of the host: state that
    methods share is lost on hosts that load a method after another has run, unless ``load="eager"`` says that yours
    does not. ``fail_on="error"`` lets such programs through.

    Tensors that a pass asked to share storage (``_share_alloc_with_arg_idx``) get bytes of their own where a value
    would be lost otherwise and their operators are ATen's, which write all of their results.

    After planning ``repair`` holds what was done, arena by arena. What ExecuTorch's own algorithm would have made of
    the graphs is looked at only where the new plan is not known to be the smallest, which saves the time that checking
    takes; otherwise ``shipped`` of an arena is its size with no sharing at all.
    """

    replans = True

    def __init__(self, *arguments: Any, on_hazard: str = "raise", fail_on: str = "warning", **options: Any) -> None:
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
        self.__dict__.update(repair=None, apart=None)

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        """Puts write-backs right and plans one method; the places are settled in `run_multimethod`."""
        planner = self.planner
        with no_collection():
            settle_write_backs(graph_module, graph_signature)
            if not _plans_by_default(planner):
                return super().run(graph_module, graph_signature)
            if self.apart is None:
                self.__dict__["apart"] = _Apart(planner.memory_planning_algo)
            self.apart.ends.clear()
            planner.memory_planning_algo = self.apart
            try:
                with _code_kept(graph_module):
                    return super().run(graph_module, graph_signature and _Signature(graph_signature))
            finally:
                planner.memory_planning_algo = self.apart.algorithm

    def unjudged(self) -> Any:
        return self._unjudged_like(repair=None, apart=None)

    def _check(self) -> None:
        graphs, others, foreign = self._planned()
        apart = self.apart
        stand_in = all(getattr(other, "apart", None) is not None for other in (self, *others))
        for one in (self, *others):
            one.__dict__["apart"] = None
        if not graphs:
            return
        asked = [getattr(one.planner, "alignment", None) for one in (self, *others)]
        alignment = max((a for a in asked if a), default=None)  # bytes; None: that of the plan
        with no_collection():
            repair, program, specs = self._repaired(graphs, alignment, stand_in=stand_in)
            if apart is not None and not others and (repair.refusals or not all(a.optimal for a in repair.arenas)):
                if apart.give_way(self.planner, graphs):
                    repair, program, specs = self._repaired(graphs, alignment)
            if repair.refusals and _part_storage(graphs):
                repair, program, specs = self._repaired(graphs, alignment)
            if repair.refusals and _give_initial_values(graphs, repair.after.findings):
                repair, program, specs = self._repaired(graphs, alignment)
            self.__dict__["repair"] = repair
            _write(repair, program, graphs, specs)
        if foreign:
            for method in repair.after.methods:
                method.verdict = worst_verdict((method.verdict, "unknown"))
                method.reasons = (*method.reasons, *unseen(foreign))
            report = self.__dict__["report"] = Report([repair.after])
            if self.fail_on != "never":
                if self.on_hazard == "raise":
                    raise HazardError(report)
                _LOG.warning("%s", report)
            return
        self._deliver(Report([repair.after]), None)

    def _repaired(
        self, graphs: Mapping[str, Any], alignment: int | None, *, stand_in: bool = False
    ) -> tuple[Repair, Program, dict[str, dict[int, Any]]]:
        """The repair of planned graphs, the program that they are, and the spec of each slot by method."""
        specs: dict[str, dict[int, Any]] = {}
        program = program_from_graphs(graphs, specs=specs)
        promised = {k: self.options[k] for k in _HOST_OPTIONS[1:] if k in self.options}
        hosts = choose_hosts(self.options.get("host"), **promised)
        bonds = {m: _same_memory(specs.get(method.name, {})) for m, method in enumerate(program.methods)}
        repair = repair_program(
            program, "planned graphs", self.options.get("effects"), hosts,
            bonds=bonds, alignment=alignment, sharing=_may_share(self.planner),
            rules=chosen_rules(self.options.get("select"), self.options.get("ignore")), stand_in=stand_in,
        )  # fmt: skip
        return repair, program, specs


def _may_share(planner: Any) -> bool:
    """Whether methods may share state on purpose: otherwise each is planned alone, and equal places are an accident."""
    from executorch.exir.passes import MemoryPlanningPass

    usual = getattr(type(planner), "run_multimethod", None) in (None, MemoryPlanningPass.run_multimethod)
    return not usual or bool(getattr(planner, "share_mutable_buffers", False))


def _plans_by_default(planner: Any) -> bool:
    """Whether this is ExecuTorch's own pass with its own algorithm."""
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
    from executorch.exir.passes import MemoryPlanningPass

    algorithm: Any = getattr(planner, "memory_planning_algo", None)
    return (
        type(planner) is MemoryPlanningPass
        and type(algorithm) is MemoryPlanningAlgorithmSuite
        and algorithm.algo_list == [greedy]
    )


@contextlib.contextmanager
def _code_kept(graph_module: Any) -> Iterator[None]:
    """Keeps the Python code of graphs while they are planned, unless planning has put in calls that free memory.

    Otherwise it would be made anew for nothing, which takes half of the time; ``to_executorch`` makes that of the top
    graph once more in any case (``_copy_module`` of ``exir/program/_program.py``).
    """
    import torch
    from executorch.exir import memory

    modules = [module for module in graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    for module in modules:
        module.__dict__["recompile"] = lambda: None
    try:
        yield
    finally:
        for module in modules:
            del module.__dict__["recompile"]
            if any(node.target is memory.free for node in module.graph.nodes):
                module.recompile()


class _Signature:
    """An export signature whose dictionaries are made once; its own are made anew for every placeholder."""

    def __init__(self, signature: Any) -> None:
        self.signature = signature
        self.inputs_to_buffers = signature.inputs_to_buffers
        self.buffers_to_mutate = signature.buffers_to_mutate

    def __getattr__(self, name: str) -> Any:
        return getattr(self.signature, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the signature itself."""
        return copy.deepcopy(self.signature, memo)


class _Apart:
    """Stands in for ExecuTorch's algorithm: every tensor on bytes of its own, in the arena that it was meant for."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.undecided: list[Any] = []  # specs whose arena was left to the algorithm
        self.ends: list[int] = []  # of the arenas of one method, subgraphs that have been planned among them

    def __call__(
        self, alignment: int, specs: Sequence[Any], graph_module: Any, graph_signature: Any, extra_padding: int
    ) -> list[int]:
        """The interface of ``MemoryPlanningAlgorithmSuite``; arguments and result in bytes."""
        self.undecided += [spec for spec in specs if spec.mem_id is None]
        ends = self.ends
        if any(storage_base(spec) is not None for spec in specs):
            sizes: list[int] = self.algorithm(alignment, specs, graph_module, graph_signature, extra_padding)
            ends[:] = [max(pair) for pair in zip_longest(sizes, ends, fillvalue=0)]
            return sizes
        for spec in specs:
            arena = spec.mem_id = 1 if spec.mem_id is None else spec.mem_id
            ends.extend([0] * (arena + 1 - len(ends)))
            spec.realign(alignment)
            spec.mem_offset, spec.mem_obj_id = ends[arena], 0
            ends[arena] += spec.allocated_memory
        ends.extend([0] * (2 - len(ends)))
        ends[:] = [end + extra_padding if end else 0 for end in ends]
        return list(ends)

    def give_way(self, planner: Any, graphs: Mapping[str, Any]) -> bool:
        """Plans the graphs again, now with ExecuTorch's algorithm. State that methods share keeps its arena.

        False where that algorithm cannot plan them: then they are as they were.
        """
        kept = [(spec, spec.mem_id, spec.mem_offset) for spec in self.undecided]
        sizes = [list(planned.module.meta["non_const_buffer_sizes"]) for planned in graphs.values()]
        for spec in self.undecided:
            spec.mem_id = spec.mem_offset = None
        try:
            for planned in graphs.values():
                self._plan(planner, planned)
        except Exception as error:
            _LOG.debug("ExecuTorch's algorithm failed: %s", error)
            for spec, arena, offset in kept:
                spec.mem_id, spec.mem_offset = arena, offset
            for planned, before in zip(graphs.values(), sizes, strict=True):
                planned.module.meta["non_const_buffer_sizes"][:] = before
            return False
        return True

    def _plan(self, planner: Any, planned: Any) -> None:
        from executorch.exir import memory
        from executorch.exir.memory_planning import apply_algo

        module = planned.module
        for node in list(module.graph.nodes):
            if node.target is memory.free:  # planning puts them in
                module.graph.erase_node(node)
        # The pipeline has taken over the list by now, not the graph's other data.
        kept = module.meta["non_const_buffer_sizes"]
        shared = kept[2:] if planner.share_mutable_buffers else []
        try:
            sizes = apply_algo(
                self.algorithm, module, planner.alignment, planned.signature, planner.alloc_graph_input,
                planner.alloc_graph_output, planner.alloc_mutable_buffers and not planner.share_mutable_buffers,
                planner.enable_non_cpu_memory_planning,
            )  # fmt: skip
            kept[:] = [*sizes[:2], *shared] if shared else sizes
        finally:
            module.meta["non_const_buffer_sizes"] = kept


#: Operators whose results do not depend on where they lie; those of a backend may rely on shared storage.
_PLACED_ANYWHERE: Final = ("aten", "dim_order_ops")


def _part_storage(graphs: Mapping[str, Any]) -> bool:
    """Takes back requests to share storage with an operand, where a copy of the bytes is all that they save."""
    import torch

    found = False
    for planned in graphs.values():
        for module in planned.module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                spec = node.meta.get("spec")
                target = node.target
                if not is_spec(spec) or view_base(spec) is not None or storage_base(spec) is None:
                    continue
                if not isinstance(target, torch._ops.OpOverload) or target.namespace not in _PLACED_ANYWHERE:
                    continue
                node.meta.pop("_share_alloc_with_arg_idx", None)
                node.meta.pop("_shared_alloc_offset", None)
                if hasattr(spec, "storage_base"):
                    spec.storage_base, spec.storage_base_offset = None, 0
                else:
                    spec.inplace_base = None
                found = True
    return found


def _give_initial_values(graphs: Mapping[str, Any], findings: Sequence[Finding]) -> bool:
    """Puts initial values of state that are read into the program, as ``InitializedMutableBufferPass`` does."""
    lacking = {f.use.fqn for f in findings if f.code == "HZ202" and f.use is not None}
    found = False
    for planned in graphs.values():
        buffers = planned.signature.inputs_to_buffers if planned.signature is not None else {}
        for node in planned.module.graph.nodes:
            if node.op == "placeholder" and buffers.get(node.target, "") in lacking:
                node.meta["et_init_buffer"] = True
                found = True
    return found


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
