"""CPU time of checking a program inside the pipeline, as a ratio to the `to_executorch` that makes it.

    python -m benchmarks.graphs

Prints one line for each model: instructions, seconds of `to_executorch`, and those of checking what it returned (its
graphs, compared with what was emitted) in the same process, as a percentage; the best of three exports and of five
checks of each, so that nothing is imported any more. Needs torch and executorch.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import hazard


def transformer() -> tuple[Any, tuple[Any, ...]]:
    import torch

    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), (torch.randn(1, 16, 64),)


def convolutions() -> tuple[Any, tuple[Any, ...]]:
    import torch

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(8, 8, 3, padding=1)
            self.second = torch.nn.Conv2d(8, 8, 1)

        def forward(self, x: Any) -> Any:
            return x + torch.relu(self.second(torch.nn.functional.gelu(self.first(x)) * 0.5))

    return torch.nn.Sequential(*(Block() for _ in range(80))), (torch.randn(1, 8, 8, 8),)


def conds() -> tuple[Any, tuple[Any, ...]]:
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            for _ in range(40):
                x = torch.cond(x.sum() > 0, lambda v: v.sin() + v, lambda v: v.cos() * v, (x,)).clone() + 1
            return x

    return Model(), (torch.randn(4),)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "transformer": transformer,
    "convolutions": convolutions,
    "conds": conds,
}


def measure(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> tuple[int, float, float]:
    """Instructions, seconds of the fastest `to_executorch`, seconds of the fastest check."""
    import torch
    from executorch.exir import to_edge

    module, inputs = make()
    exported = torch.export.export(module.requires_grad_(False).eval(), inputs, strict=False)
    made, checked = [], []
    for _ in range(3):
        edge = to_edge(exported)
        started = time.process_time()
        manager = edge.to_executorch()
        made.append(time.process_time() - started)
        for _ in range(5):
            report = None  # the last one goes before the clock starts
            started = time.process_time()
            report = hazard.check(manager)
            checked.append(time.process_time() - started)
    (method,) = report.programs[0].program.methods
    return len(method.chains[0]), min(made), min(checked)


def main() -> None:
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    for name, make in MODELS.items():
        count, made, checked = measure(make)
        print(f"{name}: {count} instructions, to_executorch {made:.2f} s, check {checked / made:.1%}")


if __name__ == "__main__":
    main()
