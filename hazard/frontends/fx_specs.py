"""What the frontend for graphs reads from tensor specs, nodes and tensors: placements, sizes, constants, origins.

ExecuTorch's ``TensorSpec`` (``exir/tensor.py``) carries the plan. The spec of a static view is a ``_ViewSpec``, which
checks itself on every access and raises once its base has been changed by the emitter; `field` looks past that.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any, Final, NamedTuple

from hazard.program import (
    Dynamism,
    InputError,
    Origin,
    Placement,
    Planned,
    Tensor,
    Unplanned,
)

UNPLANNED: Final = Unplanned()

#: Short names of dtypes, by the name that torch gives them.
_DTYPES: Final = {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex32": "c32", "complex64": "c64", "complex128": "c128", "bool": "bool", "qint8": "qi8",
    "quint8": "qu8", "qint32": "qi32", "bfloat16": "bf16", "quint4x2": "qu4x2", "quint2x4": "qu2x4",
    "bits1x8": "bits1x8", "bits2x4": "bits2x4", "bits4x2": "bits4x2", "bits8": "bits8", "bits16": "bits16",
    "float8_e5m2": "f8e5m2", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e4m3fnuz": "f8e4m3fnuz", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip

_CONTIGUOUS: Final = [tuple(range(rank)) for rank in range(65)]

_DYNAMISMS: Final = (Dynamism.STATIC, Dynamism.BOUND, Dynamism.UNBOUND)


_SPEC_CLASSES: dict[type, bool] = {}


def is_spec(value: object) -> bool:
    """Whether this is a ``TensorSpec``, without importing ExecuTorch to ask."""
    kind = type(value)
    known = _SPEC_CLASSES.get(kind)
    if known is None:
        known = _SPEC_CLASSES[kind] = any(c.__name__ == "TensorSpec" for c in kind.__mro__)
    return known


def field(spec: Any, name: str, default: Any = None) -> Any:
    """An attribute of a spec; of a view's spec without the checks that fail after emission."""
    kind = type(spec)
    if kind.__name__ != "_ViewSpec":
        return getattr(spec, name, default)
    if name in object.__getattribute__(spec, "_self_fields"):
        return object.__getattribute__(spec, name)
    return field(object.__getattribute__(spec, "_base"), name, default)


def view_base(spec: Any) -> Any | None:
    """The spec that a view's spec shares its memory with, or None for an ordinary one."""
    return object.__getattribute__(spec, "_base") if type(spec).__name__ == "_ViewSpec" else None


def storage_base(spec: Any) -> tuple[Any, int] | None:
    """(spec, offset in bytes) of the storage that this one was asked to share, under its names in 1.5 and in 1.4."""
    if type(spec).__name__ != "_ViewSpec" and hasattr(spec, "storage_base"):
        base = spec.storage_base  # `inplace_base` is only another name for it here
        return None if base is None else (base, int(getattr(spec, "storage_base_offset", 0) or 0))
    base = field(spec, "storage_base")
    if base is not None:
        return base, int(field(spec, "storage_base_offset", 0) or 0)
    try:
        base = field(spec, "inplace_base")
    except Exception:  # 1.5 asserts that the offset is zero
        base = None
    return (base, 0) if base is not None else None


def is_planned(spec: Any) -> bool:
    return field(spec, "mem_id") is not None and field(spec, "mem_offset") is not None


@cache
def dtype_name(dtype: object) -> str:
    """The short name of a ``torch.dtype``. Raises InputError for one that no program can hold."""
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise InputError(f"a tensor of dtype {name}, which no program can hold")
    return _DTYPES[name]


class Facts(NamedTuple):
    """What of a spec goes into a tensor object, read in one go."""

    mem_id: Any
    mem_offset: Any
    shape: Any
    dim_order: Any
    scalar_type: Any
    shape_dynamism: Any


def facts_of(spec: Any) -> Facts:
    """The facts of a spec, of a view's spec as well."""
    if type(spec).__name__ == "_ViewSpec":
        own, base = object.__getattribute__(spec, "_self_fields"), facts_of(object.__getattribute__(spec, "_base"))
        names = zip(Facts._fields, base, strict=True)
        return Facts(*[object.__getattribute__(spec, name) if name in own else b for name, b in names])
    return Facts(
        spec.mem_id, spec.mem_offset, spec.shape, spec.dim_order, spec.scalar_type, spec.shape_dynamism
    )  # fmt: skip


def placement_of(facts: Facts, what: str) -> Placement:
    """The bytes that the plan gives to a spec. Raises InputError when they are not numbers."""
    arena, offset = facts.mem_id, facts.mem_offset
    if arena is None or offset is None:
        return UNPLANNED
    try:
        return Planned(int(arena), int(offset))
    except Exception:
        raise InputError(f"{what}: planned at {arena}+{offset}, which is not a number of bytes") from None


def _sizes_of(shape: Any, what: str) -> tuple[int, ...]:
    """The sizes of a spec, upper bounds where they are symbols. Raises InputError where there is no bound."""
    for size in shape:
        if type(size) is not int:
            return tuple(_bound(s, what) for s in shape)
    return tuple(shape)


def _bound(size: Any, what: str) -> int:
    if isinstance(size, int):
        return size
    from executorch.exir.sym_util import eval_upper_bound

    try:
        return int(eval_upper_bound(size))
    except Exception:
        raise InputError(f"{what}: the size {size} has no upper bound") from None


def tensor_of(
    facts: Facts,
    what: str,
    placement: Placement,
    *,
    name: str | None,
    fqn: str | None = None,
    initial: int | None = None,
    data: Any | None = None,
) -> Tensor:
    """The tensor object that a spec describes, at the given place.

    ``what`` names it in messages; ``data`` is the real tensor of a constant or buffer, whose layout the emitter takes.
    """
    if data is None:
        order = tuple(map(int, facts.dim_order))
    else:
        stride = (data if _is_dense(data) else data.contiguous()).stride()
        # Equal strides keep their order, as in executorch's `dim_order_from_stride`.
        order = tuple(sorted(range(len(stride)), key=stride.__getitem__, reverse=True))
    return Tensor(
        dtype_name(facts.scalar_type),
        _sizes_of(facts.shape, what),
        placement,
        _DYNAMISMS[int(facts.shape_dynamism)],
        initial,
        fqn,
        None if order == _CONTIGUOUS[len(order)] else order,
        name=name,
    )


#: Bytes that are compared at a time.
_PIECE: Final = 1 << 20


class Contents:
    """Numbers for data of a program, as the emitter counts them: equal bytes are kept once, entry 0 is reserved."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes, bytes], list[tuple[int, Any]]] = {}
        self.count = 1

    def number(self, tensor: Any | None) -> int:
        """The entry that holds the bytes of a tensor, a new one if no equal bytes are known (or none can be read)."""
        storage = _storage(tensor)
        if storage is None:
            return self._next()
        pointer, nbytes = storage.data_ptr(), storage.nbytes()
        # Comparing all weights with each other would cost more than the analysis; ends that differ settle it.
        ends = min(nbytes, 64)
        head = ctypes.string_at(pointer, ends) if ends else b""
        tail = ctypes.string_at(pointer + nbytes - ends, ends) if ends else b""
        bucket = self._known.setdefault((nbytes, head, tail), [])
        for index, other in bucket:
            if _same_bytes(storage, other):
                return index
        index = self._next()
        bucket.append((index, storage))
        return index

    def _next(self) -> int:
        index = self.count
        self.count += 1
        return index


def _storage(tensor: Any | None) -> Any | None:
    """The bytes that the emitter would write for a tensor, or None where they cannot be read."""
    if tensor is None:
        return None
    try:
        if not _is_dense(tensor):
            tensor = tensor.contiguous()
        if tensor.nbytes != tensor.untyped_storage().nbytes():
            tensor = tensor.clone()
        storage = tensor.untyped_storage()
        if storage.device.type != "cpu":
            return None
        storage.data_ptr()
    except Exception:  # fake tensors have no bytes
        return None
    return storage


def _is_dense(tensor: Any) -> bool:
    """Whether the emitter keeps a tensor's layout instead of making it contiguous."""
    import torch

    return bool(tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last))


def _same_bytes(a: Any, b: Any) -> bool:
    first, second, nbytes = a.data_ptr(), b.data_ptr(), a.nbytes()
    if first == second:
        return True
    # In pieces: a weight may be large. (`torch.equal` would set all threads of torch going.)
    return all(
        ctypes.string_at(first + at, min(_PIECE, nbytes - at))
        == ctypes.string_at(second + at, min(_PIECE, nbytes - at))
        for at in range(0, nbytes, _PIECE)
    )


_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+?)\s*$')


class Origins:
    """Reads where a node comes from in the user's model."""

    def __init__(self) -> None:
        self._frames: dict[str, tuple[str | None, int | None, str | None, str | None]] = {}

    def of(self, node: Any, path: str, index: int | None = None) -> Origin:
        """The origin of a node in the graph at ``path``; ``index`` is that of its instruction."""
        file, line, source, function = self._last_frame(node)
        return Origin(node.name, path, file, line, source, function, index)

    def _last_frame(self, node: Any) -> tuple[str | None, int | None, str | None, str | None]:
        trace = node.meta.get("stack_trace")
        if not trace and is_write_back(node):
            # The exporter makes write-backs itself; the value that is written tells the line.
            value = node.args[1]
            trace = value.meta.get("stack_trace") if hasattr(value, "meta") else None
        if not trace and getattr(node.target, "__name__", None) == "executorch_call_delegate":
            trace = _first_trace_of_delegate(node)
        if not isinstance(trace, str):
            return None, None, None, None
        known = self._frames.get(trace)
        if known is None:
            known = self._frames[trace] = _parse(trace)
        return known


def _first_trace_of_delegate(node: Any) -> str | None:
    """Where the first operator that a delegate has taken over comes from."""
    name = getattr(node.args[0], "target", None) if node.args else None
    lowered = getattr(node.graph.owning_module, name, None) if isinstance(name, str) else None
    original = getattr(getattr(lowered, "original_module", None), "graph", None)
    traces = (n.meta.get("stack_trace") for n in getattr(original, "nodes", ()) if n.op == "call_function")
    return next((t for t in traces if isinstance(t, str)), None)


#: Packages whose frames tell nothing of the user's model.
_LIBRARIES: Final = re.compile(r"[\\/](site|dist)-packages[\\/](torch|torchao|executorch)[\\/]")


def _parse(trace: str) -> tuple[str | None, int | None, str | None, str | None]:
    """(file, line, source text, function) of the innermost frame of the model: tracing adds code that it made, and
    modules of torch call functions. A trace without such a frame tells its innermost file."""
    lines = trace.splitlines()
    found: tuple[str | None, int | None, str | None, str | None] = (None, None, None, None)
    for i in range(len(lines) - 1, -1, -1):
        match = _FRAME.match(lines[i])
        if not match or match[1].startswith("<"):
            continue
        source = lines[i + 1].strip() if i + 1 < len(lines) else ""
        frame = (match[1], int(match[2]), source or None, match[3])
        if not _LIBRARIES.search(match[1]):
            return frame
        found = frame if found[0] is None else found
    return found


def is_write_back(node: Any) -> bool:
    """Whether a node is ``copy_`` onto a placeholder, which is how new state reaches its buffer."""
    if node.op != "call_function" or len(node.args) < 2:
        return False
    schema = getattr(node.target, "_schema", None)
    target = node.args[0]
    return schema is not None and schema.name == "aten::copy_" and getattr(target, "op", None) == "placeholder"
