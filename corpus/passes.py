"""Graph passes of the kind that back ends and users write, as the cases use them."""

from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir.pass_base import PassBase, PassResult
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import TensorSpec


class ShareFirstArgument(PassBase):
    """Asks the planner to put the results of some calls into the storage of their first arguments.

    `offsets` says at which byte, for the n-th call (from 0) of an operator of that name.
    """

    def __init__(self, operator: str, offsets: dict[int, int], in_branches: bool = False) -> None:
        super().__init__()
        self.operator = operator
        self.offsets = offsets
        self.in_branches = in_branches

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        for module in graph_module.modules() if self.in_branches else [graph_module]:
            if not isinstance(module, torch.fx.GraphModule):
                continue
            calls = [
                node
                for node in module.graph.nodes
                if node.op == "call_function" and f".{self.operator}." in str(node.target)
            ]
            for index, node in enumerate(calls):
                if index in self.offsets:
                    node.meta["_share_alloc_with_arg_idx"] = 0
                    node.meta["_shared_alloc_offset"] = self.offsets[index]
        return PassResult(graph_module, True)


class RemoveClones(PassBase):
    """Drops every clone, in branches too."""

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        for module in graph_module.modules():
            if not isinstance(module, torch.fx.GraphModule):
                continue
            for node in list(module.graph.nodes):
                if node.op == "call_function" and "_clone_dim_order" in str(node.target):
                    node.replace_all_uses_with(node.args[0])
                    module.graph.erase_node(node)
            module.recompile()
        return PassResult(graph_module, True)


class LeaveShapes(PassBase):
    """Stands in for shape evaluation and does nothing, so that sizes stay symbolic."""

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        return PassResult(graph_module, False)


class PlanTopInArena(MemoryPlanningPass):
    """Plans what the top graph computes in the given arena, and branches where they would be anyway."""

    def __init__(self, arena: int) -> None:
        super().__init__()
        self.arena = arena

    def run(self, graph_module: torch.fx.GraphModule, graph_signature: Any = None) -> PassResult:
        for spec in _specs(graph_module):
            spec.mem_id = self.arena
        return super().run(graph_module, graph_signature)


class PlanBranchesApart(MemoryPlanningPass):
    """Plans every branch in an arena of its own, from 2 on."""

    def run(self, graph_module: torch.fx.GraphModule, graph_signature: Any = None) -> PassResult:
        branches = [
            module for name, module in graph_module.named_modules() if name and isinstance(module, torch.fx.GraphModule)
        ]
        for arena, branch in enumerate(branches, start=2):
            for spec in _specs(branch):
                spec.mem_id = arena
        return super().run(graph_module, graph_signature)


def _specs(graph_module: torch.fx.GraphModule) -> Iterator[TensorSpec]:
    for node in graph_module.graph.nodes:
        spec = node.meta.get("spec")
        for each in spec if isinstance(spec, (list, tuple)) else [spec]:
            if isinstance(each, TensorSpec):
                yield each
