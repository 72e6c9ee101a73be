"""What a name stands for: the aliases and moves behind it, and the storage that it was asked to share.

Only programs made from graphs have aliases and shared storage; in others a slot stands for itself and its moves.
"""

from __future__ import annotations

from hazard.program import Alias, Method, Move, Tensor


def meanings(method: Method, slot: int) -> set[int]:
    """The slot, and all slots that it means through aliases: the base of a view, the operand of an in-place result."""
    sources: dict[int, set[int]] = {}
    for _, _, instruction in method.instructions():
        if isinstance(instruction, Alias) and not _is_state(method, instruction.target):
            sources.setdefault(instruction.target, set()).add(instruction.source)
    found = {slot}
    work = [slot]
    while work:
        for source in sources.get(work.pop(), ()):
            if source not in found:
                found.add(source)
                work.append(source)
    return found


def _is_state(method: Method, slot: int) -> bool:
    """Whether an alias to this slot says what a buffer must hold in the next call, rather than what a name means."""
    value = method.values[slot]
    return isinstance(value, Tensor) and value.fqn is not None


def moves_behind(method: Method, slot: int) -> list[Move]:
    """The moves through which a value can have come to a slot, aliases between them included."""
    bound: dict[int, list[Move | Alias]] = {}
    for _, _, instruction in method.instructions():
        if isinstance(instruction, Move | Alias) and not _is_state(method, instruction.target):
            bound.setdefault(instruction.target, []).append(instruction)
    moves: list[Move] = []
    seen = {slot}
    work = [slot]
    while work:
        for instruction in bound.get(work.pop(), ()):
            if isinstance(instruction, Move):
                moves.append(instruction)
            if instruction.source not in seen:
                seen.add(instruction.source)
                work.append(instruction.source)
    return moves


def is_alias(method: Method, slot: int) -> bool:
    """Whether a slot is a name for what another slot means: a view without instruction, an in-place result."""
    return any(
        isinstance(i, Alias) and i.target == slot and not _is_state(method, slot) for _, _, i in method.instructions()
    )


def state_behind(method: Method, slot: int) -> int | None:
    """The slot of the buffer that a name stands for in the course of a call, or None."""
    return next((s for s in sorted(meanings(method, slot)) if _is_state(method, s)), None)


def storage(method: Method, slot: int) -> list[int]:
    """A slot and the bases of its storage, nearest first. Names share the entry of the slot that they stand for."""
    chain: list[int] = []
    step: int | None = method.emitted_slot(slot)
    while step is not None and step not in chain:
        chain.append(step)
        value = method.values[step]
        step = value.base if isinstance(value, Tensor) else None
    return chain


def shares_storage(method: Method, slot: int) -> bool:
    """Whether a slot lives in the storage of another one because somebody asked for that."""
    return len(storage(method, slot)) > 1
