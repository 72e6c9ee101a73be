"""Requests to share storage that a planned graph makes, and what is wrong with them.

A pass asks with ``node.meta["_share_alloc_with_arg_idx"]`` (and ``"_shared_alloc_offset"`` from ExecuTorch 1.5 on); the
planning pass turns that into ``TensorSpec.storage_base`` and ``storage_base_offset``, in 1.4 into ``inplace_base``.
Releases differ in what they refuse and what they pass over in silence, so each request is looked at here once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hazard.frontends.fx_specs import Origins, field, is_planned, is_spec, storage_base, view_base
from hazard.program import Obstacle

_INDEX = "_share_alloc_with_arg_idx"
_OFFSET = "_shared_alloc_offset"


def storage_faults(module: Any, path: str, origins: Origins, *, failed: bool = False) -> list[Obstacle]:
    """What cannot be as it was asked for, in the graph of ``module`` and all graphs below it.

    ``failed``: the planner gave up on these graphs, so what it is known to refuse counts as well.
    """
    return [
        Obstacle("storage", what, origins.of(node, place), (node.name,))
        for graph, place, in_branch in _graphs(module, path)
        for node, what in _graph_faults(graph, failed=failed, in_branch=in_branch)
    ]


#: Which arguments of a higher-order operator are graphs, and what they are called in paths.
_PARTS = {
    "cond": {1: "true", 2: "false"},
    "map_impl": {0: "body"},
    "scan": {0: "body"},
    "while_loop": {0: "test", 1: "body"},
}


def _graphs(module: Any, path: str, in_branch: bool = False) -> Iterator[tuple[Any, str, bool]]:
    """(graph, path, whether its placeholders have no memory of their own) of a module and all modules below it."""
    yield module.graph, path, in_branch
    for node in module.graph.nodes:
        operator = getattr(node.target, "_name", None) if node.op == "call_function" else None
        for index, part in _PARTS.get(operator or "", {}).items():
            name = getattr(node.args[index], "target", None)
            child = getattr(module, name, None) if isinstance(name, str) else None
            if hasattr(child, "graph"):
                yield from _graphs(child, f"{path}/{node.name}/{part}", operator == "cond")


def _graph_faults(graph: Any, *, failed: bool, in_branch: bool) -> Iterator[tuple[Any, str]]:
    seen: set[int] = set()
    for node in graph.nodes:
        if getattr(node.target, "__name__", None) == "alloc":
            continue  # it has the spec of the call that it allocates for, which is what the model knows
        if not failed and not _shares(node):
            continue
        for what in _node_faults(node, seen):
            yield node, what
        base = _asked_base(node) if failed else None
        if base is not None and view_base(base.meta.get("spec")) is not None:
            yield node, f"{node.name} shares the storage of {base.name}, which is a view: the planner gives it none"
        elif base is not None and in_branch and base.op == "placeholder":
            yield node, f"{node.name} shares the storage of {base.name}, which belongs to the caller of the branch"


def _shares(node: Any) -> bool:
    """Whether a node asks to share storage, or has a spec that does."""
    meta = node.meta
    if _INDEX in meta or _OFFSET in meta:
        return True
    spec = meta.get("spec")
    return is_spec(spec) and storage_base(spec) is not None


def _asked_base(node: Any) -> Any | None:
    index = node.meta.get(_INDEX)
    if not isinstance(index, int) or not 0 <= index < len(node.args):
        return None
    base = node.args[index]
    return base if is_spec(getattr(base, "meta", {}).get("spec")) else None


def _node_faults(node: Any, seen: set[int]) -> Iterator[str]:
    index, offset = node.meta.get(_INDEX), node.meta.get(_OFFSET)
    spec = node.meta.get("spec")
    if index is None:
        if offset is not None:
            yield f"{node.name} asks for byte {offset} of shared storage, but names no base"
    elif problem := _wrong_base(node, index, offset, spec):
        yield f"{node.name} {problem}"
        return
    if not is_spec(spec) or id(spec) in seen:
        return
    seen.add(id(spec))
    shared = storage_base(spec)
    if shared is None:
        return
    base, start = shared
    if _is_circle(spec):
        yield f"{node.name} lives in storage whose base is, in the end, itself"
        return
    size, room = _nbytes(spec), _allocated(base)
    if start < 0 or (size is not None and room is not None and start + size > room):
        yield f"{node.name} takes bytes {start} to {start + (size or 0)} of a base of {room} bytes"
    alignment = int(field(spec, "alignment", 0) or 0)
    if is_planned(base) and alignment:
        at = field(base, "mem_offset")
        if isinstance(at, int) and (at + start) % alignment:
            where = f"{node.name} starts at byte {start} of a base at offset {at}"
            yield f"{where}: {at + start} is no multiple of {alignment}"
    elif alignment and start % alignment:
        where = f"{node.name} starts at byte {start} of a base that begins at a multiple of {alignment}"
        yield f"{where}: {start} is none"
    elif not is_planned(base) and is_planned(spec):
        yield f"{node.name} lives in the storage of a base that has no memory of its own"


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
