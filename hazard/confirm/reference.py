"""Eager PyTorch beside the program: what its calls should return, from the model that it was made of.

A twin shares what is wrong in a program's instructions; eager does not.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from hazard.confirm.inputs import Call
from hazard.confirm.session import Difference, Result, first_line
from hazard.program import InputError

#: By how much a kernel's result may differ from eager's, relative to the largest element of the tensor and absolute.
TOLERANCES: Final = {"float16": 2e-2, "bfloat16": 1e-1}
TOLERANCE: Final = 1e-3

#: A method: takes the inputs of a call and returns the outputs, keeping state for the next.
_Step = Callable[[Sequence[Any]], Sequence[Any]]


class Reference:
    """The methods of a model in eager. ``begin`` makes them anew, with the state that the model came with."""

    def __init__(self, begin: Callable[[], dict[str, _Step]], examples: Mapping[str, Sequence[Any]]) -> None:
        self.begin = begin
        self.examples = {name: tuple(inputs) for name, inputs in examples.items()}

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """The results of a sequence of calls; it ends with the first that fails."""
        import torch

        steps = self.begin()
        results = []
        for name, inputs in calls:
            if name not in steps:
                results.append(Result(error=f"the reference has no method {name}"))
                break
            try:
                with torch.no_grad(), _plain_control_flow():
                    values = steps[name](_cloned(inputs))
                results.append(Result(tuple(_cloned(values))))
            except Exception as error:
                results.append(Result(error=f"{type(error).__name__}: {first_line(error)}"))
                break
        return results


def reference_of(thing: Any, shared: frozenset[str] = frozenset()) -> Reference:
    """A reference from a module, a pair of a module and its example inputs, an ``ExportedProgram`` that was not lowered
    to ExecuTorch, an ``EdgeProgramManager`` (also as a pair with its configuration), an ``ExecutorchProgramManager``
    with an etrecord, or a mapping from method names to modules, pairs or exported programs.

    ``shared`` names buffers that methods have in common; of modules Python tells. Raises InputError for anything else.
    """
    import torch

    if isinstance(thing, Reference):
        return thing
    parts = thing if isinstance(thing, tuple) and len(thing) == 2 else (thing,)
    if type(parts[0]).__name__ == "EdgeProgramManager":
        thing = {name: parts[0].exported_program(name) for name in parts[0].methods}
    elif type(parts[0]).__name__ == "ExecutorchProgramManager":
        record = getattr(parts[0], "_etrecord", None)
        thing = getattr(record, "edge_dialect_program", None)
        if thing is None:
            raise InputError("a lowered program does not tell what the model computes: give the model itself")
    methods = thing if isinstance(thing, Mapping) else {"forward": thing}
    modules: dict[str, Any] = {}
    programs: dict[str, Any] = {}
    examples: dict[str, Sequence[Any]] = {}
    for name, one in methods.items():
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], tuple | list):
            one, examples[name] = one
        if isinstance(one, torch.export.ExportedProgram):
            programs[name] = one
            if one.example_inputs and not one.example_inputs[1]:
                examples.setdefault(name, _leaves(one.example_inputs[0]))
        elif isinstance(one, torch.nn.Module):
            modules[name] = one
        else:
            raise InputError(f"a {type(one).__name__} is no reference: give a module or an exported program")

    def begin() -> dict[str, _Step]:
        steps: dict[str, _Step] = {}
        try:
            copies = copy.deepcopy(modules)
        except Exception as error:
            raise InputError(f"the module cannot be copied to start anew: {first_line(error)}") from None
        for name, module in copies.items():
            steps[name] = _module_step(module.eval())
        state: dict[tuple[str, int], Any] = {}
        for name, program in programs.items():
            steps[name] = _Functional(program, state, shared)
        return steps

    return Reference(begin, {n: _leaves(tuple(i)) for n, i in examples.items()})


def _module_step(module: Any) -> _Step:
    return lambda inputs: _leaves(module(*inputs))


class _Functional:
    """An exported program as a function of its inputs and state: no write-back can be lost or come too early."""

    def __init__(self, exported: Any, state: dict[tuple[str, int], Any], shared: frozenset[str]) -> None:
        self.exported, self.signature = exported, exported.graph_signature
        self.state = state
        self.owner = {fqn: 0 if fqn in shared else id(self) for fqn in (*exported.state_dict, *exported.constants)}
        for held in (exported.state_dict, exported.constants):
            for fqn, value in held.items():
                # Held by no place of its own: a program that works in place must not change the caller's model.
                state.setdefault((fqn, self.owner[fqn]), value.detach().clone() if hasattr(value, "detach") else value)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        given = iter(inputs)
        arguments: list[Any] = []
        for spec in self.signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                arguments.append(next(given))
            elif spec.target in self.owner:
                arguments.append(self.state[spec.target, self.owner[spec.target]])
            else:
                raise InputError(f"an input of kind {spec.kind.name} cannot be handed to eager")
        results = self.exported.graph_module(*arguments)
        outputs = []
        for spec, value in zip(self.signature.output_specs, results, strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                self.state[spec.target, self.owner[spec.target]] = value.clone()
            else:
                outputs.append(value)
        return outputs


@contextlib.contextmanager
def _plain_control_flow() -> Iterator[None]:
    """Has ``cond``, ``map`` and ``scan`` run their branches as they are: compiling each call takes seconds."""
    from unittest.mock import patch

    with patch("torch.compiler.is_dynamo_compiling", lambda: True):
        yield


def _leaves(values: Any) -> tuple[Any, ...]:
    from torch.utils import _pytree as pytree

    return tuple(pytree.tree_leaves(values))


def _cloned(values: Sequence[Any]) -> list[Any]:
    return [v.detach().clone() if hasattr(v, "detach") else v for v in values]


def differs_from_eager(
    calls: Sequence[Call], got: Sequence[Result], expected: Sequence[Result]
) -> Difference | None:
    """The first place at which results are further from eager's than kernels may be. Calls that fail, which is no wrong
    result, and all after them are not compared. A program also returns the inputs that it changes, before all else."""
    for number, ((method, _), a, b) in enumerate(zip(calls, got, expected, strict=False), 1):
        if a.error or b.error:
            return None
        more = len(a.values) - len(b.values)
        if more < 0:
            raise InputError(f"{method}: the reference returns {len(b.values)} values, the program {len(a.values)}")
        for output, (x, y) in enumerate(zip(a.values[more:], b.values, strict=True), more):
            if not close(x, y):
                return Difference(number, method, output, x, y)
    return None


def close(a: Any, b: Any) -> bool:
    """Whether two results are equal but for what kernels may compute differently; NaN is equal to NaN."""
    import torch

    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b) or (a != a and b != b) or (isinstance(b, float) and abs(a - b) <= TOLERANCE * (1 + abs(b)))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (b.is_floating_point() or b.is_complex()):
        return bool(torch.equal(a, b))
    tolerance = TOLERANCES.get(str(b.dtype).removeprefix("torch."), TOLERANCE)
    finite = b[b.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return bool(torch.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, largest), equal_nan=True))
