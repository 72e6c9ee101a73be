"""Exports experiments with the installed ExecuTorch, and runs programs under it with eager as the judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module, metadata
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.runtime import Runtime
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from corpus.experiment import Experiment

RELEASE = metadata.version("executorch")

# How much of a differing tensor, and of an error message, an outcome quotes.
QUOTED_ELEMENTS = 6
QUOTED_CHARACTERS = 160

Build = Callable[[], Experiment]
Outcome = dict[str, Any]


def load_build(name: str) -> Build:
    """The `build` function of the named case."""
    build: Build = import_module(f"corpus.{name}.model").build
    return build


def export(experiment: Experiment) -> bytes:
    """The experiment's program, as the installed release plans and serialises it."""
    edge, config = lower(experiment)
    return bytes(edge.to_executorch(config).buffer)


def lower(experiment: Experiment) -> tuple[EdgeProgramManager, ExecutorchBackendConfig]:
    """The experiment's edge program, and how it is to be planned."""
    # What dynamo remembers of earlier exports shows in what it captures next.
    torch._dynamo.reset()
    options = experiment.options
    if methods := options.get("methods"):
        captured = {name: _capture(module, inputs) for name, (module, inputs) in methods.items()}
    else:
        captured = _capture(experiment.module, experiment.example_inputs or (), experiment.dynamic_shapes)
    edge = _to_edge(captured, options)
    return edge, planning(experiment)


def planning(experiment: Experiment) -> ExecutorchBackendConfig:
    """How the experiment wants its edge program to be planned."""
    options = experiment.options
    modules = [module for module, _ in options["methods"].values()] if options.get("methods") else [experiment.module]
    planner = options.get("mpp", {})
    return ExecutorchBackendConfig(
        passes=[*_initialisation(modules, options), *options.get("passes", [])],
        memory_planning_pass=MemoryPlanningPass(**planner) if isinstance(planner, dict) else planner,
        **options.get("ebc", {}),
    )


def _capture(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any = None) -> ExportedProgram:
    return torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes, strict=False)


def _to_edge(captured: ExportedProgram | dict[str, ExportedProgram], options: dict[str, Any]) -> EdgeProgramManager:
    if options.get("xnnpack"):
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        edge = to_edge_transform_and_lower(captured, partitioner=[XnnpackPartitioner()])
    else:
        edge = to_edge(captured)
    hook = options.get("edge_hook")
    return hook(edge) if hook else edge


def _initialisation(modules: Iterable[torch.nn.Module], options: dict[str, Any]) -> list[InitializedMutableBufferPass]:
    names = {name.replace(".", "_") for module in modules for name, _ in module.named_buffers()}
    if not names or not options.get("init", True):
        return []
    return [InitializedMutableBufferPass(sorted(names))]


def try_export(build: Build) -> tuple[bytes | None, Outcome]:
    """The program and what happens when it runs, or None and the export's error."""
    try:
        program = export(build())
    except Exception as error:
        return None, {"outcome": "EXPORT_ERROR", "error": _one_line(error)}
    return program, observe(build, program)


def observe(build: Build, program: bytes) -> Outcome:
    """What happens when the program makes all of the experiment's calls, compared with eager.

    Either {"outcome": "match"}, or `MISMATCH` or `RUN_ERROR` with the place of the first of these: `sequence`, `step`
    and `method`, for a mismatch also `output`, `got`, `want`, and `late` if the output was right when it came and
    wrong after the last call of the sequence.
    """
    for index in range(len(build().sequences)):
        # A program can write to its own constants, which lie in these bytes, so that each sequence needs its own.
        if problem := _run_sequence(build(), index, bytes(bytearray(program))):
            return problem
    return {"outcome": "match"}


def _run_sequence(experiment: Experiment, index: int, program: bytes) -> Outcome | None:
    options = experiment.options
    methods = options.get("methods")
    modules = {name: module for name, (module, _) in methods.items()} if methods else {"forward": experiment.module}
    steps = [call if methods else ("forward", call) for call in experiment.sequences[index]]
    expected = [_eager(modules[method], inputs) for method, inputs in steps]
    kept = []
    where: dict[str, Any] = {"sequence": index, "step": None, "method": None}
    try:
        loaded = Runtime.get().load_program(program)
        for method in modules if options.get("preload") else []:
            where["method"] = method
            loaded.load_method(method)
        staged: list[Any] = []
        for step, ((method, inputs), want) in enumerate(zip(steps, expected, strict=True)):
            where = {"sequence": index, "step": step, "method": method}
            staged = _staged(inputs, staged if options.get("reuse_inputs") else [])
            got = loaded.load_method(method).execute(staged)[options.get("mutated_inputs", 0) :]
            if difference := _first_difference(got, want, options):
                return {"outcome": "MISMATCH", **where, **difference}
            kept.append((where, got, want))
    except RuntimeError as error:
        return {"outcome": "RUN_ERROR", **where, "error": _one_line(error)}
    for where, got, want in kept if options.get("raw_outputs") else []:
        if difference := _first_difference(got, want, options):
            return {"outcome": "MISMATCH", **where, **difference, "late": True}
    return None


def _staged(inputs: Sequence[Any], earlier: Sequence[Any]) -> list[Any]:
    """What to hand over: fresh tensors, or the earlier ones with new content."""
    if not earlier:
        return _cloned(inputs)
    return [tensor.copy_(value) for tensor, value in zip(earlier, inputs, strict=True)]


def _eager(module: torch.nn.Module, inputs: Iterable[Any]) -> list[Any]:
    with torch.no_grad():
        outputs = module.eval()(*_cloned(inputs))
    return _cloned(pytree.tree_leaves(outputs))


def _cloned(values: Iterable[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _first_difference(got: Sequence[Any], want: Sequence[Any], options: dict[str, Any]) -> dict[str, Any] | None:
    if len(got) != len(want):
        raise ValueError(f"the program returns {len(got)} values where eager returns {len(want)}")
    for output, (actual, expected) in enumerate(zip(got, want, strict=True)):
        if not _same(actual, expected, options.get("tol", 0)):
            return {"output": output, "got": _quoted(actual), "want": _quoted(expected)}
    return None


def _same(got: Any, want: Any, tolerance: float) -> bool:
    if not (isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)):
        return bool(got == want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    return bool(torch.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True))


def _quoted(value: Any) -> list[Any]:
    """The first elements, to six digits, in a form that JSON knows."""
    elements = value.flatten()[:QUOTED_ELEMENTS].tolist() if isinstance(value, torch.Tensor) else [value]
    return [_plain(element) for element in elements]


def _plain(element: Any) -> Any:
    if not isinstance(element, float):
        return element
    return float(f"{element:.6g}") if math.isfinite(element) else str(element)


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:QUOTED_CHARACTERS]}"
