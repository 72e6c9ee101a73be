"""Random programs in the shape of those that ExecuTorch emits, for hypothesis and by seed.

A program is written first, then its tensors get their places by one of four plans:

* ``safe``: every storage has bytes of its own, so nothing can be wrong;
* ``moved``: safe, but for one storage that is put onto a value which is read later; so something must be wrong;
* ``layered``: the way of ExecuTorch: the temporaries of all branches and loop bodies of one graph begin at the same
  byte, those of the graph lie above them;
* ``tight``: anywhere in a small arena.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from hazard.program import (
    ITEM_BYTES,
    NULL,
    Alias,
    Arena,
    DelegateCall,
    Dynamism,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    NumberList,
    Placement,
    Planned,
    Program,
    Scalar,
    Tensor,
    TensorList,
    Unplanned,
    Value,
)

PLANS = ("safe", "moved", "layered", "tight")
T = TypeVar("T")


class Choices(Protocol):
    """Where decisions come from."""

    def integer(self, low: int, high: int) -> int: ...
    def pick(self, options: Sequence[T]) -> T: ...
    def chance(self, percent: int) -> bool: ...


class SeededChoices:
    """Decisions by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent


class DrawnChoices:
    """Decisions by hypothesis, made so that smaller draws give simpler programs."""

    def __init__(self, draw: Callable[[st.SearchStrategy[T]], T]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))  # type: ignore[arg-type,return-value]

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent


@dataclass(frozen=True, slots=True)
class Sample:
    """``clean`` says what holds by construction: True, no hazard; False, a hazard; None, it depends."""

    program: Program
    plan: str
    clean: bool | None

    @property
    def method(self) -> Method:
        return self.program.methods[0]


@dataclass(slots=True)
class _Storage:
    """Bytes that a tensor and its views share. ``scope`` is the graph that they belong to."""

    size: int
    scope: int
    offset: int = 0


@dataclass(slots=True)
class _Tensor:
    dtype: str
    sizes: tuple[int, ...]
    storage: int | None  # None: memory of the caller, or set at run time
    dynamic: bool = False
    initial: int | None = None


@dataclass(slots=True)
class _Event:
    """A whole definition or a read that every execution of a call reaches, in this order."""

    define: bool
    slot: int


@dataclass(slots=True)
class _Builder:
    choices: Choices
    views: str  # "presumed", "stated" or "none"
    allow_faults: bool  # constructs that are wrong whatever the plan
    values: list[Value | _Tensor] = field(default_factory=list)
    storages: list[_Storage] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    events: list[_Event] = field(default_factory=list)
    parents: list[int | None] = field(default_factory=lambda: [None])  # of scopes; 0 is the method itself
    scope: int = 0
    conditional: int = 0  # how many branches and loops we are in
    frozen: set[int] = field(default_factory=set)  # must not be changed in place: something else means the old value
    states: list[int] = field(default_factory=list)
    moved_to: set[int] = field(default_factory=set)
    undefined: set[int] = field(default_factory=set)  # results of `empty`
    width: int = 2
    rows: int = 2

    # --- values

    def add(self, value: Value | _Tensor) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def number(self, value: bool | int | float) -> int:
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "double"
        return self.add(Scalar(kind, value))

    def null(self) -> int:
        return self.add(NULL)

    def ints(self, *items: int) -> int:
        return self.add(NumberList("ints", tuple(self.number(i) for i in items)))

    def tensor(self, dtype: str, sizes: tuple[int, ...], planned: bool = True, dynamic: bool = False) -> int:
        storage = None
        if planned:
            self.storages.append(_Storage(prod(sizes) * ITEM_BYTES[dtype], self.scope))
            storage = len(self.storages) - 1
        return self.add(_Tensor(dtype, sizes, storage, dynamic))

    def info(self, slot: int) -> _Tensor:
        value = self.values[slot]
        assert isinstance(value, _Tensor)
        return value

    def like(self, slot: int) -> int:
        t = self.info(slot)
        return self.tensor(t.dtype, t.sizes)

    # --- choosing operands

    def vectors(self, seen: list[int]) -> list[int]:
        """Float tensors with the elements of one row."""
        return [s for s in seen if self.info(s).dtype == "f32" and prod(self.info(s).sizes) == self.width]

    def singles(self, seen: list[int]) -> list[int]:
        return [s for s in seen if (self.info(s).dtype, self.info(s).sizes) == ("f32", (1,))]

    def truths(self, seen: list[int]) -> list[int]:
        return [s for s in seen if self.info(s).dtype == "bool"]

    def matrices(self, seen: list[int]) -> list[int]:
        return [s for s in seen if self.info(s).sizes == (self.rows, self.width)]

    def vector(self, seen: list[int]) -> int:
        return self.choices.pick(self.vectors(seen))

    # --- instructions

    def emit(self, operator: str, *args: int, reads: Sequence[int] = (), defines: Sequence[int] = ()) -> None:
        self.code.append(Kernel(operator, args))
        self.note(reads, defines)

    def note(self, reads: Sequence[int], defines: Sequence[int]) -> None:
        if not self.conditional:
            self.events += [_Event(False, s) for s in reads]
            self.events += [_Event(True, s) for s in defines]

    def out(self, operator: str, *args: int, result: int, reads: Sequence[int]) -> int:
        """A call of an out variant with one result."""
        self.emit(operator, *args, result, result, reads=reads, defines=(result,))
        return result

    def unary(self, seen: list[int]) -> int:
        x = self.vector(seen)
        name = self.choices.pick(["neg", "exp", "sin", "relu", "sigmoid"])
        return self.out(f"aten::{name}.out", x, result=self.like(x), reads=(x,))

    def binary(self, seen: list[int]) -> int:
        a, b = self.vector(seen), self.vector(seen)
        name = self.choices.pick(["add", "sub", "mul", "minimum"])
        alpha = (self.number(1),) if name in ("add", "sub") else ()
        return self.out(f"aten::{name}.out", a, b, *alpha, result=self.like(a), reads=(a, b))

    def mixing(self, seen: list[int]) -> int:
        x = self.vector(seen)
        if self.choices.chance(50):
            return self.out("aten::cumsum.out", x, self.number(0), self.null(), result=self.like(x), reads=(x,))
        return self.out("aten::flip.out", x, self.ints(0), result=self.like(x), reads=(x,))

    def clone(self, seen: list[int]) -> int:
        x = self.vector(seen)
        args = (x, self.number(False), self.null())
        return self.out("dim_order_ops::_clone_dim_order.out", *args, result=self.like(x), reads=(x,))

    def widened(self, seen: list[int]) -> int:
        """To double precision and back, for tensors of another element size."""
        x = self.vector(seen)
        name = "dim_order_ops::_to_dim_order_copy.out"
        wide = self.tensor("f64", self.info(x).sizes)
        self.out(name, x, self.number(False), self.null(), result=wide, reads=(x,))
        return self.out(name, wide, self.number(False), self.null(), result=self.like(x), reads=(wide,))

    def total(self, seen: list[int]) -> int:
        x = self.vector(seen)
        args = (x, self.ints(0), self.number(True), self.null())
        return self.out("aten::sum.IntList_out", *args, result=self.tensor("f32", (1,)), reads=(x,))

    def filled(self, seen: list[int]) -> int:
        x = self.vector(seen)
        if self.choices.chance(50):
            return self.out("aten::full_like.out", x, self.number(0), self.null(), result=self.like(x), reads=())
        sizes = self.ints(*self.info(x).sizes)
        return self.out("aten::full.out", sizes, self.number(1), result=self.like(x), reads=())

    def emptied(self, seen: list[int]) -> int:
        x = self.like(self.vector(seen))
        self.emit("aten::empty.out", self.ints(*self.info(x).sizes), self.null(), x, x)
        self.undefined.add(x)
        return x

    def joined_and_split(self, seen: list[int]) -> int:
        a, b = self.vector(seen), self.vector(seen)
        both = self.tensor("f32", (2 * self.width,))
        self.out("aten::cat.out", self.add(TensorList((a, b))), self.number(0), result=both, reads=(a, b))
        parts = tuple(self.tensor("f32", (self.width,)) for _ in range(2))
        lists = (self.add(TensorList(parts)), self.add(TensorList(parts)))
        sizes = self.ints(self.width, self.width)
        name = "aten::split_with_sizes_copy.out"
        self.emit(name, both, sizes, self.number(0), *lists, reads=(both,), defines=parts)
        seen.append(parts[0])
        return parts[1]

    def several_results(self, seen: list[int]) -> int:
        x = self.vector(seen)
        outs = (self.like(x), self.tensor("f32", (1,)), self.tensor("f32", (1,)))
        args = (x, self.ints(self.width), self.null(), self.null(), self.number(1e-5))
        listed = self.add(TensorList(outs))
        self.emit("aten::native_layer_norm.out", *args, *outs, listed, reads=(x,), defines=outs)
        seen += outs[1:]
        return outs[0]

    def in_place(self, seen: list[int]) -> int | None:
        free = [s for s in self.vectors(seen) if s not in self.frozen and s not in self.moved_to]
        if not free:
            return None
        x = self.choices.pick(free)
        kind = self.choices.integer(0, 2)
        if kind == 0:
            self.emit("aten::relu_", x, x, reads=(x,), defines=(x,))
        elif kind == 1:
            y = self.vector(seen)
            self.emit("aten::add_.Tensor", x, y, self.number(1), x, reads=(x, y), defines=(x,))
        else:
            self.put(x, seen)
        return x

    def put(self, x: int, seen: list[int]) -> None:
        """Overwrites an element of ``x`` that data chooses."""
        values = [s for s in self.singles(seen) if s != x] or [self.total(seen)]
        value = self.choices.pick(values)
        where = self.tensor("i64", (1,))
        self.out("aten::full.out", self.ints(1), self.number(0), result=where, reads=())
        indices = self.add(TensorList((where,), optional=True))
        self.emit("aten::index_put_", x, indices, value, self.number(False), x, reads=(where, value))

    def delegated(self, seen: list[int]) -> int:
        a, b = self.vector(seen), self.vector(seen)
        result = self.like(a)
        self.code.append(DelegateCall(0, (a, b, result), 1))
        self.note((a, b), (result,))
        return result

    def elided_view(self, seen: list[int]) -> int | None:
        """A second name for the same bytes, without an instruction."""
        bases = [s for s in self.vectors(seen) if self.info(s).storage is not None and not self.info(s).dynamic]
        if not self.allow_faults:
            # A moved-to slot's own bytes are written by nobody.
            bases = [s for s in bases if s not in self.moved_to]
        bases = [s for s in bases if s not in self.undefined]
        if not bases or self.views == "none":
            return None
        base = self.choices.pick(bases)
        t = self.info(base)
        other = (1, self.width) if t.sizes == (self.width,) else (self.width,)
        view = self.add(_Tensor(t.dtype, other, t.storage, initial=t.initial))
        self.frozen |= {base, view}
        if self.views == "stated":
            self.code.append(Alias(base, view))
        return view

    def run_time_view(self, seen: list[int]) -> int:
        base = self.vector(seen)
        view = self.tensor("f32", (1, self.width), planned=False, dynamic=True)
        self.emit("executorch_prim::et_view.default", base, self.ints(1, self.width), view)
        self.frozen |= {base, view}
        return view

    def plain_move(self, seen: list[int]) -> int:
        source = self.vector(seen)
        target = self.like(source)
        self.move(source, target)
        return target

    def move(self, source: int, target: int) -> None:
        self.code.append(Move(source, target))
        self.frozen |= {source, target}
        self.moved_to.add(target)

    # --- predicates

    def predicate(self, seen: list[int]) -> int:
        known, singles = self.truths(seen), self.singles(seen)
        kind = self.choices.integer(0, 5)
        result = self.tensor("bool", (1,))
        if known and kind == 0:
            x = self.choices.pick(known)
            return self.out("aten::logical_not.out", x, result=result, reads=(x,))
        if known and kind == 1:
            name = self.choices.pick(["and", "or", "xor"])
            a, b = self.choices.pick(known), self.choices.pick(known)
            return self.out(f"aten::logical_{name}.out", a, b, result=result, reads=(a, b))
        name = self.choices.pick(["gt", "lt", "ge", "le", "eq", "ne"])
        if len(singles) > 1 and kind == 2:
            a, b = self.choices.pick(singles), self.choices.pick(singles)
            return self.out(f"aten::{name}.Tensor_out", a, b, result=result, reads=(a, b))
        x = self.choices.pick(singles) if singles else self.total(seen)
        constant = self.number(self.choices.integer(0, 2))
        return self.out(f"aten::{name}.Scalar_out", x, constant, result=result, reads=(x,))

    def condition(self, seen: list[int]) -> int:
        """Something to branch on: mostly an old predicate, so that branches are related."""
        known = self.truths(seen)
        if known and self.choices.chance(60):
            return self.choices.pick(known)
        if self.singles(seen) and self.choices.chance(15):
            x = self.choices.pick(self.singles(seen))
            item, result = self.number(0.0), self.number(False)
            self.emit("aten::_local_scalar_dense", x, item, reads=(x,))
            self.emit("executorch_prim::gt.Scalar", item, self.number(1), result)
            return result
        found = self.predicate(seen)
        seen.append(found)
        return found

    # --- control flow

    def jump(self, condition: int, target: int = -1) -> int:
        """Emits a jump and returns its index; a target that is not known yet is set by `land`."""
        if isinstance(self.values[condition], _Tensor):
            self.note((condition,), ())
        self.code.append(JumpFalse(condition, target))
        return len(self.code) - 1

    def land(self, jump: int) -> None:
        instruction = self.code[jump]
        assert isinstance(instruction, JumpFalse)
        self.code[jump] = JumpFalse(instruction.condition, len(self.code))

    def inside(self, body: Callable[[], T]) -> T:
        """Runs ``body`` in a graph of its own."""
        outer = self.scope
        self.parents.append(outer)
        self.scope = len(self.parents) - 1
        self.conditional += 1
        try:
            return body()
        finally:
            self.scope = outer
            self.conditional -= 1

    def cond(self, seen: list[int], depth: int) -> int:
        condition = self.condition(seen)
        results = [self.tensor("f32", (self.width,)) for _ in range(self.choices.integer(1, 2))]

        def branch() -> None:
            local = list(seen)
            own = self.block(local, depth + 1, self.choices.integer(1, 3))
            for r in results:
                mine = [s for s in self.vectors(own) if s not in self.moved_to] or [self.unary(local)]
                if self.allow_faults and self.choices.chance(5):
                    mine = self.vectors(seen)  # the branch hands out its operand
                self.move(self.choices.pick(mine), r)

        to_else = self.jump(condition)
        self.inside(branch)
        to_end = self.jump(self.number(False))
        self.land(to_else)
        self.inside(branch)
        self.land(to_end)
        seen += results[1:]
        return results[0]

    def counted_loop(self, xs: int, body: Callable[[int, int], None]) -> None:
        """The loop of map and scan: ``body`` gets the counter and the row of ``xs``."""
        counter, end, done = self.number(0), self.number(0), self.number(False)
        self.emit("aten::sym_size.int", xs, self.number(0), end)
        start = len(self.code)

        def once() -> None:
            row = self.tensor("f32", (self.width,))
            self.emit("aten::select_copy.int_out", xs, self.number(0), counter, row, row)
            body(counter, row)
            self.emit("executorch_prim::add.Scalar", counter, self.number(1), counter)
            self.emit("executorch_prim::eq.Scalar", counter, end, done)

        self.inside(once)
        self.jump(done, start)
        self.emit("executorch_prim::sub.Scalar", counter, end, counter)

    def loop(self, seen: list[int], depth: int) -> int | None:
        if not self.matrices(seen):
            return None
        xs = self.choices.pick(self.matrices(seen))
        stacked = self.tensor("f32", (self.rows, self.width), dynamic=True)
        carry = None
        if self.choices.chance(50):
            carry = self.tensor("f32", (self.width,))
            start = self.vector(seen)
            self.emit("aten::copy_", carry, start, self.number(False), carry, reads=(start,), defines=(carry,))
            self.frozen.add(carry)

        def body(counter: int, row: int) -> None:
            local = [*seen, row, *([carry] if carry is not None else [])]
            own = [row, *self.block(local, depth + 1, self.choices.integer(1, 2))]
            if carry is not None:
                new = self.choices.pick(self.vectors(own))
                self.emit("aten::copy_", carry, new, self.number(False), carry)
            # What lies in the bytes of the carry means its old value, which has just been replaced.
            stale = self.showing([] if carry is None else [carry])
            result = self.choices.pick([s for s in self.vectors(own) if s not in stale])
            self.emit("executorch_prim::et_copy_index.tensor", stacked, result, counter)

        self.counted_loop(xs, body)
        self.frozen.add(stacked)
        if carry is not None:
            seen.append(carry)
        return stacked

    # --- the whole

    def block(self, seen: list[int], depth: int, count: int) -> list[int]:
        """Emits ``count`` statements; adds what they define to ``seen`` and returns the part that is new."""
        before = len(seen)
        local = before if depth else 0
        for _ in range(count):
            made = self.statement(seen, seen[local:], depth)
            if made is not None and made not in seen:
                seen.append(made)
        return seen[before:]

    def statement(self, seen: list[int], own: list[int], depth: int) -> int | None:
        kind = self.choices.integer(0, 33)
        simple = {
            5: self.mixing, 6: self.mixing, 7: self.clone, 8: self.total, 9: self.total, 10: self.predicate,
            11: self.predicate, 12: self.predicate, 13: self.filled, 14: self.joined_and_split,
            15: self.several_results, 16: self.widened, 17: self.delegated, 18: self.elided_view,
            19: self.elided_view, 20: self.run_time_view, 21: self.plain_move, 22: self.emptied,
        }  # fmt: skip
        if kind < 3:
            return self.unary(seen)
        if kind < 5:
            return self.binary(seen)
        if kind in simple:
            return simple[kind](seen)
        if kind in (23, 24):
            # In branches and loops only what they made themselves: the next iteration, or the code behind the
            # branch, still means the old value.
            return self.in_place(own) if self.vectors(own) else None
        if depth >= 2:
            return self.unary(seen)
        return self.cond(seen, depth) if kind < 31 else self.loop(seen, depth)

    def inputs(self) -> list[int]:
        found = []
        kinds: list[tuple[str, tuple[int, ...]]] = [("f32", (self.width,))]
        options: list[tuple[str, tuple[int, ...]]] = [
            ("f32", (self.width,)), ("f32", (1,)), ("bool", (1,)), ("f32", (self.rows, self.width)),
        ]  # fmt: skip
        kinds += [self.choices.pick(options) for _ in range(self.choices.integer(1, 3))]
        for dtype, sizes in kinds:
            slot = self.tensor(dtype, sizes, planned=self.choices.chance(75))
            found.append(slot)
        self.note((), found)
        self.frozen |= set(found)
        return found

    def state(self) -> list[int]:
        for i in range(self.choices.integer(0, 2)):
            slot = self.tensor("f32", (self.width,))
            if self.choices.chance(75):
                self.info(slot).initial = i + 1
            self.states.append(slot)
            self.frozen.add(slot)
        return list(self.states)

    def write_back(self, seen: list[int]) -> None:
        stale = self.showing(self.states)
        new = [s for s in self.vectors(seen) if s not in stale]
        for s in self.states:
            if self.choices.chance(20):
                self.put(s, seen)
                continue
            source = self.choices.pick(new)
            self.emit("aten::copy_", s, source, self.number(False), s, reads=(source,), defines=(s,))

    def showing(self, slots: list[int]) -> set[int]:
        """The slots themselves and those that may lie in their bytes."""
        storages = {self.info(s).storage for s in slots}
        found = {s for s, v in enumerate(self.values) if isinstance(v, _Tensor) and v.storage in storages}
        for instruction in self.code:
            match instruction:
                case Move(source, target) if source in found:
                    found.add(target)
                case Kernel("executorch_prim::et_view.default", args) if args[0] in found:
                    found.add(args[-1])
        return found


def _place(builder: _Builder, plan: str) -> tuple[int, bool | None]:
    """Gives every storage an offset; returns the size of the arena and whether the program is clean."""
    choices, storages = builder.choices, builder.storages
    if plan == "layered":
        return _layers(builder), None
    if plan == "tight":
        step = choices.pick([4, 4, 8, 1])
        size = max([choices.integer(16, 64), *(s.size for s in storages)])
        for s in storages:
            s.offset = choices.integer(0, (size - s.size) // step) * step
        return size, None
    end = 0
    for s in storages:
        s.offset = end + choices.pick([0, 0, 4, 16])
        end = s.offset + s.size
    if plan == "safe":
        return end, True
    victim, clobberer = choices.pick(_live_pairs(builder))
    v, c = (storages[builder.info(x).storage or 0] for x in (victim, clobberer))
    # Exactly on top of it would do for a copy of the same value.
    shifts = [d for d in range(1 - c.size, v.size) if v.offset + d >= 0 and (d or c.size != v.size)]
    c.offset = v.offset + choices.pick(shifts or [0])
    return max(s.offset + s.size for s in storages), False


def _layers(builder: _Builder) -> int:
    ends = [0] * len(builder.parents)
    # Inner graphs have higher numbers, so all that lie inside are placed before.
    for scope in reversed(range(len(builder.parents))):
        for s in builder.storages:
            if s.scope == scope:
                s.offset = ends[scope]
                ends[scope] += s.size
        parent = builder.parents[scope]
        if parent is not None:
            ends[parent] = max(ends[parent], ends[scope])
    return max(ends)


def _live_pairs(builder: _Builder) -> list[tuple[int, int]]:
    """(a value that is read for certain, something wholly written between its definition and that read)."""
    found = []
    planned = {s for s, v in enumerate(builder.values) if isinstance(v, _Tensor) and v.storage is not None}
    for i, definition in enumerate(builder.events):
        if not definition.define or definition.slot not in planned:
            continue
        between: list[int] = []
        for event in builder.events[i + 1 :]:
            same = builder.info(event.slot).storage == builder.info(definition.slot).storage
            if event.define and same:
                break
            if event.define and event.slot in planned:
                between.append(event.slot)
            elif event.slot == definition.slot:
                found += [(definition.slot, w) for w in between]
    return found


def make(choices: Choices, plan: str) -> Sample:
    """One program."""
    builder = _Builder(
        choices,
        views=choices.pick(["presumed", "stated", "none"]),
        allow_faults=plan in ("layered", "tight"),
        width=choices.pick([2, 1, 4]),
        rows=choices.pick([2, 3]),
    )
    inputs = builder.inputs()
    seen = inputs + builder.state()
    builder.block(seen, 0, choices.integer(2, 9))
    outputs = _outputs(builder, seen)
    if plan == "moved" and not _live_pairs(builder):
        first, second = builder.unary(inputs), builder.unary(inputs)
        builder.note((first, second), ())
        outputs += [first, second]
    size, clean = _place(builder, plan)
    loose = _unplanned_outputs(builder, outputs) if plan != "moved" else set()
    values = tuple(_finish(builder, s, v, s in loose) for s, v in enumerate(builder.values))
    method = Method(
        "forward",
        values,
        tuple(inputs),
        tuple(dict.fromkeys(outputs)),
        (tuple(builder.code),),
        {1: Arena(size)},
        ("Backend",),
        "graph" if builder.views == "stated" else "bytecode",
    )
    return Sample(Program((method,)), plan, clean)


def _outputs(builder: _Builder, seen: list[int]) -> list[int]:
    """Writes the states back, as the last thing, and chooses what is returned."""
    builder.write_back(seen)
    # What a state was before is gone; what it is now may be returned.
    stale = builder.showing(builder.states) - set(builder.states)
    fit = [s for s in seen if s not in stale]
    outputs = [builder.choices.pick(fit) for _ in range(builder.choices.integer(1, 3))]
    builder.note(outputs, ())
    return outputs


def _unplanned_outputs(builder: _Builder, outputs: list[int]) -> set[int]:
    """Some of the outputs that one kernel makes, as with alloc_graph_output=False."""
    shared = [v.storage for v in builder.values if isinstance(v, _Tensor)]
    alone = [
        s
        for s in outputs
        if builder.info(s).storage is not None
        and shared.count(builder.info(s).storage) == 1
        and s not in builder.states
    ]
    return {s for s in alone if builder.choices.chance(25)}


def _finish(builder: _Builder, slot: int, value: Value | _Tensor, loose: bool) -> Value:
    if not isinstance(value, _Tensor):
        return value
    placement: Placement = Unplanned()
    if value.storage is not None and not loose:
        placement = Planned(1, builder.storages[value.storage].offset)
    dynamism = Dynamism.BOUND if value.dynamic else Dynamism.STATIC
    return Tensor(value.dtype, value.sizes, placement, dynamism, initial=value.initial)


def random_program(seed: int, plan: str = "tight") -> Sample:
    """The program of a seed, the same in every run."""
    return make(SeededChoices(seed), plan)


@st.composite
def programs(draw: Callable[[st.SearchStrategy[T]], T], plan: str | None = None) -> Sample:
    """Programs for hypothesis; of any plan where none is given."""
    choices = DrawnChoices(draw)
    return make(choices, plan or choices.pick(PLANS))
