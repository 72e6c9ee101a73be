"""Planned ``torch.fx`` graphs, made into a `hazard.program.Program` whose reads expect what the graphs say.

Emission is modelled, not called: instructions and the values table come out as ExecuTorch's emitter
(``exir/emit/_emitter.py``) would write them, so graphs that it refuses can be checked as well. Where the emitter lets
several graph values share a slot, each has a *name* here, an entry after those of the emitted table, which an
`hazard.program.Alias` ties to the tensor object that its bytes belong to:

* a view without an instruction names its base;
* the result of an in-place operator names its operand, and is what the operator writes;
* the value that a buffer must hold at the end of the call is what the buffer's placeholder means in the next.

torch and executorch are imported when a graph is read, not before.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import Any, Final

from hazard.frontends.fx_specs import (
    UNPLANNED,
    facts_of,
    field,
    is_planned,
    is_spec,
    tensor_of,
)
from hazard.frontends.fx_state import final_states
from hazard.frontends.fx_storage import storage_faults
from hazard.frontends.fx_table import EXTRA, INTS, Jump, Label, Ref, Schema, Shared, Table, constant_value, has_bits
from hazard.program import (
    Alias,
    Arena,
    Constant,
    DelegateCall,
    Free,
    InputError,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    Obstacle,
    Origin,
    Program,
    Scalar,
    Tensor,
    TensorList,
    Value,
)

_Env = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """One method after memory planning.

    ``module`` is the top ``GraphModule``, ``signature`` the export signature that the planned program carries, if any.
    ``exported`` is an ``ExportedProgram`` that holds the data of parameters, buffers and constants, if there is one.
    ``edge_signature`` is a copy of the *edge* program's signature, taken before ``to_executorch`` rewrote it.
    """

    module: Any
    signature: Any = None
    exported: Any = None
    edge_signature: Any = None


def program_from_graphs(
    graphs: Any,
    signature: Any = None,
    name: str = "forward",
    *,
    constant_methods: Mapping[str, Any] | None = None,
    specs: dict[str, dict[int, Any]] | None = None,
) -> Program:
    """The program that planned graphs describe, with the graphs' own meaning.

    ``graphs`` is a `PlannedGraph`, or an ``ExportedProgram`` or ``GraphModule`` after the memory planning pass, or a
    mapping from method names to these. ``signature`` is a copy of the *edge* program's export signature that was taken
    before ``to_executorch``, which rewrites it; for a ``GraphModule`` the signature that it was planned with. With a
    mapping of graphs it is a mapping, too. ``constant_methods`` maps names to what methods without code return.
    ``specs`` is filled with the tensor spec of each slot that has one, by method.

    Raises InputError where a graph holds something that cannot be modelled.
    """
    methods = dict(graphs) if isinstance(graphs, Mapping) else {name: graphs}
    signatures = dict(signature) if isinstance(signature, Mapping) else {name: signature}
    shared = Shared()
    written = []
    for method in sorted(methods):
        planned = _as_planned(methods[method], signatures.get(method), method)
        writer = _MethodWriter(method, planned, shared)
        written.append(writer.build())
        if specs is not None:
            specs[method] = dict(writer.spec_of)
    # The emitter writes constants after all graphs.
    for method, value in (constant_methods or {}).items():
        written.append(_constant_method(method, value, shared))
    return Program(tuple(written))


def _as_planned(graph: Any, signature: Any, name: str) -> PlannedGraph:
    import torch

    if isinstance(graph, PlannedGraph):
        return graph
    if isinstance(graph, torch.export.ExportedProgram):
        return PlannedGraph(graph.graph_module, graph.graph_signature, graph, signature)
    if isinstance(graph, torch.fx.GraphModule):
        return PlannedGraph(graph, signature)
    raise InputError(f"{name}: a {type(graph).__name__} is no planned graph")


def _constant_method(name: str, value: Any, shared: Shared) -> Method:
    import torch
    from torch.utils import _pytree as pytree

    values: list[Value] = []
    for leaf in pytree.tree_leaves(value):
        if not isinstance(leaf, torch.Tensor):
            values.append(constant_value(leaf))
            continue
        from executorch.exir.tensor import TensorSpec

        spec = TensorSpec.from_tensor(leaf, const=True)
        values.append(tensor_of(facts_of(spec), name, Constant(shared.constants.number(leaf)), name=None, data=leaf))
    return Method(name, tuple(values), (), tuple(range(len(values))), ((),), {}, meaning="graph")


#: Releases whose emitter is modelled here.
RELEASES: Final = ("1.4", "1.5")


def _known_releases() -> str:
    return " or ".join(RELEASES)


@cache
def _release_or_none() -> str:
    try:
        return metadata.version("executorch")
    except metadata.PackageNotFoundError:
        return "none"


def release_doubts() -> tuple[str, ...]:
    """Why programs made from graphs may not be what the installed ExecuTorch emits; nothing for a known release."""
    release = _release_or_none()
    if any(release == known or release.startswith(f"{known}.") for known in RELEASES):
        return ()
    return (f"how ExecuTorch {release} emits graphs is not known; hazard knows {_known_releases()}",)


class _Operators:
    """The targets of calls that the emitter treats by name."""

    def __init__(self) -> None:
        import torch

        try:
            from executorch.exir import memory
            from executorch.exir.delegate import executorch_call_delegate
            from executorch.exir.passes.executorch_prim_ops_registry import is_sym_op
        except ImportError as error:
            raise InputError(
                f"graphs need ExecuTorch {_known_releases()}; {_release_or_none()} is here ({error})"
            ) from None

        higher = torch.ops.higher_order
        self.cond, self.map, self.scan = higher.cond, higher.map_impl, higher.scan
        self.while_loop = higher.while_loop
        self.alloc, self.view, self.free = memory.alloc, memory.view, memory.free
        self.delegate = executorch_call_delegate
        self.is_symbolic: Callable[[Any], bool] = is_sym_op
        self.graph_module, self.node = torch.fx.GraphModule, torch.fx.Node


_PLAIN: Final = (int, float, bool, str, type(None))


def _bound(values: Iterable[Any], env: _Env, node: type) -> list[Any]:
    """Arguments with what their nodes stand for; torch's own `map_arg` takes longer than all the rest."""
    result = []
    for value in values:
        kind = type(value)
        if kind is node:
            value = env[value]
        elif kind not in _PLAIN and isinstance(value, list | tuple):
            value = _bound(value, env, node)
        result.append(value)
    return result


class _Signature:
    """What is asked of an export signature; its own properties are made anew each time."""

    def __init__(self, signature: Any) -> None:
        self.buffers = dict(signature.inputs_to_buffers)
        self.names = {
            **signature.inputs_to_lifted_tensor_constants,
            **self.buffers,
            **signature.inputs_to_parameters,
        }
        self.mutated = set(signature.buffers_to_mutate.values())


class _MethodWriter(Table):
    """One method: its values table, its code, and the names that mean something in it."""

    def __init__(self, name: str, planned: PlannedGraph, shared: Shared) -> None:
        super().__init__(name, shared)
        self.name, self.planned, self.module = name, planned, planned.module
        self.operators = _Operators()
        self.signature = _Signature(planned.signature) if planned.signature is not None else None
        self.code: list[Instruction | Jump] = []
        self.emitted = 0
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.delegates: list[str] = []
        self.doubts: list[str] = []
        self.obstacles: list[Obstacle] = []
        self.changes: dict[str, tuple[int, ...]] = {}
        self.buffers: dict[str, Any] = {}  # fully qualified name -> placeholder

    # --- the method ---------------------------------------------------------------------------------------------------

    def build(self) -> Method:
        env: _Env = {}
        graph = self.module.graph
        path = self.name
        end: Any = None
        begins: list[int] = []
        for node in graph.nodes:
            begins.append(self.emitted)
            if node.op == "placeholder":
                env[node] = self._placeholder(node)
            elif node.op == "output":
                end = node
            else:
                self._node(node, env, self.module, path)
        if end is None:
            raise InputError(f"{self.name}: the graph has no output")
        self.note_lives(begins, self.emitted, 0)
        self.obstacles.extend(storage_faults(self.module, path, self.shared.origins))
        self._finish(end, env)
        return self._method()

    def _method(self) -> Method:
        final = self.final
        return Method(
            self.name,
            self.finished(),
            tuple(self.inputs),
            tuple(map(final, self.outputs)),
            (tuple(map(self._resolved, self.code)),),
            self._arenas(),
            tuple(self.delegates),
            "graph",
            self.sizes.ranges(self.planned.exported),
            (*self.doubts, *release_doubts()),
            tuple(self.obstacles),
            tuple(sorted(self.changes.items())),
            self.planned_lives(),
        )

    def _resolved(self, instruction: Instruction | Jump) -> Instruction:
        final = self.final
        if isinstance(instruction, Kernel):
            args = instruction.args
            if max(args, default=0) < EXTRA:
                return instruction
            return Kernel(instruction.operator, tuple(map(final, args)), instruction.origin)
        match instruction:
            case Alias(source, target, origin):
                return Alias(final(source), final(target), origin)
            case Jump(condition, label, origin):
                return JumpFalse(final(condition), label.position, origin)
            case Move(source, target, origin):
                return Move(final(source), final(target), origin)
            case DelegateCall(delegate, args, outputs, origin):
                return DelegateCall(delegate, tuple(map(final, args)), outputs, origin)
            case Free(value, origin):
                return Free(final(value), origin)
        raise TypeError(instruction)

    def _arenas(self) -> dict[int, Arena]:
        meta = self.module.meta
        sizes = meta.get("non_const_buffer_sizes")
        if sizes is None:
            raise InputError(f"{self.name}: the graph has no arena sizes: run the memory planning pass first")
        devices = {}
        for item in meta.get("non_const_buffer_device") or ():
            kind = getattr(item, "device_type", None)
            if kind is not None and int(kind):
                devices[int(item.buffer_idx)] = f"cuda:{int(getattr(item, 'device_index', 0) or 0)}"
        try:
            return {i: Arena(int(size), devices.get(i)) for i, size in enumerate(sizes) if i}
        except Exception:
            raise InputError(f"{self.name}: the arenas have sizes {list(sizes)}, which are not numbers") from None

    # --- inputs and state ---------------------------------------------------------------------------------------------

    def _placeholder(self, node: Any) -> Ref:
        spec = node.meta.get("spec")
        if not is_spec(spec):
            ref = self.constant(spec)
            self.inputs.append(ref.index)
            return ref
        fqn, is_buffer, mutable = None, False, False
        if self.signature is not None:
            fqn = self.signature.names.get(node.target)
            is_buffer = node.target in self.signature.buffers
            mutable = is_buffer and (fqn in self.signature.mutated or is_planned(spec))
        from_caller = fqn is None if self.signature is not None else not field(spec, "const")
        data = self._data(fqn) if fqn is not None else None
        const = bool(node.meta.get("et_init_buffer")) if mutable else not from_caller
        external = node.meta.get("constant_tag") is not None
        tensor = self.tensor(spec, node.name, const=const, fqn=fqn, external=external, data=data)
        if mutable and tensor.planned and tensor.initial is None and data is not None and has_bits(data):
            tensor = replace(tensor, lost_value=True)
        ref = self.entry(tensor)
        self.remember(spec, ref.index)
        self.defined.add(ref.index)
        self.note_sizes(ref, node.meta.get("val"))
        if from_caller:
            self.sizes.bound(node.meta.get("val"), tensor.sizes)
            self.inputs.append(ref.index)
        elif is_buffer and fqn is not None:
            self.buffers[fqn] = node
        return ref

    def _data(self, fqn: str) -> Any | None:
        """The real tensor of a parameter, buffer or constant, where the export carries it."""
        exported = self.planned.exported
        if exported is None:
            return None
        if fqn in exported.state_dict:
            return exported.state_dict[fqn]
        if fqn in exported.constants:
            return exported.constants[fqn]
        return next((b for n, b in exported.named_buffers() if n == fqn), None)

    def _finish(self, end: Any, env: _Env) -> None:
        """The outputs, and what every buffer must hold when the call ends."""
        from torch.utils import _pytree as pytree

        origin = self.shared.origins.of(end, self.name)
        results = pytree.tree_leaves(end.args)
        planned = self.planned
        states = final_states(self.name, self.module.graph, results, planned.signature, planned.edge_signature)
        self.doubts.extend(states.doubts)
        pairs: list[tuple[Ref, Ref]] = []  # buffer, new state
        rebound = set()
        for fqn, node in states.values.items():
            placeholder = self.buffers.get(fqn)
            if placeholder is None or not isinstance(env.get(node), Ref):
                self.doubts.append(f"{self.name}: the new state of buffer {fqn} is not in the graph")
                continue
            buffer, new = env[placeholder], env[node]
            if buffer != new:
                pairs.append((buffer, new))
                rebound.add(buffer)
        for result in states.outputs:
            value = env[result] if hasattr(result, "op") else result
            ref = value if isinstance(value, Ref) else self.constant(value)
            if ref in rebound:
                # The old state is returned: it means what it meant in the call, not what it will mean in the next.
                ref = self.alias(ref, result.name, origin)
            self.outputs.append(ref.index)
        # A buffer's new state may be the old state of another, which must be asked before that one is bound anew.
        sources = [self.alias(new, self._name(new), origin) if new in rebound else new for _, new in pairs]
        for (buffer, _), source in zip(pairs, sources, strict=True):
            self.state_alias(source, buffer, origin)

    def _name(self, ref: Ref) -> str:
        value = self.value(ref)
        return (value.name if isinstance(value, Tensor) else None) or ""

    # --- nodes --------------------------------------------------------------------------------------------------------

    def alias(self, source: Ref, name: str, origin: Origin) -> Ref:
        """A new name for what ``source`` means now, on the same tensor object."""
        if not isinstance(self.value(source), Tensor):
            return source
        ref = self.name_for(source, name)
        self.state_alias(source, ref, origin)
        return ref

    def state_alias(self, source: Ref, target: Ref, origin: Origin) -> None:
        """Appends an alias, which is no instruction of the emitted program."""
        self.code.append(Alias(source.index, target.index, replace(origin, index=None)))

    def emit(self, instruction: Instruction | Jump) -> None:
        """Appends an instruction that is emitted; its origin is to come from `here`."""
        assert instruction.origin is not None
        assert instruction.origin.index == self.emitted
        self.code.append(instruction)
        self.emitted += 1

    def kernel(self, operator: str, args: tuple[int, ...], origin: Origin) -> None:
        self.emit(Kernel(operator, args, self.here(origin)))

    def here(self, origin: Origin) -> Origin:
        """The origin of the next instruction that is emitted."""
        o = origin
        if o.index == self.emitted:
            return o
        return Origin(o.node, o.path, o.file, o.line, o.source, o.function, self.emitted)

    def place(self, label: Label) -> None:
        label.position = len(self.code)

    def _node(self, node: Any, env: _Env, module: Any, path: str) -> None:
        if node.op == "get_attr":
            env[node] = self._attribute(node, module)
            return
        if node.op != "call_function":
            raise InputError(f"{path}: node {node.name} is a {node.op}, which no program can hold")
        if node.target is self.operators.alloc:
            env[node] = self._alloc(node)
            return
        env[node] = made = self._call(node, env, module, path)
        self.note_sizes(made, node.meta.get("val"))

    def _attribute(self, node: Any, module: Any) -> Any:
        import torch

        found = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            return found
        from executorch.exir.tensor import TensorSpec

        spec = TensorSpec.from_tensor(found, const=True)
        ref = self.entry(self.tensor(spec, node.name, const=True, data=found))
        self.defined.add(ref.index)
        return ref

    def _call(self, node: Any, env: _Env, module: Any, path: str) -> Any:
        ops, target = self.operators, node.target
        args = _bound(node.args, env, ops.node)
        kwargs = dict(zip(node.kwargs, _bound(node.kwargs.values(), env, ops.node), strict=True))
        if target is python_operator.getitem:
            return args[0][args[1]]
        # Nearly always the node becomes the next instruction.
        origin = self.shared.origins.of(node, path, self.emitted)
        shape = self.shared.schemas.get(target)
        if shape is not None:
            return self._operator(node, shape, args, kwargs, origin)
        if target is ops.view:
            return self._view(node, args, origin)
        if target is ops.free:
            slot = self.slots.get(id(node.args[0]))
            if slot is not None:
                self.emit(Free(slot, self.here(origin)))
            return None
        if target is ops.cond:
            return self._cond(node, args, path, origin)
        if target is ops.map:
            return self._map(node, args, path, origin)
        if target is ops.scan:
            return self._scan(node, args, path, origin)
        if target is ops.while_loop:
            return self._while(node, args, path, origin)
        if target is ops.delegate:
            return self._delegate(node, args, origin)
        if getattr(target, "_schema", None) is None:
            raise InputError(f"{path}: node {node.name} calls {target}, which no program can hold")
        shape = self.shared.schemas[target] = Schema(target._schema)
        return self._operator(node, shape, args, kwargs, origin)

    def _alloc(self, node: Any) -> Any:
        spec = node.meta.get("spec")
        if isinstance(spec, list | tuple):
            return [self.spec_entry(s, node.name) for s in spec]
        # Nearly always one call writes it, whose name it then has.
        users = node.users
        return self.spec_entry(spec, next(iter(users)).name if len(users) == 1 else node.name)

    def _view(self, node: Any, args: Sequence[Any], origin: Origin) -> Ref:
        spec = node.meta.get("spec")
        static = int(field(spec, "shape_dynamism")) == 0
        root = self.root(spec)
        held = is_planned(spec) or (root is not None and root.is_constant)
        base: Ref = args[0]
        if static and held:
            fresh = id(spec) not in self.slots
            ref = self.spec_entry(spec, node.name)
            if not fresh:
                return self.alias(base, node.name, origin)
            self.state_alias(base, ref, origin)
            self.defined.add(ref.index)
            return ref
        sizes = self.constant(args[1], INTS)
        ref = self.spec_entry(spec, node.name)
        self.defined.add(ref.index)
        self.kernel("executorch_prim::et_view.default", (base.index, sizes.index, ref.index), origin)
        return ref

    def _operator(
        self, node: Any, shape: Schema, args: Sequence[Any], kwargs: Mapping[str, Any], origin: Origin
    ) -> Any:
        if shape.changes is not None:
            self.changes[shape.operator] = shape.changes
        taken: list[Ref] = []
        outs: list[Any] = []
        for i, parameter in enumerate(shape.parameters):
            if parameter.name in kwargs:
                value = kwargs[parameter.name]
            elif not parameter.kwarg_only and i < len(args):
                value = args[i]
            else:
                value = parameter.default
            if value is None and parameter.is_tensor:
                value = self.entry(Tensor("u8", (0,), UNPLANNED))
            if parameter.is_out:
                if isinstance(value, list | tuple):
                    value = [self._written(v, f"{node.name}[{n}]", origin) for n, v in enumerate(value)]
                else:
                    value = self._written(value, f"{node.name}[{len(outs)}]" if shape.outs > 1 else node.name, origin)
                outs.append(value)
            taken.append(value if isinstance(value, Ref) else self.constant(value, parameter.type))
        if outs:
            results = outs[0] if len(outs) == 1 else outs
            packed = self.entry(TensorList(tuple(r.index for r in results))) if isinstance(results, list) else results
            self.kernel(shape.operator, (*(t.index for t in taken), packed.index), origin)
            return results
        if self.operators.is_symbolic(node.target):
            ref = self.entry(Scalar("int", 0))
            self.kernel(shape.operator, (*(t.index for t in taken), ref.index), origin)
            return ref
        return self._other_operator(node, shape, taken, origin)

    def _written(self, out: Any, name: str, origin: Origin) -> Any:
        """The name of what an operator writes into ``out``: its own, unless another value has that already."""
        if not isinstance(out, Ref):
            return out
        if out.index in self.defined:
            return self.alias(out, name, origin)
        self.defined.add(out.index)
        self.rename(out, name)
        return out

    def _other_operator(self, node: Any, shape: Schema, taken: list[Ref], origin: Origin) -> Any:
        """An operator without out arguments: in place, or with a result that has a spec of its own."""
        aliased = shape.in_place
        spec = node.meta.get("spec")
        several = isinstance(spec, list | tuple)
        results: list[Ref] = []
        returned: list[Ref] = []  # the same as the emitter writes them
        for i, part in enumerate(spec if several else [spec] if spec is not None else []):
            if not is_spec(part):
                results.append(self.entry(constant_value(part)))
                returned.append(results[-1])
                continue
            label = f"{node.name}[{i}]" if several else node.name
            slot = self.spec_entry(part, label)
            operand = aliased.get(i)
            if operand is not None and isinstance(self.value(taken[operand]), Tensor):
                # The operator works on the operand's tensor object, wherever that is, and hands it out.
                same_slot = self.slot(taken[operand]) == slot.index
                ref = self.alias(taken[operand], label, origin)
                taken[operand] = ref
                results.append(ref)
                returned.append(ref if same_slot else slot)
                continue
            ref = self.alias(slot, label, origin) if slot.index in self.defined else slot
            self.defined.add(slot.index)
            results.append(ref)
            returned.append(ref)
        packed = returned
        if isinstance(spec, list):
            packed = [self.entry(TensorList(tuple(r.index for r in returned)))]
        self.kernel(shape.operator, (*(t.index for t in taken), *(p.index for p in packed)), origin)
        return results if several else results[0] if results else None

    # --- delegates ----------------------------------------------------------------------------------------------------

    def _delegate(self, node: Any, args: Sequence[Any], origin: Origin) -> Any:
        lowered = args[0]
        spec, values = node.meta.get("spec"), node.meta.get("val")
        results: Any
        if isinstance(spec, list | tuple):
            parts = list(values) if isinstance(values, list | tuple) else [values]
            results = [
                self._delegate_result(v, s, f"{node.name}[{i}]")
                for i, (v, s) in enumerate(zip(parts, spec, strict=False))
            ]
            flat = results
        else:
            results = self._delegate_result(values, spec, node.name)
            flat = [results]
        self.delegates.append(str(lowered.backend_id))
        taken = [self.constant(a).index for a in args[1:]]
        args_here = (*taken, *(r.index for r in flat))
        self.emit(DelegateCall(len(self.delegates) - 1, args_here, len(flat), self.here(origin)))
        return results

    def _delegate_result(self, value: Any, spec: Any, name: str) -> Ref:
        import torch

        if isinstance(value, torch.SymInt):
            return self.entry(Scalar("int", 0))
        ref = self.spec_entry(spec, name)
        self.defined.add(ref.index)
        return ref

    # --- control flow -------------------------------------------------------------------------------------------------

    def _results(self, node: Any) -> list[Ref]:
        """The entries of a higher-order operator's results."""
        spec = node.meta.get("spec")
        several = isinstance(spec, list | tuple)
        parts = list(spec) if several else [spec]
        refs = []
        for i, part in enumerate(parts):
            label = f"{node.name}[{i}]" if several and len(parts) > 1 else node.name
            ref = self.spec_entry(part, label)
            self.defined.add(ref.index)
            refs.append(ref)
        return refs

    def _body(self, graph: Any, bound: Sequence[Ref | None], path: str) -> tuple[list[Any], Any, list[Ref]]:
        """Writes the code of a subgraph. An argument that is None gets an entry of its own.

        Returns what the graph returns, its output node, and the entries made for arguments.
        """
        if not isinstance(graph, self.operators.graph_module):
            raise InputError(f"{path}: the body is a {type(graph).__name__}, no graph")
        from torch.utils import _pytree as pytree

        env: _Env = {}
        made: list[Ref] = []
        arguments = iter(bound)
        unplaced: list[str] = []
        begins: list[int] = []
        first_spec = len(self.spec_of)
        for node in graph.graph.nodes:
            begins.append(self.emitted)
            if node.op == "placeholder":
                ref = next(arguments)
                if ref is None:
                    ref = self.entry(self.tensor(node.meta.get("spec"), node.name))
                    self.spec_of[ref.index] = node.meta.get("spec")
                    self.defined.add(ref.index)
                    self.note_sizes(ref, node.meta.get("val"))
                    made.append(ref)
                    if self._has_no_memory(node.meta.get("spec")):
                        unplaced.append(node.name)
                env[node] = ref
            elif node.op == "output":
                self.note_lives(begins, self.emitted, first_spec)
                self._report_unplaced(unplaced, node, path)
                results = [env[r] if hasattr(r, "op") else r for r in pytree.tree_leaves(node.args[0])]
                return results, node, made
            else:
                if node.target is self.operators.alloc:
                    specs = node.meta.get("spec")
                    users = [u.name for u in node.users] or [node.name]
                    if any(self._has_no_memory(s) for s in (specs if isinstance(specs, list | tuple) else [specs])):
                        unplaced.append(users[0])
                self._node(node, env, graph, path)
        raise InputError(f"{path}: the graph has no output")

    @staticmethod
    def _has_no_memory(spec: Any) -> bool:
        if not is_spec(spec) or is_planned(spec) or field(spec, "const"):
            return False
        return int(field(spec, "shape_dynamism")) < 2  # others take memory when they run

    def _report_unplaced(self, names: Iterable[str], output: Any, path: str) -> None:
        missing = tuple(names)
        if missing:
            origin = self.shared.origins.of(output, path)
            what = f"the graph {path} has tensors without memory"
            self.obstacles.append(Obstacle("unplanned", what, origin, missing))

    def _returned(self, results: Sequence[Any], path: str) -> list[Ref]:
        for r in results:
            if not isinstance(r, Ref):
                raise InputError(f"{path}: the graph returns {r!r}, which the emitter refuses")
        return list(results)

    def _cond(self, node: Any, args: Sequence[Any], path: str, origin: Origin) -> list[Ref]:
        predicate, true_graph, false_graph, operands = args
        results = self._results(node)
        otherwise, end = Label(), Label()
        if not isinstance(predicate, Ref):
            predicate = self.constant(predicate)
        self.emit(Jump(predicate.index, otherwise, self.here(origin)))
        self._branch(true_graph, operands, results, f"{path}/{node.name}/true")
        skip = Jump(0, end, self.here(origin))
        self.emit(skip)
        at = len(self.code) - 1
        self.place(otherwise)
        self._branch(false_graph, operands, results, f"{path}/{node.name}/false")
        self.place(end)
        # The emitter makes the constant after the false branch.
        never = self.entry(Scalar("bool", False))
        jump = self.code[at]
        assert isinstance(jump, Jump)
        self.code[at] = replace(jump, condition=never.index)
        return results

    def _branch(self, graph: Any, operands: Sequence[Any], results: Sequence[Ref], path: str) -> None:
        bound = [o if isinstance(o, Ref) else self.constant(o) for o in operands]
        returned, output, _ = self._body(graph, bound, path)
        origin = self.shared.origins.of(output, path)
        for source, target in zip(self._returned(returned, path), results, strict=True):
            if self.slot(source) != target.index:
                self.emit(Move(source.index, target.index, self.here(origin)))

    def _loop_start(self, rows_of: Ref, origin: Origin) -> tuple[Ref, Ref]:
        """(row counter, number of rows) of a loop over the rows of a tensor."""
        counter, count = self.entry(Scalar("int", 0)), self.entry(Scalar("int", 0))
        first = self.entry(Scalar("int", 0))
        self.kernel("aten::sym_size.int", (rows_of.index, first.index, count.index), origin)
        return counter, count

    def _loop_end(self, counter: Ref, count: Ref, begin: Label, origin: Origin) -> None:
        one = self.entry(Scalar("int", 1))
        self.kernel("executorch_prim::add.Scalar", (counter.index, one.index, counter.index), origin)
        done = self.entry(Scalar("bool", False))
        self.kernel("executorch_prim::eq.Scalar", (counter.index, count.index, done.index), origin)
        self.emit(Jump(done.index, begin, self.here(origin)))
        self.kernel("executorch_prim::sub.Scalar", (counter.index, count.index, counter.index), origin)

    def _select_rows(self, rows: Sequence[Ref], counter: Ref, origin: Origin) -> list[int]:
        """Takes one row of each; where it goes is filled in by `_fill_rows`. Returns the places in the code."""
        places = []
        dims = [self.entry(Scalar("int", 0)) for _ in rows]
        for row, dim in zip(rows, dims, strict=True):
            places.append(len(self.code))
            self.kernel("aten::select_copy.int_out", (row.index, dim.index, counter.index, -1, -1), origin)
        return places

    def _fill_rows(self, places: Sequence[int], made: Sequence[Ref]) -> None:
        for at, ref in zip(places, made, strict=True):
            kernel = self.code[at]
            assert isinstance(kernel, Kernel)
            self.code[at] = replace(kernel, args=(*kernel.args[:3], ref.index, ref.index))

    def _map(self, node: Any, args: Sequence[Any], path: str, origin: Origin) -> list[Ref]:
        graph, mapped, operands = args
        self._grow(node, 0)
        results = self._results(node)
        # The emitter takes one mapped argument; more are modelled in the same way.
        counter, count = self._loop_start(mapped[0], origin)
        begin = Label()
        self.place(begin)
        places = self._select_rows(mapped, counter, origin)
        bound = [*([None] * len(mapped)), *(o if isinstance(o, Ref) else self.constant(o) for o in operands)]
        returned, _, made = self._body(graph, bound, f"{path}/{node.name}/body")
        self._fill_rows(places, made)
        for row, result in zip(self._returned(returned, path), results, strict=True):
            self.kernel("executorch_prim::et_copy_index.tensor", (result.index, row.index, counter.index), origin)
        self._loop_end(counter, count, begin, origin)
        return results

    def _grow(self, node: Any, first: int) -> None:
        """The emitter makes the results that collect rows dynamic."""
        spec = node.meta.get("spec")
        for part in list(spec)[first:] if isinstance(spec, list | tuple) else []:
            if is_spec(part):
                self.growing.add(id(part))

    def _copy(self, target: Ref, source: Ref, origin: Origin) -> None:
        wait = self.entry(Scalar("bool", False))
        self.kernel("aten::copy_", (target.index, source.index, wait.index, target.index), origin)

    def _carried(self, results: Sequence[Ref], graph: Any, path: str, origin: Origin) -> list[Ref]:
        """Names for the carries of one iteration: they mean the same until its end, while the slots are written."""
        names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
        inner = replace(origin, path=path)
        return [self.alias(r, names[i] if i < len(names) else "", inner) for i, r in enumerate(results)]

    def _scan(self, node: Any, args: Sequence[Any], path: str, origin: Origin) -> list[Ref]:
        graph, init, rows, operands = args
        self._grow(node, len(init))
        results = self._results(node)
        carries, stacked = results[: len(init)], results[len(init) :]
        if not rows:
            raise InputError(f"{path}: scan {node.name} has nothing to scan over")
        counter, count = self._loop_start(rows[0], origin)
        for carry, start in zip(carries, init, strict=True):
            self._copy(carry, start if isinstance(start, Ref) else self.constant(start), origin)
        begin = Label()
        inner = f"{path}/{node.name}/body"
        self.place(begin)
        names = self._carried(carries, graph, inner, origin)
        places = self._select_rows(rows, counter, origin)
        bound: list[Ref | None] = [*names, *([None] * len(rows))]
        bound.extend(o if isinstance(o, Ref) else self.constant(o) for o in operands)
        returned, _, made = self._body(graph, bound, inner)
        self._fill_rows(places, made)
        values = self._returned(returned, inner)
        for value, carry in zip(values[: len(init)], carries, strict=True):
            self._copy(carry, value, origin)
        for value, result in zip(values[len(init) :], stacked, strict=True):
            self.kernel("executorch_prim::et_copy_index.tensor", (result.index, value.index, counter.index), origin)
        self._loop_end(counter, count, begin, origin)
        return results

    def _while(self, node: Any, args: Sequence[Any], path: str, origin: Origin) -> list[Ref]:
        """A loop as the emitter would have to write it: carried values in the result's slots, the test first."""
        test_graph, body_graph, init, operands = (*args, ())[:4]
        carries = self._results(node)
        for carry, start in zip(carries, init, strict=True):
            self._copy(carry, start if isinstance(start, Ref) else self.constant(start), origin)
        begin, end = Label(), Label()
        self.place(begin)
        extra = [o if isinstance(o, Ref) else self.constant(o) for o in operands]
        test_path, body_path = f"{path}/{node.name}/test", f"{path}/{node.name}/body"
        known = len(self.obstacles)
        names = self._carried(carries, body_graph, body_path, origin)
        tested, _, _ = self._body(test_graph, [*names, *extra], test_path)
        verdict = self._returned(tested, test_path)[0]
        self.emit(Jump(verdict.index, end, self.here(origin)))
        returned, _, _ = self._body(body_graph, [*names, *extra], body_path)
        for value, carry in zip(self._returned(returned, body_path), carries, strict=True):
            self._copy(carry, value, origin)
        never = self.entry(Scalar("bool", False))
        self.emit(Jump(never.index, begin, self.here(origin)))
        self.place(end)
        missing = tuple(n for o in self.obstacles[known:] for n in o.names)
        if missing:
            del self.obstacles[known:]
            what = f"the graphs of while_loop {node.name} were never planned, and the emitter refuses the operator"
            self.obstacles.append(Obstacle("unplanned", what, origin, missing))
        return carries


# --- values -----------------------------------------------------------------------------------------------------------
