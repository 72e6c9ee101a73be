"""Programs made from graphs, seen as the emitter writes them, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hazard.program import (
    Alias,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    Program,
    Tensor,
    TensorList,
    Value,
)


def emitted_form(method: Method) -> Method:
    """The method as its ``.pte`` has it: no aliases, no names beside slots, no meaning of its own.

    A method that was read from a ``.pte`` comes out as it is, but for the numbers of delegates' outputs.
    """
    slot = method.emitted_slot
    values: list[Value] = []
    for value in method.values:
        if isinstance(value, Tensor):
            if value.slot is None:
                values.append(replace(value, name=None, extent=None, base=None, base_offset=0))
        elif isinstance(value, TensorList):
            values.append(TensorList(tuple(slot(i) if i >= 0 else i for i in value.items), value.optional))
        else:
            values.append(value)
    chains = tuple(_emitted_chain(chain, slot) for chain in method.chains)
    return Method(
        method.name,
        tuple(values),
        method.inputs,
        tuple(map(slot, method.outputs)),
        chains,
        method.arenas,
        method.delegates,
    )


def _emitted_chain(chain: tuple[Instruction, ...], slot: object) -> tuple[Instruction, ...]:
    assert callable(slot)
    places = []  # index of each instruction in the emitted chain
    count = 0
    for instruction in chain:
        places.append(count)
        count += not isinstance(instruction, Alias)
    places.append(count)
    result: list[Instruction] = []
    for instruction in chain:
        match instruction:
            case Kernel(operator, args, origin):
                result.append(Kernel(operator, tuple(map(slot, args)), origin))
            case DelegateCall(delegate, args, _, origin):
                result.append(DelegateCall(delegate, tuple(map(slot, args)), None, origin))
            case Move(source, target, origin):
                result.append(Move(slot(source), slot(target), origin))
            case JumpFalse(condition, target, origin):
                result.append(JumpFalse(slot(condition), places[target], origin))
            case Free(value, origin):
                result.append(Free(slot(value), origin))
    return tuple(result)


def differences(graphs: Program, file: Program) -> Iterator[str]:
    """What a program made from graphs has otherwise than the file that was emitted from them; one sentence each.

    Names, sources and lines are not compared: a file has none of them unless it was asked to.
    """
    known = {m.name: m for m in graphs.methods}
    for method in file.methods:
        if method.name not in known:
            yield f"the file has a method {method.name}, the graphs have not"
            continue
        yield from (f"{method.name}: {text}" for text in _method_differences(known[method.name], method))


def _method_differences(graph: Method, file: Method) -> Iterator[str]:
    ours, theirs = emitted_form(graph), emitted_form(file)
    for what in ("inputs", "outputs", "arenas", "delegates"):
        a, b = getattr(ours, what), getattr(theirs, what)
        if a != b:
            yield f"{what} are {b} in the file and {a} by the graph"
    if len(ours.values) != len(theirs.values):
        yield f"{len(theirs.values)} values in the file and {len(ours.values)} by the graph"
    for i, (a, b) in enumerate(zip(ours.values, theirs.values, strict=False)):
        if _unnamed(a) != _unnamed(b):
            yield f"value {i} is {b} in the file and {a} by the graph"
    for chain, (code, written) in enumerate(zip(ours.chains, theirs.chains, strict=False)):
        if len(code) != len(written):
            yield f"chain {chain} has {len(written)} instructions in the file and {len(code)} by the graph"
        for i, (x, y) in enumerate(zip(code, written, strict=False)):
            x, y = replace(x, origin=None), replace(y, origin=None)
            if x != y:
                yield f"instruction {i} is {y} in the file and {x} by the graph"


def _unnamed(value: Value) -> Value:
    return replace(value, fqn=None) if isinstance(value, Tensor) else value
