"""Requests to share storage that a planned graph makes, and what is wrong with them.

A pass asks with ``node.meta["_share_alloc_with_arg_idx"]`` (and ``"_shared_alloc_offset"`` from ExecuTorch 1.5 on); the
planning pass turns that into ``TensorSpec.storage_base`` and ``storage_base_offset``, in 1.4 into ``inplace_base``.
Releases differ in what they refuse and what they pass over in silence, so each request is looked at here once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hazard.frontends.fx_specs import Origins, field, is_planned, is_spec, storage_base
from hazard.program import Obstacle

_INDEX = "_share_alloc_with_arg_idx"
_OFFSET = "_shared_alloc_offset"


def storage_faults(module: Any, path: str, origins: Origins) -> list[Obstacle]:
    """What cannot be as it was asked for, in the graph of ``module`` and all graphs below it."""
    return list(_faults(module, path, origins))


def _faults(module: Any, path: str, origins: Origins) -> Iterator[Obstacle]:
    seen: set[int] = set()
    for node in module.graph.nodes:
        for what, names in _node_faults(node, seen):
            yield Obstacle("storage", what, origins.of(node, path), names)
    for name, child in module.named_children():
        if type(child).__name__.startswith("GraphModule") or hasattr(child, "graph"):
            yield from _faults(child, f"{path}/{name}", origins) if hasattr(child, "named_children") else ()


def _node_faults(node: Any, seen: set[int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    index, offset = node.meta.get(_INDEX), node.meta.get(_OFFSET)
    spec = node.meta.get("spec")
    if index is None:
        if offset is not None:
            yield f"{node.name} asks for byte {offset} of shared storage, but names no base", (node.name,)
    elif problem := _wrong_base(node, index, offset, spec):
        yield f"{node.name} {problem}", (node.name,)
        return
    if not is_spec(spec) or id(spec) in seen:
        return
    seen.add(id(spec))
    shared = storage_base(spec)
    if shared is None:
        return
    base, start = shared
    names = (node.name,)
    if _is_circle(spec):
        yield f"{node.name} lives in storage whose base is, in the end, itself", names
        return
    size, room = _nbytes(spec), _allocated(base)
    if start < 0 or (size is not None and room is not None and start + size > room):
        yield f"{node.name} takes bytes {start} to {start + (size or 0)} of a base of {room} bytes", names
    alignment = int(field(spec, "alignment", 0) or 0)
    if is_planned(base) and alignment:
        at = field(base, "mem_offset")
        if isinstance(at, int) and (at + start) % alignment:
            yield (
                f"{node.name} starts at byte {start} of a base at offset {at}: {at + start} is no multiple of"
                f" {alignment}"
            ), names
    elif not is_planned(base) and is_planned(spec):
        yield f"{node.name} lives in the storage of a base that has no memory of its own", names


def _wrong_base(node: Any, index: Any, offset: Any, spec: Any) -> str | None:
    """What is wrong with a request itself."""
    if not isinstance(index, int) or isinstance(index, bool):
        return f"shares the storage of argument {index!r}, which is no number"
    if offset is not None and (not isinstance(offset, int) or isinstance(offset, bool)):
        return f"asks for byte {offset!r} of shared storage, which is no number"
    if not 0 <= index < len(node.args):
        return f"shares the storage of argument {index}, but has {len(node.args)} arguments"
    base = node.args[index]
    if not is_spec(getattr(base, "meta", {}).get("spec")):
        return f"shares the storage of argument {index}, which is no tensor"
    if isinstance(spec, list | tuple):
        return f"shares the storage of argument {index}, but has {len(spec)} results"
    return None


def _is_circle(spec: Any) -> bool:
    seen = {id(spec)}
    step = storage_base(spec)
    while step is not None:
        if id(step[0]) in seen:
            return True
        seen.add(id(step[0]))
        step = storage_base(step[0])
    return False


def _nbytes(spec: Any) -> int | None:
    try:
        return int(spec.nbytes())
    except Exception:  # symbolic sizes
        return None


def _allocated(spec: Any) -> int | None:
    try:
        return int(field(spec, "allocated_memory"))
    except Exception:
        return None
