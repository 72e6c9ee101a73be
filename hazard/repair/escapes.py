"""A planning pass for those who keep their planner: copies of the branch results that its plan would clobber."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from hazard.analysis.check import MethodAnalysis, analyse
from hazard.analysis.conflicts import Kind
from hazard.frontends.fx import PlannedGraph, program_from_graphs
from hazard.frontends.fx_specs import is_spec
from hazard.pipeline import CheckedPlanning
from hazard.program import InputError
from hazard.repair.writebacks import copied_value, rebase_views, settle_write_backs

#: Rounds of planning and copying; each copy changes the plan, which may put others in danger.
ROUNDS: Final = 12


class MaterializeEscapes(CheckedPlanning):
    """Plans with another planner, after results of ``cond`` that its plan would overwrite have been copied::

        ExecutorchBackendConfig(memory_planning_pass=hazard.passes.MaterializeEscapes(MemoryPlanningPass(...)))

    A result is copied right after the operator, and only if a check of the plan finds that it is overwritten, or that a
    view of it reads other bytes. ``copied`` names the results. What copies do not cure is raised as by
    `hazard.CheckedPlanning`, whose options these are; warnings are raised as well, unless ``fail_on`` says otherwise.
    """

    def __init__(self, planner: Any = None, *, fail_on: str = "warning", **options: Any) -> None:
        if planner is None:
            from executorch.exir.passes import MemoryPlanningPass

            planner = MemoryPlanningPass()
        super().__init__(planner, fail_on=fail_on, **options)
        self.__dict__["copied"] = []

    def unjudged(self) -> Any:
        return self._unjudged_like(copied=[])

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        """Copies what would be lost, then plans one method."""
        settle_write_backs(graph_module, graph_signature)
        known: set[int] = set()
        for _ in range(ROUNDS):
            clobbered = list(self._clobbered(graph_module, graph_signature))
            if not clobbered:
                break
            # One that has been copied cannot be helped by another copy.
            made = [self._copy(graph_module, spec) for spec in clobbered if id(spec) not in known]
            known.update(map(id, clobbered))
            if not any(made):
                break
        return super().run(graph_module, graph_signature)

    def _clobbered(self, graph_module: Any, graph_signature: Any) -> Iterator[Any]:
        """Specs of results that a trial of the planner loses. The trial leaves the graph and its specs as they were."""
        kept = [(spec, _state_of(spec)) for spec in _specs(graph_module)]
        trial = copy.deepcopy(graph_module, {id(t): t for t in _tensors(graph_module)})
        try:
            planner = copy.deepcopy(self.planner)
            result = planner.run(trial, copy.deepcopy(graph_signature))
            found: dict[str, dict[int, Any]] = {}
            graphs = {"forward": PlannedGraph(result.graph_module, graph_signature)}
            try:
                program = program_from_graphs(graphs, specs=found)
            except InputError:
                return
            slots = _lost_results(analyse(program.methods[0], self.options.get("effects")))
            specs = [found["forward"][s] for s in slots if s in found["forward"]]
        finally:
            for spec, state in kept:
                spec.__dict__.update(state)
        yield from specs

    def _copy(self, graph_module: Any, spec: Any) -> bool:
        """Copies the result that has this spec, and lets all its users have the copy."""
        import operator

        import torch

        for module in graph_module.modules():
            if not isinstance(module, torch.fx.GraphModule):
                continue
            for node in module.graph.nodes:
                if node.target is not torch.ops.higher_order.cond:
                    continue
                parts = node.meta.get("spec")
                parts = list(parts) if isinstance(parts, list | tuple) else [parts]
                index = next((i for i, part in enumerate(parts) if part is spec), None)
                if index is None:
                    continue
                getters = [u for u in node.users if u.target is operator.getitem and u.args[1] == index]
                done = False
                for getter in getters:
                    # Lowering may have put it after the next operator, which would be too late.
                    node.append(getter)
                    made = copied_value(module.graph, getter, getter.next)
                    if made is None:
                        continue
                    getter.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
                    rebase_views(made)
                    self.copied.append(f"{node.name}[{index}]")
                    done = True
                module.recompile()
                return done
        return False


def _lost_results(analysis: MethodAnalysis) -> list[int]:
    """Slots that a move fills and whose value, or a view of it, reads wrong bytes."""
    roles = analysis.roles
    found: dict[int, None] = {}
    for conflict in analysis.conflicts:
        slot = conflict.use.slot
        if conflict.kind is Kind.UNINITIALIZED or slot is None:
            continue
        slots = [slot, *(p.slot for p in conflict.all_defines if p.slot is not None)]
        roots = {roles.root.get(s, s) for s in slots}
        found.update(
            dict.fromkeys(t for t in sorted(roles.move_targets) if roles.root.get(t, t) in roots or t in slots)
        )
    return list(found)


def _specs(graph_module: Any) -> Iterator[Any]:
    import torch

    seen: set[int] = set()
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            spec = node.meta.get("spec")
            for part in spec if isinstance(spec, list | tuple) else [spec]:
                if is_spec(part) and type(part).__name__ == "TensorSpec" and id(part) not in seen:
                    seen.add(id(part))
                    yield part


def _state_of(spec: Any) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, list) else v for k, v in spec.__dict__.items()}


def _tensors(graph_module: Any) -> Iterator[Any]:
    """Data that a trial shares with the graph, and what cannot be copied."""
    for module in graph_module.modules():
        yield from (t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None)
        if type(module).__name__ == "LoweredBackendModule":
            yield module
