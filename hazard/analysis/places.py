"""Names a position of the code and a value there, for people."""

from __future__ import annotations

from hazard.analysis.conflicts import Place
from hazard.analysis.flow import Flow, Stage, Use
from hazard.program import DelegateCall, Kernel, Tensor, TensorList


def operator_at(flow: Flow, position: int) -> str:
    """A word for what stands at a position: the operator, ``delegate X``, ``move``, ``input`` and so on."""
    step = flow.code[position]
    match step:
        case Kernel(operator, _):
            return operator
        case DelegateCall(delegate):
            names = flow.method.delegates
            return f"delegate {names[delegate]}" if delegate < len(names) else "delegate"
        case Stage():
            return "input"
        case Use():
            return "output"
    return type(step).__name__.lower()


def operand_at(flow: Flow, position: int, slot: int) -> str:
    """Which operand of an instruction, or which output, a slot is: ``2``, ``0.1`` in a list, nothing if it is none."""
    method = flow.method
    step = flow.code[position]
    if isinstance(step, Use):
        # The reads of the outputs stand at the end of the code, one for each.
        return str(position - (len(flow.code) - len(method.outputs)))
    if isinstance(step, Kernel | DelegateCall):
        for i, arg in enumerate(step.args):
            value = method.values[arg]
            if arg == slot:
                return str(i)
            if isinstance(value, TensorList) and slot in value.items:
                return f"{i}.{value.items.index(slot)}"
    return ""


def place_at(
    flow: Flow, position: int, slot: int | None, obj: int | None, call: int | None, operator: str | None = None
) -> Place:
    """The event at a position that concerns ``slot``, with the bytes of the object of slot ``obj``."""
    method = flow.method
    site = flow.sites[position] if 0 <= position < len(flow.code) else None
    step = flow.code[position] if 0 <= position < len(flow.code) else None
    origin = None if step is None or isinstance(step, Stage | Use) else step.origin
    arena, offset, nbytes, name, fqn = None, 0, 0, None, None
    if obj is not None and isinstance(value := method.values[obj], Tensor):
        nbytes, fqn = value.nbytes, value.fqn
        if value.planned:
            arena, offset = value.planned.arena, value.planned.offset
    if slot is not None and isinstance(value := method.values[slot], Tensor):
        name = value.name
        fqn = fqn or value.fqn
    chain, index = site if site is not None else (0, None)
    word = operator or operator_at(flow, position)
    return Place(position, chain, index, call, word, slot, arena, offset, nbytes, origin, name, fqn)
