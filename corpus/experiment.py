"""What a case's `model.py` is made of: the experiment that its `build()` returns, and its vocabulary."""

from typing import Any, NamedTuple

import torch


class Experiment(NamedTuple):
    """A model, how to export it, and the calls under which the runtime is compared with eager.

    `sequences` holds lists of steps. Each list is fed, in order, to one freshly loaded program and to one freshly
    built module, so that state carries over from step to step. A step is a tuple of inputs, or a pair (method name,
    inputs) where the program has several methods.

    `options`, all of them optional:

    - `methods`: {name: (module, example inputs)} of a program with several methods; `module` is then unused
    - `mpp`: arguments for MemoryPlanningPass, or a pass to be used instead
    - `ebc`: further arguments for ExecutorchBackendConfig
    - `passes`: graph passes that run before planning
    - `edge_hook`: a function of the edge program, called before planning, that returns the program to go on with
    - `init`: whether the program carries the initial values of the module's buffers (default True)
    - `xnnpack`: whether to delegate to XNNPACK
    - `tol`: absolute and relative tolerance of the comparison (default 0)
    - `mutated_inputs`: how many leading outputs are new values of inputs, which eager does not return
    - `preload`: whether all methods are loaded before the first call (default: each at its first call)
    - `reuse_inputs`: whether every step hands over the same tensors, overwritten with the new inputs
    - `raw_outputs`: whether outputs are kept as they came and compared once more after the last call
    """

    module: torch.nn.Module | None = None
    example_inputs: tuple[Any, ...] | None = None
    dynamic_shapes: Any = None
    options: dict[str, Any] = {}  # noqa: RUF012 (nobody writes to it)
    sequences: list[list[tuple[Any, ...]]] = []  # noqa: RUF012


def floats(*values: float) -> torch.Tensor:
    return torch.tensor([float(value) for value in values])
