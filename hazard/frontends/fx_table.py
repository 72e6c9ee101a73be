"""The values table of a method as the emitter would make it, and the names that graph values have beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from hazard.frontends.fx_sizes import SymbolicSizes
from hazard.frontends.fx_specs import (
    UNPLANNED,
    Contents,
    Origins,
    facts_of,
    is_spec,
    placement_of,
    storage_base,
    tensor_of,
    view_base,
)
from hazard.program import (
    NULL,
    Constant,
    Dynamism,
    Extent,
    InputError,
    NumberList,
    Origin,
    Placement,
    Scalar,
    Tensor,
    TensorList,
    Value,
    record,
)

#: Indices of names that have no entry in the emitted table, until the length of that table is known.
EXTRA: Final = 1 << 40


@record
class Ref:
    """An entry of the values table, as distinct from a Python number in the graph."""

    index: int


class Label:
    """A place in the code that is not known yet."""

    def __init__(self) -> None:
        self.position = -1


@dataclass(slots=True)
class Jump:
    """A jump to a place that is not known yet."""

    condition: int
    label: Label
    origin: Origin


#: Namespaces whose operators do what their names say; of others the schema tells what they change.
_PLAIN_NAMESPACES: Final = ("aten", "dim_order_ops", "et_copy", "executorch_prim", "quantized_decomposed")


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    kwarg_only: bool
    default: Any
    type: Any
    is_tensor: bool
    is_out: bool


class Schema:
    """What is asked of an operator's schema, whose own properties are made anew each time.

    ``in_place``: which results are operands, changed: (result, operand). ``changes``: positions of the arguments that a
    custom operator changes, None for the operators that come with torch and ExecuTorch.
    """

    def __init__(self, schema: Any) -> None:
        import torch

        self.operator: str = schema.name if not schema.overload_name else f"{schema.name}.{schema.overload_name}"
        arguments = list(schema.arguments)
        self.parameters = tuple(
            _Parameter(
                a.name, a.kwarg_only, a.default_value, a.type, isinstance(a.type, torch.TensorType), bool(a.is_out)
            )
            for a in arguments
        )
        self.outs = sum(p.is_out for p in self.parameters)
        written = {i: frozenset(a.alias_info.before_set) for i, a in enumerate(arguments) if _is_write(a)}
        first: dict[frozenset[str], int] = {}
        for i, names in written.items():
            first.setdefault(names, i)
        self.in_place: dict[int, int] = {}
        for i, result in enumerate(schema.returns):
            if _is_write(result) and frozenset(result.alias_info.before_set) in first:
                self.in_place[i] = first[frozenset(result.alias_info.before_set)]
        plain = str(schema.name).partition("::")[0] in _PLAIN_NAMESPACES
        self.changes = None if plain else tuple(i for i in written if not self.parameters[i].is_out)


def _is_write(argument: Any) -> bool:
    info = argument.alias_info
    return info is not None and bool(info.is_write)


class Shared:
    """What the methods of one program have in common."""

    def __init__(self) -> None:
        self.constants = Contents()
        self.initial = Contents()
        self.origins = Origins()
        self.schemas: dict[Any, Schema] = {}


class Table:
    """The values of one method. ``method`` names it in messages."""

    def __init__(self, method: str, shared: Shared) -> None:
        self.method, self.shared = method, shared
        self.values: list[Value] = []
        self.extra: list[Tensor] = []
        self.slots: dict[int, int] = {}  # id of a spec -> its entry
        self.specs: list[Any] = []  # keeps the specs alive, so that ids stay theirs
        self.spec_of: dict[int, Any] = {}
        self.defined: set[int] = set()  # entries that have a value
        self.sizes = SymbolicSizes()
        self.lives: dict[int, tuple[int, int]] = {}
        self.growing: set[int] = set()  # ids of specs that the emitter makes dynamic, because rows are appended

    def entry(self, value: Value) -> Ref:
        """A new entry of the emitted table."""
        self.values.append(value)
        return Ref(len(self.values) - 1)

    def value(self, ref: Ref) -> Value:
        return self.extra[ref.index - EXTRA] if ref.index >= EXTRA else self.values[ref.index]

    def slot(self, ref: Ref) -> int:
        """The entry of the emitted table behind a name."""
        if ref.index < EXTRA:
            return ref.index
        slot = self.extra[ref.index - EXTRA].slot
        assert slot is not None
        return slot

    def name_for(self, source: Ref, name: str) -> Ref:
        """A new name on the tensor object of ``source``."""
        value = self.value(source)
        assert isinstance(value, Tensor)
        self.extra.append(
            replace(
                value, placement=UNPLANNED, initial=None, fqn=None, name=name, slot=self.slot(source), base=None,
                lost_value=False,
            )
        )  # fmt: skip
        return Ref(EXTRA + len(self.extra) - 1)

    def spec_entry(self, spec: Any, name: str) -> Ref:
        """The entry of a spec: the one it has, or a new one. ``name`` is the node's."""
        known = self.slots.get(id(spec))
        if known is not None:
            return Ref(known)
        ref = self.entry(self.tensor(spec, name))
        self.remember(spec, ref.index)
        return ref

    def remember(self, spec: Any, slot: int) -> None:
        self.slots[id(spec)] = slot
        self.specs.append(spec)
        self.spec_of[slot] = spec

    def tensor(
        self, spec: Any, name: str, *, const: bool = False, fqn: str | None = None, external: bool = False,
        data: Any = None,
    ) -> Tensor:  # fmt: skip
        """The entry that the emitter makes of a spec. ``data`` are the contents of a constant or of initial state."""
        what = f"{self.method}: {name}"
        if not is_spec(spec):
            raise InputError(f"{what} has no tensor spec but {type(spec).__name__}: was the graph planned?")
        facts = facts_of(spec)
        placement: Placement = placement_of(facts, what)
        initial = None
        if const and placement is not UNPLANNED:
            initial = 0 if external else self.shared.initial.number(data)
        elif const:
            placement = Constant(fqn if external and fqn else self.shared.constants.number(data))
        elif (root := self.root(spec)) is not None:
            # A view's spec takes everything but the sizes from its base.
            initial = root.initial
            placement = root.placement if root.is_constant else placement
        tensor = tensor_of(facts, what, placement, name=name, fqn=fqn, initial=initial, data=data)
        return replace(tensor, dynamism=Dynamism.BOUND) if id(spec) in self.growing else tensor

    def root(self, spec: Any) -> Tensor | None:
        """The entry of the spec that a view's spec is based on, if it has one."""
        base = view_base(spec)
        if base is None:
            return None
        while (further := view_base(base)) is not None:
            base = further
        value = self.values[self.slots[id(base)]] if id(base) in self.slots else None
        return value if isinstance(value, Tensor) else None

    def constant(self, value: Any, type_: Any = None) -> Ref:
        """A new entry for a Python value of the graph; items of a list of integers get entries before it."""
        if isinstance(value, Ref):
            return value
        if isinstance(value, list | tuple):
            return self.entry(self._list(value, type_))
        return self.entry(constant_value(value))

    def _list(self, items: Sequence[Any], type_: Any) -> Value:
        kind, optional = _item_kind(items, type_, self)
        if kind == "tensors":
            slots = [i.index if isinstance(i, Ref) else -1 for i in items]
            return TensorList(tuple(slots), optional)
        if kind == "ints":
            return NumberList("ints", tuple([self.constant(i).index for i in items]))
        return NumberList(kind, tuple(items))

    def note_sizes(self, ref: Any, value: Any) -> None:
        """Keeps what the graph knows of the sizes of a value; ``ref`` and ``value`` may be lists of them."""
        if isinstance(ref, list | tuple):
            parts = value if isinstance(value, list | tuple) else [value]
            for one, part in zip(ref, parts, strict=False):
                self.note_sizes(one, part)
        if not isinstance(ref, Ref):
            return
        entry = self.value(ref)
        if isinstance(entry, Tensor) and entry.dynamism is not Dynamism.STATIC:
            expression = self.sizes.nbytes(value, entry.itemsize)
            if expression is not None and entry.extent is None:
                self._set(ref, replace(entry, extent=Extent(expression)))
        elif isinstance(entry, Scalar) and (expression := self.sizes.expression(value)) is not None:
            self._set(ref, replace(entry, size=expression))

    def note_lives(self, begins: Sequence[int], end: int, first_spec: int) -> None:
        """Keeps the live ranges that the planner took, which count the nodes of a graph, as emitted instructions.

        ``begins`` holds the index of the instruction that comes next at each node, ``end`` that after the last. Specs
        before ``first_spec`` belong to other graphs, and so do those of the graphs inside, which have been noted.
        """
        ends = [*begins[1:], end]
        for slot, spec in islice(self.spec_of.items(), first_spec, None):
            # Even asking a view's spec for its class runs its checks.
            if slot in self.lives or view_base(spec) is not None or spec.mem_offset is None:
                continue
            first, last = spec.lifetime
            if isinstance(first, int) and isinstance(last, int) and last < len(begins):
                self.lives[slot] = (begins[first], max(begins[last], ends[last] - 1))

    def _set(self, ref: Ref, value: Value) -> None:
        if ref.index >= EXTRA:
            assert isinstance(value, Tensor)
            self.extra[ref.index - EXTRA] = value
        else:
            self.values[ref.index] = value

    def rename(self, ref: Ref, name: str) -> None:
        """Gives an entry the name of the node that defines it instead of that of its allocation."""
        value = self.value(ref)
        if isinstance(value, Tensor) and value.name != name:
            self._set(ref, replace(value, name=name))

    def final(self, index: int) -> int:
        """The index of an entry or name in the finished table."""
        return index - EXTRA + len(self.values) if index >= EXTRA else index

    def finished(self) -> tuple[Value, ...]:
        """All entries of the emitted table, then all names."""
        values: list[Value] = [_mapped(v, self.final) for v in self.values]
        values.extend(self.extra)
        for slot, spec in self.spec_of.items():
            if view_base(spec) is not None:
                continue  # it would answer for its base
            shared = storage_base(spec)
            value = values[slot]
            if shared is not None and id(shared[0]) in self.slots and isinstance(value, Tensor):
                values[slot] = replace(value, base=self.slots[id(shared[0])], base_offset=shared[1])
        return tuple(values)

    def planned_lives(self) -> tuple[tuple[int, int, int], ...]:
        """The live ranges that `note_lives` has kept, in the order of the table."""
        return tuple([(slot, *self.lives[slot]) for slot in sorted(self.lives)])


class _Ints:
    """Stands for the type "list of integers" where the emitter does not ask a schema."""


INTS: Final = _Ints()


def has_bits(data: Any) -> bool:
    """Whether a tensor has a bit that is not zero; one without data (a fake tensor) is not known to."""
    import torch

    if type(data).__name__ == "FakeTensor" or data.is_meta or not data.numel():
        return False
    return bool(data.detach().contiguous().view(-1).view(torch.uint8).any())


_TRUE: Final = Scalar("bool", True)
_FALSE: Final = Scalar("bool", False)


@lru_cache
def _whole_number(value: int) -> Scalar:
    """The same few sizes and dimensions make up most of a table."""
    return Scalar("int", value)


def constant_value(value: Any) -> Value:
    """The entry for a Python value that is no list. Raises InputError for what no program can hold."""
    if value is None:
        return NULL
    if type(value) is int:
        return _whole_number(value)
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        return Scalar("int", value)
    if isinstance(value, float):
        return Scalar("double", value)
    if isinstance(value, str):
        return Scalar("string", value)
    import torch

    if isinstance(value, torch.dtype):
        from executorch.exir.tensor import scalar_type_enum

        return Scalar("int", int(scalar_type_enum(value)))
    if isinstance(value, torch.layout):
        return Scalar("int", 0 if value is torch.strided else 1)
    if isinstance(value, torch.memory_format):
        return Scalar("int", {torch.contiguous_format: 0, torch.preserve_format: 1}.get(value, -1))
    raise InputError(f"a {type(value).__name__} in the graph, which no program can hold")


def _item_kind(items: Sequence[Any], type_: Any, writer: Table) -> tuple[str, bool]:
    """(kind of a list, whether its items may be None), by the schema's type or else by the items."""
    if type_ is INTS:
        return "ints", False
    import torch

    if isinstance(type_, torch.OptionalType):
        type_ = type_.getElementType()
    item = type_.getElementType() if isinstance(type_, torch.ListType) else None
    if item is None:
        if items and all(isinstance(i, Ref) and isinstance(writer.value(i), Tensor) for i in items):
            return "tensors", False
        first = items[0] if items else 0
        if isinstance(first, bool):
            return "bools", False
        return ("doubles" if isinstance(first, float) else "ints"), False
    if isinstance(item, torch.BoolType):
        return "bools", False
    if isinstance(item, torch.IntType):
        return "ints", False
    if isinstance(item, torch.FloatType):
        return "doubles", False
    if isinstance(item, torch.TensorType):
        return "tensors", False
    if isinstance(item, torch.OptionalType) and isinstance(item.getElementType(), torch.TensorType):
        return "tensors", True
    raise InputError(f"a list of {item}, which no program can hold")


def _mapped(value: Value, final: Callable[[int], int]) -> Value:
    """A value whose lists refer to final indices."""
    if isinstance(value, TensorList):
        return TensorList(tuple(final(i) if i >= 0 else i for i in value.items), value.optional)
    return value
