"""Which value every buffer must hold at the end of a call, by the export signature.

``to_executorch`` rewrites the signature of the edge program: targets with a ``copy_`` come first and the others after
them, and that list of values is laid over the targets in their original order, so the planned signature pairs buffers
with values of others. The order of the targets is right, and which of them have a ``copy_`` is seen in the graph; from
both the pairs can be worked out again (``exir/passes/insert_write_back_for_buffers_pass.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hazard.frontends.fx_specs import is_write_back


@dataclass(slots=True)
class States:
    """``values``: fully qualified name of a buffer -> node of its new state. ``outputs``: what the user gets, in order.

    ``doubts``: why the state of some buffer is not known.
    """

    values: dict[str, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def final_states(method: str, graph: Any, results: Sequence[Any], planned: Any, edge: Any) -> States:
    """The states at the end of a call.

    ``results`` are those of the output node. ``planned`` is the signature that the planned program carries; ``edge``
    that of the edge program, taken before it was rewritten, or None.
    """
    states = States()
    if planned is None:
        states.outputs = list(results)
        if any(is_write_back(n) for n in graph.nodes):
            states.doubts.append(f"{method}: without a signature, state that the graph writes is not known")
        return states
    specs = list(planned.output_specs)
    kinds = [s.kind.name for s in specs]
    mutations = [s for s in specs if s.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION")]
    placeholders = {n.target: n for n in graph.nodes if n.op == "placeholder"}
    node_of = {fqn: placeholders[t] for t, fqn in planned.inputs_to_buffers.items() if t in placeholders}
    written_to = _targets_of_copies(planned, graph)
    copies: dict[Any, Any] = {n.args[0]: n for n in graph.nodes if is_write_back(n)}

    missing = [s for s in mutations if written_to.get(s.target) not in copies]
    written = len(mutations) - len(missing)
    values: dict[int, Any] = {}  # id of a spec -> node
    if len(results) == len(specs):
        # Values that were copied come first, then the rest in the order of the signature.
        for s, node in zip(missing, results[written : len(mutations)], strict=True):
            values[id(s)] = node
        # The emitter drops results by the place of a spec, although the results were put into another order.
        states.outputs = [r for r, k in zip(results, kinds, strict=True) if k != "BUFFER_MUTATION"]
    else:
        # The emitter has taken the new states off the output node; their names are all that is left.
        if len(results) != kinds.count("USER_OUTPUT") + kinds.count("USER_INPUT_MUTATION") + _others(kinds):
            states.doubts.append(f"{method}: the graph returns {len(results)} values, its signature {len(specs)}")
        names = [s.arg.name for s in mutations][written:]
        for s, name in zip(missing, names, strict=True):
            values[id(s)] = placeholders.get(name) or _in_place_node(graph, name)
        states.outputs = list(results)
    if edge is not None:
        _agree_with_edge(method, missing, values, placeholders, edge, states)
    for s in mutations:
        if s.kind.name != "BUFFER_MUTATION":
            continue
        target = written_to.get(s.target)
        if target in copies:
            # A copy that went elsewhere leaves the buffer without its new value.
            copy = copies[target]
            states.values[s.target] = copy if target is node_of.get(s.target) else copy.args[1]
            continue
        node = values.get(id(s))
        if node is None or not _could_be_state(node, node_of.values()):
            states.doubts.append(f"{method}: the planned signature does not tell the new state of buffer {s.target}")
            continue
        states.values[s.target] = node
    return states


def _targets_of_copies(planned: Any, graph: Any) -> dict[str, Any]:
    """The placeholder that a write-back goes to, by the target that the signature names.

    Buffers and inputs are looked up in one table, so an input called as a buffer takes the buffer's write-back.
    """
    found = {}
    nodes = [n for n in graph.nodes if n.op == "placeholder"]
    for spec, node in zip(planned.input_specs, nodes, strict=False):
        if spec.kind.name in ("BUFFER", "CONSTANT_TENSOR", "PARAMETER", "CUSTOM_OBJ"):
            found[spec.target] = node
        elif spec.kind.name == "USER_INPUT" and type(spec.arg).__name__ == "TensorArgument":
            found[spec.arg.name] = node
    return found


def _in_place_node(graph: Any, name: str) -> Any | None:
    """The in-place call that had a name when write-backs were inserted.

    Passes name all nodes anew, in the order of the graph. The pass that makes calls work in place goes through the
    graph backwards, so the last of the calls that it makes has the first of the names; it leaves no stack trace.
    """
    base, number = _numbered(name)
    calls = [n for n in graph.nodes if _numbered(n.name)[0] == base and _changes_operand(n)]
    made = [n for n in calls if not n.meta.get("stack_trace")]
    named = [n for n in calls if n.meta.get("stack_trace")] + made[::-1]
    return named[number] if number < len(named) else None


def _numbered(name: str) -> tuple[str, int]:
    """``x_2`` is the third node that was to be called ``x``."""
    base, _, number = name.rpartition("_")
    return (base, int(number)) if base and number.isdigit() else (name, 0)


def _others(kinds: Sequence[str]) -> int:
    return sum(k not in ("USER_OUTPUT", "USER_INPUT_MUTATION", "BUFFER_MUTATION") for k in kinds)


def _agree_with_edge(
    method: str, missing: Sequence[Any], values: dict[int, Any], placeholders: dict[str, Any], edge: Any, states: States
) -> None:
    """Takes the word of the edge signature where it names a placeholder: names of these never change."""
    said = {(s.kind.name, s.target): getattr(s.arg, "name", None) for s in edge.output_specs}
    for s in missing:
        name = said.get((s.kind.name, s.target))
        if name is None:
            states.doubts.append(f"{method}: the edge signature does not mention {s.target}")
        elif name in placeholders:
            values[id(s)] = placeholders[name]


def _could_be_state(node: Any, buffers: Any) -> bool:
    """Whether a value without a ``copy_`` is one that is left without: a buffer, or one changed in place."""
    known = set(buffers)
    while node not in known:
        if not _changes_operand(node):
            return False
        node = node.args[0]
    return True


def _changes_operand(node: Any) -> bool:
    """Whether a node is a call that works in place on its first argument."""
    if getattr(node, "op", None) != "call_function" or not node.args or not hasattr(node.args[0], "op"):
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
