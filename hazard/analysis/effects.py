"""What each instruction does to slots, bytes and meanings.

The conventions are those of ExecuTorch's emitter (``exir/emit/_emitter.py``) as measured on released programs: a
kernel call lists every schema argument, then its results once more; an out variant therefore names its output twice,
several outputs stand at their schema positions and again as one tensor list, and an in-place kernel ends with the slot
that it began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from hazard.analysis import operators
from hazard.program import (
    Alias,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    Scalar,
    Tensor,
    TensorList,
    record,
)


@record
class Effect:
    """Slots of tensors that an instruction touches, each list in argument order and without repeats.

    ``reads``: contents. ``shapes``: sizes and dtype only. ``writes``: defines the whole tensor. ``updates``: may write
    any of its bytes and keeps the others. ``may_writes``: may write, or may be left alone, because the effect is not
    known. ``appends``: rows are added, the slot of the row index is ``row``. ``frees``: the bytes are given back.
    ``scalars``: slots of numbers defined.
    ``points``: (target, source) of a data pointer set at run time. ``undefined``: the written contents mean nothing.
    ``elementwise``: may write exactly over an operand. ``known``: False when the effect is a guess. ``partial``: the
    operand is read in part only.
    """

    reads: tuple[int, ...] = ()
    shapes: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    may_writes: tuple[int, ...] = ()
    appends: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()
    row: int | None = None
    scalars: tuple[int, ...] = ()
    points: tuple[int, int] | None = None
    undefined: bool = False
    elementwise: bool = False
    known: bool = True
    partial: bool = False
    pure: bool = True


NOTHING = Effect()

#: Kernels that look at a part of their first operand.
_PARTIAL = frozenset(
    "select_copy slice_copy index gather embedding index_select split_with_sizes_copy split_copy narrow_copy "
    "unbind_copy index_put as_strided_copy diagonal_copy".split()
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The user's word on a custom operator: positions of its arguments, counted from 0, negative ones from the end.

    Arguments that are not named are read.
    """

    writes: tuple[int, ...] | None = None
    updates: tuple[int, ...] = ()
    shapes: tuple[int, ...] = ()
    elementwise: bool = False
    pure: bool = True


Declarations = Mapping[str, Declaration]


def effect_of(method: Method, instruction: Instruction, declared: Declarations) -> Effect:
    """The effect of one instruction, without regard to what was executed before."""
    match instruction:
        case Kernel(operator, args):
            return _kernel(method, operator, args, declared.get(operator))
        case DelegateCall(_, args, outputs):
            return _delegate(method, args, outputs)
        case JumpFalse(condition, _) if method.is_tensor(condition):
            return Effect(reads=(condition,))
        case Free(value):
            return Effect(frees=method.tensors_of(value))
        case Move() | Alias() | JumpFalse():
            return NOTHING
    raise TypeError(instruction)


def _unique(slots: list[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(slots))


def _tensors(method: Method, args: tuple[int, ...]) -> list[int]:
    return [slot for arg in args for slot in method.tensors_of(arg)]


def _kernel(method: Method, operator: str, args: tuple[int, ...], declaration: Declaration | None) -> Effect:
    traits = _traits(operator)
    name, known, pure = traits.name, traits.known, traits.pure
    values = method.values
    if traits.primitive:
        return _primitive(method, name, args)
    if not args:
        return NOTHING
    if declaration is not None:
        return _declared(method, args, declaration)
    last = values[args[-1]]
    if isinstance(last, Scalar):
        # The result is a number (`_local_scalar_dense`, `sym_size`): nothing is written to memory.
        tensors = _tensors(method, args[:-1])
        by_shape = traits.by_shape
        return Effect(
            reads=() if by_shape else _unique(tensors),
            shapes=_unique(tensors) if by_shape else (),
            scalars=(args[-1],),
            may_writes=() if known else _unique(tensors),
            known=known,
            pure=pure,
        )
    if traits.in_place and isinstance(values[args[0]], Tensor):
        return _in_place(method, name, args, known)
    outs = (args[-1],) if isinstance(last, Tensor) else _unique(_tensors(method, args[-1:]))
    if not outs:
        operands = _unique(_tensors(method, args))
        return Effect(reads=operands, may_writes=() if known else operands, known=known, pure=False)
    results = _result_positions(method, args, outs)
    operands_list = [s for i, a in enumerate(args[:-1]) if i not in results for s in method.tensors_of(a)]
    updates = [args[i] for i in traits.updates if i < len(args) and method.is_tensor(args[i])]
    shapes: list[int] = []
    if traits.by_shape and 0 not in results:
        shapes = list(method.tensors_of(args[0]))
        rest = list(enumerate(args[:-1]))[1:]
        operands_list = [s for i, a in rest if i not in results for s in method.tensors_of(a)]
    operands = _unique(operands_list)
    return Effect(
        reads=operands,
        shapes=_unique(shapes),
        writes=outs,
        updates=_unique(updates),
        may_writes=() if known else operands,
        undefined=traits.undefined,
        elementwise=traits.elementwise,
        known=known,
        partial=traits.partial,
        pure=pure and not updates,
    )


@dataclass(frozen=True, slots=True)
class _Traits:
    """What the name of an operator says."""

    name: str
    primitive: bool
    known: bool
    pure: bool
    in_place: bool
    by_shape: bool
    undefined: bool
    elementwise: bool
    partial: bool
    updates: tuple[int, ...]


@cache
def _traits(operator: str) -> _Traits:
    name, space = operators.base_name(operator), operators.namespace(operator)
    known = space in operators.FUNCTIONAL_NAMESPACES or operator in operators.CUSTOM_UPDATES
    return _Traits(
        name,
        primitive=space == "executorch_prim",
        known=known,
        pure=known and name not in operators.NONDETERMINISTIC,
        in_place=operators.is_in_place(operator),
        by_shape=name in operators.SHAPE_READERS,
        undefined=known and name in operators.UNDEFINED,
        elementwise=known and name in operators.ELEMENTWISE,
        partial=known and name in _PARTIAL,
        updates=operators.CUSTOM_UPDATES.get(operator, ()),
    )


def _result_positions(method: Method, args: tuple[int, ...], outs: tuple[int, ...]) -> set[int]:
    """Which arguments before the last are results: the last place of each; an earlier one of the same slot is read."""
    places: set[int] = set()
    missing = set(outs)
    for i in range(len(args) - 2, -1, -1):
        slots = method.tensors_of(args[i])
        if slots and missing.issuperset(slots):
            places.add(i)
            missing.difference_update(slots)
            if not missing:
                break
    return places


def _in_place(method: Method, name: str, args: tuple[int, ...], known: bool) -> Effect:
    target = args[0]
    others = [s for a in args[1:-1] for s in method.tensors_of(a)]
    pure = known and name not in operators.NONDETERMINISTIC
    if known and name in operators.OVERWRITES:
        return Effect(
            reads=_unique(others), shapes=(target,), writes=(target,), elementwise=True, known=known, pure=pure
        )
    if known and name[:-1] in operators.ELEMENTWISE:
        return Effect(reads=_unique([target, *others]), writes=(target,), elementwise=True, known=known, pure=pure)
    return Effect(
        reads=_unique([target, *others]),
        updates=(target,),
        may_writes=() if known else _unique(others),
        known=known,
        pure=False,
    )


def _primitive(method: Method, name: str, args: tuple[int, ...]) -> Effect:
    if name == "et_copy_index" and len(args) >= 3 and method.is_tensor(args[0]) and method.is_tensor(args[1]):
        return Effect(reads=(args[1],), appends=(args[0],), row=args[2], pure=False)
    if name == "et_view" and len(args) >= 3 and method.is_tensor(args[0]) and method.is_tensor(args[-1]):
        return Effect(shapes=(args[0],), points=(args[-1], args[0]))
    tensors = _unique(_tensors(method, args))
    if tensors:
        known = name in ("sym_size", "sym_numel", "sym_stride")
        return Effect(
            shapes=tensors if known else (), reads=() if known else tensors, may_writes=() if known else tensors,
            scalars=args[-1:], known=known,
        )  # fmt: skip
    return Effect(scalars=args[-1:])


def _declared(method: Method, args: tuple[int, ...], declaration: Declaration) -> Effect:
    def pick(positions: tuple[int, ...]) -> list[int]:
        found: list[int] = []
        for p in positions:
            if -len(args) <= p < len(args):
                found.extend(method.tensors_of(args[p]))
        return found

    writes = pick(declaration.writes) if declaration.writes is not None else _tensors(method, args[-1:])
    updates, shapes = pick(declaration.updates), pick(declaration.shapes)
    taken = {*writes, *shapes}
    scalars = args[-1:] if isinstance(method.values[args[-1]], Scalar) else ()
    return Effect(
        reads=_unique([s for s in _tensors(method, args) if s not in taken]),
        shapes=_unique(shapes),
        writes=_unique([w for w in writes if w not in updates]),
        updates=_unique(updates),
        scalars=scalars,
        elementwise=declaration.elementwise,
        pure=declaration.pure and not updates,
    )


def _delegate(method: Method, args: tuple[int, ...], outputs: int | None) -> Effect:
    """Inputs precede outputs without a marker; ``outputs`` has been settled by `delegate_outputs` or by a graph."""
    tensors = [a for a in args if isinstance(method.values[a], Tensor | TensorList)]
    if outputs is None:
        slots = _unique(_tensors(method, tuple(tensors)))
        return Effect(reads=slots, may_writes=slots, known=False, pure=False)
    cut = len(args) - outputs
    scalars = tuple(a for a in args[cut:] if isinstance(method.values[a], Scalar))
    return Effect(
        reads=_unique(_tensors(method, args[:cut])),
        writes=_unique(_tensors(method, args[cut:])),
        scalars=scalars,
        pure=False,
    )
