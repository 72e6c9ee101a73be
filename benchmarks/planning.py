"""CPU time of planning with `SafePlanning`, as a ratio to ExecuTorch's `MemoryPlanningPass` on the same graphs.

    python -m benchmarks.planning [OPERATORS]

Prints one line for each model: operators, bytes of the arenas with either pass, the best of three runs of each pass
alone, and their ratio. About 2,000 operators without an argument. Needs torch and executorch.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import hazard

RUNS = 3


def transformer(count: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return torch.nn.TransformerEncoder(layer, count // 35, enable_nested_tensor=False), (torch.randn(1, 8, 32),)


def convolutions(count: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(4, 4, 3, padding=1)
            self.second = torch.nn.Conv2d(4, 4, 1)

        def forward(self, x: Any) -> Any:
            return x + torch.relu(self.second(torch.nn.functional.gelu(self.first(x)) * 0.5))

    return torch.nn.Sequential(*(Block() for _ in range(count // 6))), (torch.randn(1, 4, 8, 8),)


def recurrent(count: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    return torch.nn.LSTM(8, 8, 2), (torch.randn(count // 40, 1, 8),)


def conds(count: int) -> tuple[Any, tuple[Any, ...]]:
    """Conds in a row, each of which takes what the last has made."""
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            for _ in range(count // 50):
                x = torch.cond(x.sum() > 0, _steps(torch.sin), _steps(torch.cos), (x,)) + 1
            return x

    return Model(), (torch.randn(4),)


def late_results(count: int) -> tuple[Any, tuple[Any, ...]]:
    """Conds whose results are all read at the end, which the shipped plan loses."""
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            found = []
            for _ in range(count // 50):
                found.append(torch.cond(x.sum() > 0, _steps(torch.sin), _steps(torch.cos), (x,)))
                x = x * 0.5 + 1
            return torch.stack(found).sum(0) + x

    return Model(), (torch.randn(4),)


def chain(count: int) -> tuple[Any, tuple[Any, ...]]:
    """Small operators one after the other, where nothing but the passes' own work counts."""
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            y = x
            for _ in range(count // 2):
                y = torch.sin(y) * x
            return y

    return Model(), (torch.randn(4),)


def _steps(function: Any) -> Callable[[Any], Any]:
    def branch(x: Any) -> Any:
        y = x
        for _ in range(11):
            y = function(y) * x
        return y

    return branch


MODELS: dict[str, Callable[[int], tuple[Any, tuple[Any, ...]]]] = {
    "transformer": transformer,
    "convolutions": convolutions,
    "recurrent": recurrent,
    "conds": conds,
    "late results": late_results,
    "chain": chain,
}


class DoneError(Exception):
    """Planning is over; nothing need be emitted."""


class Timed:
    """A planning pass with the CPU seconds that it took and the graph that it planned; else it is that pass."""

    def __init__(self, planner: Any) -> None:
        self.__dict__.update(planner=planner, seconds=0.0, graph=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["planner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.planner, name, value)

    def run(self, *arguments: Any) -> Any:
        started = time.process_time()
        result = self.planner.run(*arguments)
        self.__dict__.update(seconds=time.process_time() - started, graph=result.graph_module)
        return result

    def run_multimethod(self) -> None:
        started = time.process_time()
        self.planner.run_multimethod()
        self.__dict__["seconds"] += time.process_time() - started
        raise DoneError


def planned(edge: Any, planner: Any) -> tuple[float, int, int]:
    """CPU seconds of planning, the operators of all graphs, and the bytes of the arenas."""
    from executorch.exir import ExecutorchBackendConfig

    timed = Timed(planner)
    with contextlib.suppress(DoneError):
        copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(memory_planning_pass=timed))
    return timed.seconds, operators(timed.graph), sum(timed.graph.meta["non_const_buffer_sizes"])


def operators(graph_module: Any) -> int:
    """Calls of operators in a graph and its subgraphs."""
    import torch

    return sum(
        isinstance(node.target, torch._ops.OpOverload)
        for module in graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )


def main() -> None:
    import torch
    from executorch.exir import to_edge
    from executorch.exir.passes import MemoryPlanningPass

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="?", type=int, default=2000, metavar="OPERATORS")
    wanted = parser.parse_args().operators
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    for name, make in MODELS.items():
        module, inputs = make(wanted)
        edge = to_edge(torch.export.export(module.requires_grad_(False).eval(), inputs, strict=False))
        shipped = [planned(edge, MemoryPlanningPass()) for _ in range(RUNS)]
        safe = [planned(edge, hazard.SafePlanning()) for _ in range(RUNS)]
        before, after = (min(seconds for seconds, _, _ in runs) for runs in (shipped, safe))
        print(
            f"{name}: {shipped[0][1]} operators, arenas {shipped[0][2]} -> {safe[0][2]} bytes;"
            f" MemoryPlanningPass {before:.2f} s, SafePlanning {after:.2f} s, ratio {after / before:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
