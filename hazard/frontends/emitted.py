"""Programs made from graphs, seen as the emitter writes them, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Scalar,
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
                values.append(
                    replace(value, name=None, extent=None, base=None, base_offset=0, lost_value=False, life=None)
                )
        elif isinstance(value, TensorList):
            values.append(TensorList(tuple(slot(i) if i >= 0 else i for i in value.items), value.optional))
        elif isinstance(value, Scalar):
            values.append(replace(value, size=None))
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


def _places(chain: tuple[Instruction, ...]) -> list[int]:
    """The index of each instruction in the emitted chain, and that of its end."""
    places = []
    count = 0
    for instruction in chain:
        places.append(count)
        count += not isinstance(instruction, Alias)
    places.append(count)
    return places


def _emitted_chain(chain: tuple[Instruction, ...], slot: Callable[[int], int]) -> tuple[Instruction, ...]:
    places = _places(chain)
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
            if not any(method.chains):
                continue  # it only returns constants, which the emitter adds for training, too
            yield f"the file has a method {method.name}, the graphs have not"
            continue
        yield from (f"{method.name}: {text}" for text in _method_differences(known[method.name], method))


def _method_differences(graph: Method, file: Method) -> Iterator[str]:
    slot = graph.emitted_slot
    for what, ours, theirs in (
        ("inputs", graph.inputs, file.inputs),
        ("outputs", tuple(map(slot, graph.outputs)), file.outputs),
        ("arenas", graph.arenas, file.arenas),
        ("delegates", graph.delegates, file.delegates),
    ):
        if ours != theirs:
            yield f"{what} are {theirs} in the file and {ours} by the graph"
    entries = [v for v in graph.values if not (isinstance(v, Tensor) and v.slot is not None)]
    if len(entries) != len(file.values):
        yield f"{len(file.values)} values in the file and {len(entries)} by the graph"
    for i, (a, b) in enumerate(zip(entries, file.values, strict=False)):
        if not _same_value(a, b, slot):
            yield f"value {i} is {b} in the file and {a} by the graph"
    for chain, (code, written) in enumerate(zip(graph.chains, file.chains, strict=False)):
        ours_here = _shapes(code, slot)
        if len(ours_here) != len(written):
            yield f"chain {chain} has {len(written)} instructions in the file and {len(ours_here)} by the graph"
        for i, (x, y) in enumerate(zip(ours_here, _shapes(written, int), strict=False)):
            if x != y:
                yield f"instruction {i} is {y} in the file and {x} by the graph"


def _same_value(a: Value, b: Value, slot: Callable[[int], int]) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and (
            a.dtype == b.dtype
            and a.sizes == b.sizes
            and a.placement == b.placement
            and a.dynamism is b.dynamism
            and a.initial == b.initial
            and a.layout == b.layout
        )
    if isinstance(a, TensorList):
        return b == TensorList(tuple(slot(i) if i >= 0 else i for i in a.items), a.optional)
    if isinstance(a, Scalar):
        return isinstance(b, Scalar) and (a.kind, a.value) == (b.kind, b.value)
    return a == b


def _shapes(chain: tuple[Instruction, ...], slot: Callable[[int], int]) -> list[tuple[object, ...]]:
    """What an instruction is, without where it comes from."""
    places = _places(chain)
    result: list[tuple[object, ...]] = []
    for instruction in chain:
        match instruction:
            case Kernel(operator, args):
                result.append((operator, *map(slot, args)))
            case DelegateCall(delegate, args):
                result.append(("delegate", delegate, *map(slot, args)))
            case Move(source, target):
                result.append(("move", slot(source), slot(target)))
            case JumpFalse(condition, target):
                result.append(("jump-false", slot(condition), places[target]))
            case Free(value):
                result.append(("free", slot(value)))
    return result
