"""The program model: what a memory-planned program names, and the bytes that it computes on.

Four things are kept apart, because mixing them up is how aliasing faults arise:

* a *value* is a meaning (one definition, or a choice among several by path); it exists only in the analysis;
* a *tensor object* owns a data pointer and sizes; here a `Tensor`, one for each tensor entry of the values table;
* a *slot* is an index into ``Method.values``; a move makes a slot refer to another slot's tensor object;
* a *region* is a range of bytes of one arena, of constant data, or of memory that the caller brings.

A front end produces a `Program`; no other layer writes one except repair, which replaces regions only. Offsets and
sizes are in bytes, instruction indices count from 0 within their chain, as in ExecuTorch's ``schema/program.fbs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Final, TypeVar, dataclass_transform

_T = TypeVar("_T")

#: Bytes of one element, by the short name of the dtype. The order of the keys is that of ExecuTorch's ScalarType.
ITEM_BYTES: Final[dict[str, int]] = {
    "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8, "c32": 4, "c64": 8, "c128": 16,
    "bool": 1, "qi8": 1, "qu8": 1, "qi32": 4, "bf16": 2, "qu4x2": 1, "qu2x4": 1, "bits1x8": 1, "bits2x4": 1,
    "bits4x2": 1, "bits8": 1, "bits16": 2, "f8e5m2": 1, "f8e4m3fn": 1, "f8e5m2fnuz": 1, "f8e4m3fnuz": 1, "u16": 2,
    "u32": 4, "u64": 8,
}  # fmt: skip


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """A dataclass that is never changed. The type checker sees to that: where tens of thousands are made, a class that
    is frozen at run time takes four times as long."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


class Dynamism(Enum):
    """How a tensor's sizes may differ from those written down (``TensorShapeDynamism`` of the schema)."""

    STATIC = "static"
    BOUND = "bound"  # the sizes are upper bounds
    UNBOUND = "unbound"  # memory is taken at run time


@record
class Planned:
    """Bytes that the memory plan assigned: arena id (1 or above) and offset in bytes."""

    arena: int
    offset: int


@record
class Constant:
    """Read-only data of the program file; two tensors with one key are one place.

    ``key`` is the index of the buffer in the constant segment, or the name of an entry of a ``.ptd`` file.
    """

    key: int | str


@record
class Unplanned:
    """Memory that appears at execution: a caller's buffer, or a pointer that an instruction sets."""


Placement = Planned | Constant | Unplanned


@record
class Extent:
    """Size in bytes as an expression over the export's symbols, such as ``4*s0*s1``; only graphs know it."""

    expression: str


@record
class Tensor:
    """A tensor object: element type, sizes (upper bounds unless static) and the place of its bytes.

    ``initial`` is the index of the initial contents in the mutable-data segment, for state that loading writes.
    ``slot`` is the index of the slot in the emitted program where that differs from this value's own index, which
    happens in programs made from graphs: two graph values may share one slot there. ``base`` is the value whose storage
    the planner was asked to share with this one, from byte ``base_offset`` of it on; only graphs know it.
    ``lost_value``: the model's own initial value is not all zero bits, and the program does not hold it.
    """

    dtype: str
    sizes: tuple[int, ...]
    placement: Placement
    dynamism: Dynamism = Dynamism.STATIC
    initial: int | None = None
    fqn: str | None = None
    layout: tuple[int, ...] | None = None
    extent: Extent | None = None
    name: str | None = None
    slot: int | None = None
    base: int | None = None
    base_offset: int = 0
    lost_value: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Size in bytes; the largest possible one for a dynamic tensor."""
        return prod(self.sizes) * ITEM_BYTES[self.dtype]

    @property
    def sure_nbytes(self) -> int:
        """Bytes that every non-empty instance of the tensor has: all of them, or one element of a dynamic tensor."""
        if self.dynamism is Dynamism.STATIC:
            return self.nbytes
        return min(self.nbytes, self.itemsize)

    @property
    def planned(self) -> Planned | None:
        return self.placement if isinstance(self.placement, Planned) else None

    @property
    def is_constant(self) -> bool:
        return isinstance(self.placement, Constant)

    @property
    def is_name_only(self) -> bool:
        """Whether an alias makes it refer to the source's tensor object. Anything with bytes of its own keeps them, and
        so does a buffer whose bytes the caller brings."""
        return isinstance(self.placement, Unplanned) and self.fqn is None


@record
class Scalar:
    """A value that is not in any arena: ``kind`` is one of int, bool, double, string, null.

    ``size`` is what it is computed to, as an expression over the export's symbols (``s0 + 1``, ``s0 > 3``); only graphs
    know it.
    """

    kind: str
    value: int | bool | float | str | None
    size: str | None = None


@record
class NumberList:
    """``kind`` is one of ints, doubles, bools. The items of ``ints`` are slots (ExecuTorch boxes them)."""

    kind: str
    items: tuple[int | float | bool, ...]


@record
class TensorList:
    """Slots of tensors, resolved each time the list is used; -1 stands for None in an optional list."""

    items: tuple[int, ...]
    optional: bool = False


Value = Tensor | Scalar | NumberList | TensorList
NULL: Final = Scalar("null", None)


@record
class Origin:
    """Where an instruction or a value comes from in the model; every part may be unknown.

    ``index`` is that of the instruction in the emitted program, for programs made from graphs: aliases are not emitted.
    """

    node: str | None = None
    path: str | None = None  # graph path such as "forward/cond_1/true"
    file: str | None = None
    line: int | None = None
    source: str | None = None
    function: str | None = None
    index: int | None = None


@record
class Kernel:
    """A call of an operator: all schema arguments, then the results once more (ExecuTorch's convention)."""

    operator: str  # "aten::add.out"
    args: tuple[int, ...]
    origin: Origin | None = None


@record
class DelegateCall:
    """A call of a backend: inputs, then outputs. ``outputs`` is their number, or None where it is not known."""

    delegate: int
    args: tuple[int, ...]
    outputs: int | None = None
    origin: Origin | None = None


@record
class Move:
    """Slot ``target`` takes over the tensor object of slot ``source``; no byte of tensor data is copied."""

    source: int
    target: int
    origin: Origin | None = None


@record
class JumpFalse:
    """Goes to instruction ``target`` of the same chain unless all elements of slot ``condition`` are true."""

    condition: int
    target: int
    origin: Origin | None = None


@record
class Free:
    """Gives back the memory of an unbounded tensor."""

    value: int
    origin: Origin | None = None


@record
class Alias:
    """States a meaning and does nothing: slot ``target`` means what slot ``source`` means at this point.

    Only front ends that know the meaning write it: a view that has no instruction of its own, a branch's name for an
    operand, the value that a buffer must hold at the end of a call.
    """

    source: int
    target: int
    origin: Origin | None = None


Instruction = Kernel | DelegateCall | Move | JumpFalse | Free | Alias


@record
class Arena:
    """``size`` in bytes; ``device`` is None for host memory."""

    size: int
    device: str | None = None


#: Kinds of `Obstacle`.
OBSTACLES: Final = ("unplanned", "storage")


@record
class Obstacle:
    """A part of a planned graph that cannot become a program as it is.

    ``kind``: "unplanned" for values without memory, "storage" for storage that cannot be shared as it was asked for.
    ``what`` is a sentence, ``names`` are the values concerned.
    """

    kind: str
    what: str
    origin: Origin
    names: tuple[str, ...] = ()


@record
class Method:
    """One entry point. ``arenas`` maps arena ids (1 and above) to sizes; chains run one after the other.

    ``meaning`` says who stated what reads expect: "bytecode" (the last definition through the slot) or "graph".
    ``symbols`` gives the range of each size symbol of the export, both ends included. ``doubts`` say what the front end
    could not find out; with any of them no verdict can be "proved". ``obstacles`` are parts that no program can hold.
    ``changes`` says of operators which of their arguments they change, by their schemas; only graphs know these.
    ``lives`` is what the planner took for live ranges, as (slot, first, last instruction of the emitted program); the
    analysis never uses it.
    """

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[tuple[Instruction, ...], ...]
    arenas: dict[int, Arena]
    delegates: tuple[str, ...] = ()
    meaning: str = "bytecode"
    symbols: tuple[tuple[str, int, int | None], ...] = ()
    doubts: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    changes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    lives: tuple[tuple[int, int, int], ...] = ()

    def instructions(self) -> Iterator[tuple[int, int, Instruction]]:
        """(chain, index within the chain, instruction), in the order of execution without jumps."""
        for c, chain in enumerate(self.chains):
            for i, instruction in enumerate(chain):
                yield c, i, instruction

    def numbers(self, chain: int) -> list[int | None]:
        """The number of each instruction of a chain, as people see it: its index in the emitted program.

        Programs made from graphs hold aliases as well, which are not emitted and have none.
        """
        code = self.chains[chain]
        if all(i.origin is None or i.origin.index is None for i in code):
            return list(range(len(code)))
        return [i.origin.index if i.origin is not None else None for i in code]

    def number_from(self, chain: int, index: int) -> int:
        """The number of the first emitted instruction of a chain from ``index`` on, or of the chain's end."""
        numbers = self.numbers(chain)
        emitted = len(numbers) - numbers.count(None)
        return next((n for n in numbers[index:] if n is not None), emitted)

    def tensor(self, slot: int) -> Tensor:
        """The tensor object that slot ``slot`` owns. Raises TypeError when the slot holds something else."""
        value = self.values[slot]
        if not isinstance(value, Tensor):
            raise TypeError(f"slot {slot} of method {self.name} is no tensor")
        return value

    def emitted_slot(self, slot: int) -> int:
        """The slot of the emitted program that a name stands for; the slot itself where it is no mere name."""
        value = self.values[slot]
        return value.slot if isinstance(value, Tensor) and value.slot is not None else slot

    def is_tensor(self, slot: int) -> bool:
        return isinstance(self.values[slot], Tensor)

    def tensors_of(self, slot: int) -> tuple[int, ...]:
        """The tensor slots behind an argument: itself, the items of a list, or none."""
        value = self.values[slot]
        if isinstance(value, Tensor):
            return (slot,)
        if isinstance(value, TensorList):
            return tuple(i for i in value.items if i >= 0)
        return ()


@record
class Program:
    """A whole program: its methods, in file order."""

    methods: tuple[Method, ...]

    def method(self, name: str) -> Method:
        """The method called ``name``. Raises KeyError."""
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)


class InputError(Exception):
    """The input cannot be used. The message is one line: what is wrong, where, and what to do."""
