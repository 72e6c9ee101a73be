"""Programs made from graphs, seen as the emitter writes them, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from hazard.program import (
    ITEM_BYTES,
    Alias,
    Arena,
    Constant,
    DelegateCall,
    Dynamism,
    Free,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    Planned,
    Program,
    Scalar,
    Tensor,
    TensorList,
    Unplanned,
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
                values.append(replace(value, name=None, extent=None, base=None, base_offset=0, lost_value=False))
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


def differences(graphs: Program, emitted: Program | Any) -> Iterator[str]:
    """What a program made from graphs has otherwise than what was emitted from them; one sentence each.

    ``emitted`` is a program read from a file, or the ``Program`` of ``executorch.exir.schema`` that a manager holds; to
    serialise that only to read it again would copy all weights. Names, sources and lines are not compared: a file has
    none of them unless it was asked to.
    """
    known = {m.name: m for m in graphs.methods}
    if isinstance(emitted, Program):
        methods = [(m.name, m) for m in emitted.methods]
    else:
        methods = [(plan.name, plan) for plan in emitted.execution_plan]
    for name, method in methods:
        if name not in known:
            chains = method.chains if isinstance(method, Method) else [c.instructions for c in method.chains]
            if any(chains):
                yield f"the file has a method {name}, the graphs have not"
            continue  # one that only returns constants is added for training, too
        other = _FileMethod(method) if isinstance(method, Method) else _PlanMethod(method)
        yield from (f"{name}: {text}" for text in _method_differences(known[name], other))


class _FileMethod:
    """A method of a file, as it is compared."""

    def __init__(self, method: Method) -> None:
        self.head = (method.inputs, method.outputs, method.arenas, method.delegates)
        self.values: Sequence[Any] = method.values
        self.chains = [_shapes(chain, int) for chain in method.chains]

    @staticmethod
    def is_same(ours: Value, theirs: Any, slot: Callable[[int], int]) -> bool:
        return _same_value(ours, theirs, slot)


class _PlanMethod:
    """A method as the emitter holds it, in the classes of ``exir/schema.py``."""

    def __init__(self, plan: Any) -> None:
        devices = {d.buffer_idx: f"cuda:{d.device_index}" for d in plan.non_const_buffer_device or () if d.device_type}
        sizes = plan.non_const_buffer_sizes
        arenas = {i: Arena(size, devices.get(i)) for i, size in enumerate(sizes) if i}
        self.head = (tuple(plan.inputs), tuple(plan.outputs), arenas, tuple(d.id for d in plan.delegates))
        self.values: Sequence[Any] = plan.values
        operators = [f"{o.name}.{o.overload}" if o.overload else o.name for o in plan.operators]
        self.chains = [[_plan_shape(i.instr_args, operators) for i in c.instructions] for c in plan.chains]

    @staticmethod
    def is_same(ours: Value, theirs: Any, slot: Callable[[int], int]) -> bool:
        value = theirs.val
        kind = type(value).__name__
        if isinstance(ours, Scalar):
            own, attribute = _SCALARS[ours.kind]
            return kind == own and (attribute is None or ours.value == getattr(value, attribute))
        if isinstance(ours, Tensor):
            return kind == "Tensor" and _same_tensor(ours, value)
        if isinstance(ours, TensorList):
            items = [slot(i) if i >= 0 else i for i in ours.items]
            return kind in ("TensorList", "OptionalTensorList") and items == list(value.items)
        return kind in ("IntList", "DoubleList", "BoolList") and list(ours.items) == list(value.items)


#: ExecuTorch's class for each kind of scalar, and its attribute.
_SCALARS: Final = {
    "int": ("Int", "int_val"), "bool": ("Bool", "bool_val"), "double": ("Double", "double_val"),
    "string": ("String", "string_val"), "null": ("Null", None),
}  # fmt: skip


def _same_tensor(ours: Tensor, theirs: Any) -> bool:
    placed, index, extra = theirs.allocation_info, theirs.data_buffer_idx, theirs.extra_tensor_info
    external = extra is not None and int(extra.location) == 1
    placement = ours.placement
    if placed is None:
        key = extra.fully_qualified_name if external else index
        if placement != (Constant(key) if external or index else Unplanned()):
            return False
    elif (
        not isinstance(placement, Planned)
        or placement.arena != placed.memory_id
        or placement.offset != placed.memory_offset_low | placed.memory_offset_high << 32
    ):
        return False
    initial = None if placed is None else 0 if external else index or None
    order = theirs.dim_order
    return (
        list(theirs.sizes) == list(ours.sizes)
        and ours.initial == initial
        and _DTYPES[ours.dtype] == theirs.scalar_type
        and _DYNAMISMS[ours.dynamism] == theirs.shape_dynamism
        and list(order) == (list(range(len(order))) if ours.layout is None else list(ours.layout))
    )


#: ExecuTorch's numbers.
_DTYPES: Final = {dtype: number for number, dtype in enumerate(ITEM_BYTES)}
_DYNAMISMS: Final = {Dynamism.STATIC: 0, Dynamism.BOUND: 1, Dynamism.UNBOUND: 2}


def _plan_shape(call: Any, operators: Sequence[str]) -> tuple[object, ...]:
    kind = type(call).__name__
    if kind == "KernelCall":
        return (operators[call.op_index], *call.args)
    match kind:
        case "DelegateCall":
            return ("delegate", call.delegate_index, *call.args)
        case "MoveCall":
            return ("move", call.move_from, call.move_to)
        case "JumpFalseCall":
            return ("jump-false", call.cond_value_index, call.destination_instruction)
    return ("free", call.value_index)


def _method_differences(graph: Method, other: _FileMethod | _PlanMethod) -> Iterator[str]:
    slot = [graph.emitted_slot(i) for i in range(len(graph.values))].__getitem__
    head = (graph.inputs, tuple(map(slot, graph.outputs)), graph.arenas, graph.delegates)
    for what, ours, theirs in zip(("inputs", "outputs", "arenas", "delegates"), head, other.head, strict=True):
        if ours != theirs:
            yield f"{what} are {theirs} in the file and {ours} by the graph"
    entries = [v for v in graph.values if type(v) is not Tensor or v.slot is None]
    if len(entries) != len(other.values):
        yield f"{len(other.values)} values in the file and {len(entries)} by the graph"
    is_same = other.is_same
    for i, (a, b) in enumerate(zip(entries, other.values, strict=False)):
        if not is_same(a, b, slot):
            yield f"value {i} is {b} in the file and {a} by the graph"
    for chain, (code, theirs) in enumerate(zip(graph.chains, other.chains, strict=False)):
        ours = _shapes(code, slot, len(entries))
        if len(ours) != len(theirs):
            yield f"chain {chain} has {len(theirs)} instructions in the file and {len(ours)} by the graph"
        for i, (x, y) in enumerate(zip(ours, theirs, strict=False)):
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


def _shapes(chain: tuple[Instruction, ...], slot: Callable[[int], int], plain: int = 0) -> list[tuple[object, ...]]:
    """What an instruction is, without where it comes from. Slots below ``plain`` stand for themselves."""
    places = _places(chain)
    result: list[tuple[object, ...]] = []
    for instruction in chain:
        if isinstance(instruction, Kernel):
            args = instruction.args
            result.append((instruction.operator, *(args if max(args, default=0) < plain else map(slot, args))))
            continue
        match instruction:
            case DelegateCall(delegate, args):
                result.append(("delegate", delegate, *map(slot, args)))
            case Move(source, target):
                result.append(("move", slot(source), slot(target)))
            case JumpFalse(condition, target):
                result.append(("jump-false", slot(condition), places[target]))
            case Free(value):
                result.append(("free", slot(value)))
    return result
