"""Puts state and in-place results right in a graph, before it is planned.

By the names of a graph every value is what it was when it was made. Write-backs and in-place operators change bytes
under values that have those bytes for their own: views without an instruction, results of operators in place, a
buffer's old state. The repairs, cheapest first:

* a write-back that is missing is added (ExecuTorch drops it where the new state of a buffer is another buffer);
* write-backs are ordered so that none reads a state that an earlier one has replaced;
* what is still read after its bytes were changed is copied before, and so are constants and inputs that an operator
  would change in place although they are no state.

ExecuTorch's own passes that this stands beside: ``exir/passes/insert_write_back_for_buffers_pass.py``,
``exir/passes/reinplace.py``, ``exir/passes/replace_view_copy_with_view_pass.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from hazard.frontends.fx_specs import field, is_spec, is_write_back
from hazard.frontends.fx_state import final_states


def settle_write_backs(graph_module: Any, signature: Any = None) -> list[str]:
    """Repairs a graph and its subgraphs in place; returns what was done, one sentence each.

    ``signature`` is the export signature that the graph is planned with. What it cannot repair is left as it is, for
    the check to find.
    """
    import torch

    done = []
    if signature is not None:
        done += _add_missing(graph_module, signature)
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            done += _order(module.graph)
            results = _mutations(signature) if module is graph_module else 0
            if signature is not None and module is graph_module:
                done += _spare_what_is_not_state(module.graph, signature)
            done += _copy_before_change(module.graph, results)
    if done:
        graph_module.graph.lint()
        for module in graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                module.recompile()
    return done


def _mutations(signature: Any) -> int:
    """How many results of the output node are new states and not what the user gets."""
    if signature is None:
        return 0
    return sum(s.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION") for s in signature.output_specs)


# --- write-backs ------------------------------------------------------------------------------------------------------


def _add_missing(graph_module: Any, signature: Any) -> list[str]:
    import torch

    graph = graph_module.graph
    output = graph.output_node()
    results = list(output.args[0])
    states = final_states("", graph, results, signature, None)
    if states.doubts or len(results) != len(signature.output_specs):
        return []
    placeholders = {n.target: n for n in graph.nodes if n.op == "placeholder"}
    place_of = {fqn: placeholders[t] for t, fqn in signature.inputs_to_buffers.items() if t in placeholders}
    copies: dict[Any, Any] = {n.args[0]: n for n in graph.nodes if is_write_back(n)}
    added = []
    for fqn, value in states.values.items():
        buffer = place_of.get(fqn)
        if buffer is None or buffer in copies or _root(value) is buffer:
            continue
        with graph.inserting_before(output):
            copy = graph.call_function(torch.ops.aten.copy_.default, (buffer, value))
        copy.meta.update(buffer.meta)
        copies[buffer] = copy
        added.append(f"the new state of {fqn} is written back")
    if added:
        # The new states come first, those that are copied before those that are not, each in the signature's order.
        targets = [
            place_of.get(s.target) if s.kind.name == "BUFFER_MUTATION" else placeholders.get(s.target)
            for s in signature.output_specs
            if s.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION")
        ]
        count = len(targets)
        kept = [states.values[s.target] for s in signature.output_specs if _is_kept(s, place_of, copies)]
        output.args = ((*(copies[t] for t in targets if t in copies), *kept, *results[count:]),)
    return added


def _is_kept(spec: Any, place_of: dict[str, Any], copies: dict[Any, Any]) -> bool:
    return spec.kind.name == "BUFFER_MUTATION" and place_of.get(spec.target) not in copies


def _order(graph: Any) -> list[str]:
    """Moves write-backs so that each comes after those that read what it replaces, as far as that is possible."""
    copies = [n for n in graph.nodes if is_write_back(n)]
    if len(copies) < 2:
        return []
    by_target = {n.args[0]: n for n in copies}
    if len(by_target) != len(copies) or not _in_a_row(copies):
        return []
    after: dict[Any, list[Any]] = {n: [] for n in copies}
    for n in copies:
        replaced = by_target.get(_root(n.args[1]))
        if replaced is not None and replaced is not n:
            after[replaced].append(n)
    ordered: list[Any] = []
    left = list(copies)
    while left:
        ready = next((n for n in left if all(r in ordered for r in after[n])), left[0])
        ordered.append(ready)
        left.remove(ready)
    if ordered == copies:
        return []
    for before, n in pairwise(ordered):
        before.append(n)
    return ["write-backs are put in an order in which each reads what it is meant to read"]


def _in_a_row(copies: list[Any]) -> bool:
    node = copies[0]
    for expected in copies:
        if node is not expected:
            return False
        node = node.next
    return True


# --- values whose bytes change ----------------------------------------------------------------------------------------


def _changed_arguments(node: Any) -> list[int]:
    """Positions of the arguments that a call of an ATen operator in place changes."""
    if node.op != "call_function":
        return []
    return [i for i in _written_by(node.target) if i < len(node.args) and hasattr(node.args[i], "op")]


@cache
def _written_by(target: Any) -> tuple[int, ...]:
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.name.startswith("aten::") or not schema.name.endswith("_"):
        return ()
    return tuple(i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write)


def _root(node: Any) -> Any:
    """The node whose bytes a value has: through views without an instruction and operators in place."""
    from executorch.exir import memory

    while getattr(node, "op", None) == "call_function":
        if node.target is memory.view:
            node = node.args[0]
        elif changed := _changed_arguments(node):
            node = node.args[changed[0]]
        else:
            break
    return node


def _spare_what_is_not_state(graph: Any, signature: Any) -> list[str]:
    """Operators in place work on a copy where they would write to a constant, a parameter or the caller's input."""
    state = {s.target for s in signature.output_specs if s.kind.name == "USER_INPUT_MUTATION"}
    changing = {s.target for s in signature.output_specs if s.kind.name == "BUFFER_MUTATION"}
    state |= {t for t, fqn in signature.inputs_to_buffers.items() if fqn in changing}
    done = []
    for node in list(graph.nodes):
        changed = _changed_arguments(node)
        if not changed or is_write_back(node):
            continue
        root = _root(node.args[changed[0]])
        if root.op == "placeholder" and root.target not in state and node.users:
            copy = copied_value(graph, node.args[changed[0]], node)
            if copy is not None:
                _replace(node, (changed[0],), copy)
                done.append(f"{node.name} works on a copy of {root.name}, which is no state")
    return done


def _copy_before_change(graph: Any, states: int) -> list[str]:
    order = {n: i for i, n in enumerate(graph.nodes)}
    changes: dict[Any, list[Any]] = {}  # root -> the nodes that change its bytes
    for node in order:
        changed = _changed_arguments(node)
        # Without a name for the new value nobody can tell old from new; a write-back needs none.
        if changed and (node.users or is_write_back(node)):
            changes.setdefault(_root(node.args[changed[0]]), []).append(node)
    if not changes:
        return []
    copies: dict[tuple[Any, Any], Any] = {}
    done: dict[str, None] = {}
    for user in list(order):
        for at, value in list(_arguments(user, states)):
            if at == (0,) and is_write_back(user):
                continue  # it replaces what is there, whoever has changed that before
            root = _root(value)
            first = next(
                (c for c in changes.get(root, ()) if _is_stale(order, value, c, user, at)),
                None,
            )
            if first is None:
                continue
            copy = copies.get((value, first))
            if copy is None:
                copy = copied_value(graph, value, first)
                if copy is None:
                    continue
                copies[value, first] = copy
                # What is no longer the change's own order does not matter: the copy stands right before it.
                order[copy] = order[first]
                done[f"{value.name} is copied before {first.name} changes its bytes"] = None
            _replace(user, at, copy)
    return list(done)


def _is_stale(order: dict[Any, int], value: Any, change: Any, user: Any, at: tuple[Any, ...]) -> bool:
    """Whether the bytes of ``value`` change between its definition and its use as argument ``at`` of ``user``."""
    if not order[value] < order[change] <= order[user]:
        return False
    if change is not user:
        return True
    # A kernel that works in place must not find its operands in the bytes that it writes. Copying a value onto itself
    # does no harm.
    return at != (0,) and not is_write_back(user)


def _arguments(node: Any, states: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, value) of every argument that is a node; new states among the results are left out."""
    from executorch.exir import memory

    if node.target in (memory.alloc, memory.free):
        return

    def walk(thing: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
        if hasattr(thing, "op"):
            yield path, thing
        elif isinstance(thing, list | tuple):
            for i, item in enumerate(thing):
                yield from walk(item, (*path, i))

    for path, value in walk(list(node.args), ()):
        if node.op != "output" or path[1] >= states:
            yield path, value


def _replace(node: Any, path: tuple[Any, ...], value: Any) -> None:
    def put(thing: Any, path: tuple[Any, ...]) -> Any:
        if not path:
            return value
        items = list(thing)
        items[path[0]] = put(items[path[0]], path[1:])
        return tuple(items) if isinstance(thing, tuple) else items

    node.args = tuple(put(list(node.args), path))
    from executorch.exir import memory

    if node.target is memory.view and path == (0,):
        _rebase(node)


def rebase_views(base: Any) -> None:
    """Views without an instruction lie on the memory of ``base``, which has just become what they are views of."""
    from executorch.exir import memory

    for user in list(base.users):
        if user.target is memory.view and user.args[0] is base:
            _rebase(user)


def _rebase(view: Any) -> None:
    from executorch.exir.passes.replace_view_copy_with_view_pass import _ViewSpec

    shape = list(field(view.meta["spec"], "shape"))
    view.meta["spec"] = _ViewSpec(view.args[0].meta["spec"], shape)
    rebase_views(view)


def copied_value(graph: Any, value: Any, before: Any) -> Any | None:
    """A copy of a value, made right before a node; None for what cannot be copied here."""
    import torch
    from executorch.exir import memory
    from executorch.exir.tensor import TensorSpec

    spec = value.meta.get("spec")
    if not is_spec(spec) or int(field(spec, "shape_dynamism")) > 1 or not all(type(s) is int for s in spec.shape):
        return None
    # Where sizes vary these are their bounds, as in every spec by the time of planning.
    shape = torch.Size(field(spec, "shape"))
    own = TensorSpec(field(spec, "scalar_type"), shape, layout=field(spec, "layout"))
    own.stride, own.dim_order = tuple(field(spec, "stride")), field(spec, "dim_order")
    own.shape_dynamism = field(spec, "shape_dynamism")
    with graph.inserting_before(before):
        alloc = graph.call_function(memory.alloc, ((shape, field(spec, "scalar_type")),))
        copy = graph.call_function(torch.ops.aten.clone.out, (value,), {"out": alloc})
    kept = ("val", "stack_trace", "from_node", "nn_module_stack", "source_fn_stack")
    copy.meta = {**{k: value.meta[k] for k in kept if k in value.meta}, "spec": own}
    return copy
