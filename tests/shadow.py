"""A brute-force judge of memory: runs every bounded path of a method on shadow memory.

It shares nothing with ``hazard.analysis``, so that the two can check each other. The idea is the plainest one that can
work. Each write paints its bytes with a tag of its own. Each slot knows, byte by byte, which tags a read through it
must find. A read compares the two and every difference is an `Observation`.

What it does not do: it runs each dynamic tensor at its largest size only, it never rebinds a caller's buffer, and it
knows one method on one host at a time.

For people: ``python -m tests.shadow FILE...`` prints what it observes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, isnan, prod, trunc

from hazard.frontends import load
from hazard.program import (
    Alias,
    Constant,
    DelegateCall,
    Dynamism,
    Free,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    NumberList,
    Planned,
    Scalar,
    Tensor,
    TensorList,
)

# --- what is written, what is observed --------------------------------------------------------------------------------


#: Memory that does not overlap any other: an arena, a constant, a buffer of the caller or of the heap.
Space = tuple[str, int | str]


@dataclass(frozen=True, slots=True)
class Write:
    """The tag that one write leaves on its bytes.

    ``kind`` is fill (nobody wrote), load (initial state), stage (a planned input), caller (memory that the caller
    brings), constant, instruction, undefined (contents of ``empty``: any byte will do) or freed.
    ``kept`` is what was there before, where the write may have left a byte alone. ``tensor`` is the place of the whole
    tensor that was written, of which these bytes may be a part.
    """

    kind: str
    call: int | None = None
    chain: int | None = None
    instruction: int | None = None
    occurrence: int = 0
    slot: int | str | None = None
    kept: Write | None = None
    tensor: tuple[Space, int, int] | None = None

    @property
    def site(self) -> tuple[str, int | None, int | None, int | str | None]:
        """The place in the program, the same for all calls and iterations."""
        return (self.kind, self.chain, self.instruction, self.slot)

    def __str__(self) -> str:
        if self.kind == "instruction":
            times = f" (time {self.occurrence + 1})" if self.occurrence else ""
            text = f"[{self.instruction}]{times} through %{self.slot}, call {self.call}"
        elif self.kind == "stage":
            text = f"staging of %{self.slot}, call {self.call}"
        elif self.kind == "caller":
            text = f"the caller's buffer of %{self.slot}, call {self.call}"
        elif self.kind == "load":
            text = f"initial state {self.slot}"
        elif self.kind == "constant":
            text = f"constant {self.slot}"
        else:
            text = self.kind
        return text if self.kept is None else f"{text}, or what it left: {self.kept}"


FILL = Write("fill")
FREED = Write("freed")
UNDEFINED = Write("undefined")


def agree(expected: Write, seen: Write) -> bool:
    """Whether a byte that holds ``seen`` is, whatever partial writes touched, the byte that was expected."""
    while True:
        if expected is seen or expected.kind == "undefined":
            return True
        if expected.kept is None or seen.kept is None:
            return expected == seen
        if replace(expected, kept=None) != replace(seen, kept=None):
            return False
        expected, seen = expected.kept, seen.kept


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that went wrong on a path, at one read (or write) of one instruction.

    ``kind`` is one of

    * clobbered: the bytes are of another write;
    * unwritten: a slot that nothing defines reads bytes that nobody wrote;
    * foreign-view: a presumed view reads bytes, and no tensor of just its place and size wrote them. Then its base did
      not either, whichever that is;
    * uninitialized-state: a slot that something defines is read before that, and finds fill;
    * scratch: unwritten or foreign-view, but the slot is used once, by an operator that is not of ExecuTorch's own, so
      that it may be working memory of that operator;
    * operand-overlap, output-overlap: inside one instruction;
    * written-constant, freed, outside-arena.

    ``role`` is how the slot is used: operand, predicate, output (of the method), update (the part of a partially
    written tensor that is kept; nobody has read it yet), result.
    ``instruction`` is None for a method's outputs. ``low`` and ``high`` bound the first bad bytes in ``space``.
    ``path`` lists the branches that a predicate decided: (call, chain, instruction, was it true).
    """

    kind: str
    role: str
    call: int
    chain: int | None
    instruction: int | None
    occurrence: int
    slot: int
    expected: Write | None
    seen: Write
    space: Space
    low: int
    high: int
    path: tuple[tuple[int, int, int, bool], ...]

    @property
    def site(self) -> tuple[object, ...]:
        """What two observations share that differ only in path, call, or iteration."""
        expected = self.expected.site if self.expected else None
        return (self.kind, self.role, self.chain, self.instruction, self.slot, expected, self.seen.site)

    def __str__(self) -> str:
        where = "the method's output" if self.instruction is None else f"[{self.instruction}]"
        if self.occurrence:
            where += f" (time {self.occurrence + 1})"
        taken = ", ".join(f"call {c} [{i}] {'true' if t else 'false'}" for c, _, i, t in self.path)
        return (
            f"{self.kind}: %{self.slot} as {self.role} of {where}, call {self.call}: "
            f"bytes {self.space[0]} {self.space[1]} {self.low}..{self.high} "
            f"hold {self.seen}; expected {self.expected}" + (f" | {taken}" if taken else "")
        )


@dataclass(slots=True)
class Result:
    """What a run found. ``exhausted``: a limit ended the search before all paths were seen."""

    observations: list[Observation] = field(default_factory=list)
    exhausted: bool = False
    paths: int = 0
    reads: int = 0

    @property
    def hazards(self) -> list[Observation]:
        """Without what is right for a host that fills arenas, what may be meant so, and what nobody has read yet."""
        return [o for o in self.observations if o.kind not in ("uninitialized-state", "scratch") and o.role != "update"]

    def kinds(self) -> Counter[str]:
        return Counter(o.kind for o in self.observations)


# --- memory -----------------------------------------------------------------------------------------------------------

Pieces = tuple[tuple[int, int, Write], ...]


class Bytes:
    """The bytes of one space, as adjacent pieces that begin at ``starts`` and have one tag each."""

    __slots__ = ("starts", "tags")

    def __init__(self, tag: Write) -> None:
        self.starts = [0]
        self.tags = [tag]

    def copy(self) -> Bytes:
        other = Bytes.__new__(Bytes)
        other.starts, other.tags = self.starts.copy(), self.tags.copy()
        return other

    def _index(self, position: int) -> int:
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.starts[middle] <= position:
                low = middle
            else:
                high = middle
        return low

    def read(self, low: int, high: int) -> Pieces:
        pieces = []
        i = self._index(low)
        while low < high:
            end = self.starts[i + 1] if i + 1 < len(self.starts) else high
            pieces.append((low, min(end, high), self.tags[i]))
            low, i = end, i + 1
        return tuple(pieces)

    def write(self, low: int, high: int, tag: Write) -> None:
        if low >= high:
            return
        first, last = self._index(low), self._index(high - 1)
        ends = self.starts[last + 1] if last + 1 < len(self.starts) else None
        starts, tags = [low], [tag]
        if self.starts[first] < low:
            starts, tags = [self.starts[first], *starts], [self.tags[first], *tags]
        if ends is None or ends > high:
            starts, tags = [*starts, high], [*tags, self.tags[last]]
        self.starts[first : last + 1] = starts
        self.tags[first : last + 1] = tags


# --- what is known of values, to tell which branches can go together --------------------------------------------------

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_SWAPPED = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}
_UNORDERED = "unordered"
Variable = tuple[str, int, int]
Assignment = dict[Variable, object]


class Terms:
    """Numbers for values: equal numbers are equal values. Nodes are tuples that refer to other nodes by number."""

    def __init__(self) -> None:
        self.nodes: list[tuple[object, ...]] = []
        self.numbers: dict[tuple[object, ...], int] = {}
        self.known: dict[tuple[tuple[int, bool], ...], bool] = {}

    def number(self, *node: object) -> int:
        if node not in self.numbers:
            self.numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self.numbers[node]

    def constant(self, value: object) -> int:
        # True == 1 == 1.0 in Python, but they are different arguments of an operator.
        return self.number("constant", type(value).__name__, value)

    def value(self, term: int) -> object:
        """The number behind a term, or None."""
        node = self.nodes[term]
        return node[2] if node[0] == "constant" else None

    def compare(self, name: str, a: int, b: int, ordered: bool, boolean: tuple[bool, bool]) -> int:
        """A comparison of two single elements; ``ordered`` excludes NaN, ``boolean`` says which are truth values."""
        x, y = self.value(a), self.value(b)
        if isinstance(x, (int, float)) and isinstance(y, (int, float)):
            return self.constant(_COMPARISONS[name](x, y))
        if isinstance(x, (int, float)):
            return self.compare(_SWAPPED[name], b, a, ordered, (boolean[1], boolean[0]))
        if boolean[0] and isinstance(y, (int, float)):
            if_true, if_false = (_COMPARISONS[name](truth, y) for truth in (1, 0))
            if if_true == if_false:
                return self.constant(if_true)
            return a if if_true else self.number("not", a)
        if all(boolean):
            no_a, no_b = self.number("not", a), self.number("not", b)
            match name:
                case "eq":
                    return self.number("not", self.number("xor", a, b))
                case "ne":
                    return self.number("xor", a, b)
                case "lt":
                    return self.number("and", no_a, b)
                case "le":
                    return self.number("or", no_a, b)
                case "gt":
                    return self.number("and", a, no_b)
                case _:
                    return self.number("or", a, no_b)
        if isinstance(y, (int, float)):
            return self.number("against constant", name, a, y, ordered)
        if a > b:
            a, b, name = b, a, _SWAPPED[name]
        return self.number("against value", name, a, b, ordered)

    def variables(self, term: int) -> set[Variable]:
        node = self.nodes[term]
        match node:
            case ("not" | "and" | "or" | "xor", *parts):
                return set().union(*(self.variables(int(p)) for p in parts))  # type: ignore[call-overload]
            case ("against constant", _, int(a), *_):
                return {("position", a, -1)}
            case ("against value", _, int(a), int(b), _):
                return {("relation", a, b)}
            case ("constant", *_):
                return set()
        return {("truth", term, -1)}

    def truth(self, term: int, given: Assignment) -> bool | None:
        """Whether the predicate holds, None while that depends on variables that are not given."""
        node = self.nodes[term]
        match node:
            case ("constant", _, value):
                return bool(value)
            case ("not", int(part)):
                inner = self.truth(part, given)
                return None if inner is None else not inner
            case ("and" | "or" | "xor" as name, int(left), int(right)):
                a, b = self.truth(left, given), self.truth(right, given)
                if name == "xor":
                    return None if a is None or b is None else a != b
                decisive = name == "or"
                if decisive in (a, b):
                    return decisive
                return None if None in (a, b) else not decisive
            case ("against constant", str(name), int(a), constant, _):
                place = given.get(("position", a, -1))
                if place is None:
                    return None
                if place == _UNORDERED:
                    return name == "ne"
                return _COMPARISONS[name](place, constant)  # type: ignore[arg-type]
            case ("against value", str(name), int(a), int(b), _):
                relation = given.get(("relation", a, b))
                if relation is None:
                    return None
                if relation == _UNORDERED:
                    return name == "ne"
                return _COMPARISONS[name](relation, 0)  # type: ignore[arg-type]
        found = given.get(("truth", term, -1))
        return None if found is None else bool(found)

    def _domain(self, variable: Variable, literals: Sequence[tuple[int, bool]]) -> list[object]:
        kind, a, b = variable
        if kind == "truth":
            return [True, False]
        comparisons = [n for n in self._comparisons(literals) if n[2] == a]
        if kind == "relation":
            ordered = any(n[0] == "against value" and n[3] == b and n[4] for n in comparisons)
            signs: list[object] = [0] if a == b else [-1, 0, 1]
            return signs if ordered else [*signs, _UNORDERED]
        found = [n for n in comparisons if n[0] == "against constant"]
        constants = sorted({float(n[3]) for n in found if not isnan(n[3])})  # type: ignore[arg-type]
        integers = any(n[4] for n in found)
        places: list[object] = []
        for low, high in zip([None, *constants], [*constants, None], strict=True):
            inside = _between(low, high, integers)
            if inside is not None:
                places.append(inside)
            if high is not None and (not integers or high == floor(high)):
                places.append(high)
        return places if integers else [*places, _UNORDERED]

    def _comparisons(self, literals: Sequence[tuple[int, bool]]) -> Iterator[tuple[object, ...]]:
        todo = [t for t, _ in literals]
        while todo:
            node = self.nodes[todo.pop()]
            if node[0] in ("not", "and", "or", "xor"):
                todo.extend(node[1:])  # type: ignore[arg-type]
            elif node[0] in ("against constant", "against value"):
                yield node

    def possible(self, literals: Sequence[tuple[int, bool]]) -> bool:
        """Whether all the predicates can have these truth values at once, by trying."""
        # Only what is connected with the newest literal can have become contradictory.
        newest = literals[-1]
        joined, reached = [newest], self.variables(newest[0])
        rest = list(dict.fromkeys(literals[:-1]))
        while True:
            more = [x for x in rest if self.variables(x[0]) & reached]
            if not more:
                break
            joined += more
            rest = [x for x in rest if x not in more]
            reached = reached.union(*(self.variables(t) for t, _ in more))
        key = tuple(sorted(set(joined)))
        if key not in self.known:
            self.known[key] = self._try(sorted(reached), key, {})
        return self.known[key]

    def _try(self, free: list[Variable], literals: Sequence[tuple[int, bool]], given: Assignment) -> bool:
        for term, wanted in literals:
            if self.truth(term, given) not in (wanted, None):
                return False
        if not free:
            return True
        first, *others = free
        return any(self._try(others, literals, {**given, first: v}) for v in self._domain(first, literals))


def _between(low: float | None, high: float | None, integers: bool) -> float | None:
    """Some number strictly between the two, None where there is none."""
    if low is None and high is None:
        return 0
    if low is None:
        assert high is not None
        return ceil(high) - 1
    if high is None:
        return floor(low) + 1
    if integers:
        return floor(low) + 1 if floor(low) + 1 < high else None
    return (low + high) / 2


# --- what an instruction does -----------------------------------------------------------------------------------------


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Each element of the result depends on the operands' elements at the same place only, in order of memory.
ELEMENTWISE = words(
    """abs acos acosh add alias_copy asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil clamp clone copy cos cosh detach_copy div elu eq erf exp expm1 floor
    floor_divide fmod ge gelu gt hardsigmoid hardswish hardtanh isinf isnan le leaky_relu lift_fresh_copy log log10
    log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum mul ne neg pow
    reciprocal relu relu6 remainder round rsqrt rsub sigmoid sign silu sin sinh sqrt square squeeze_copy sub tan tanh
    threshold trunc unsqueeze_copy view_copy where _clone_dim_order _to_copy _to_dim_order_copy"""
)
#: Copies that change nothing when element type and sizes stay.
COPIES = words("alias_copy clone copy detach_copy lift_fresh_copy _clone_dim_order _to_copy _to_dim_order_copy")
#: The first argument gives its sizes and dtype only.
_SHAPE_OF_FIRST = words(
    """copy copy_ fill fill_ zero zero_ new_empty new_empty_strided new_full new_ones new_zeros sym_size sym_numel
    sym_stride sym_storage_offset"""
)
_RANDOM = words(
    """bernoulli dropout multinomial native_dropout normal poisson rand rand_like randint randint_like randn randn_like
    randperm uniform"""
)
#: In-place kernels that write some elements only; the indices are data.
_PARTIAL = words(
    """index_put_ _index_put_impl_ _unsafe_index_put_ index_copy_ index_add_ index_fill_ index_reduce_ scatter_
    scatter_add_ scatter_reduce_ masked_scatter_ masked_fill_ slice_scatter_ select_scatter_ put_"""
)
OWN_NAMESPACES = words("aten dim_order_ops et_copy executorch_prim quantized_decomposed")
#: Custom operators that mutate arguments: positions of these; their out argument is a stand-in that stays as it is.
_UPDATES_ARGUMENTS = {"update_cache": (1,), "update_cache_with_indices": (1,), "sdpa_with_kv_cache": (3, 4)}


def name_of(operator: str) -> str:
    """``add`` of ``aten::add.out``."""
    return operator.partition("::")[2].partition(".")[0]


@dataclass(frozen=True, slots=True)
class Effect:
    """Slots by what a kernel does with them. ``inputs`` are the argument slots that its results depend on."""

    reads: tuple[int, ...]
    defines: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    leaves_undefined: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    own: int | None = None  # the self of an in-place kernel
    elementwise: bool = False
    pure: bool = False
    delegate: bool = False

    @property
    def one_step(self) -> bool:
        """Whether a single element can only be read before the result is written.

        With several results that is not sure, and a delegate is a program of its own.
        """
        return not self.delegate and len(self.defines) + len(self.updates) == 1


def effect_of(method: Method, kernel: Kernel, items: Callable[[int], tuple[int, ...]]) -> Effect:
    """What a kernel on tensors does; ``items`` gives the tensor slots behind an argument."""
    name = name_of(kernel.operator)
    namespace = kernel.operator.partition("::")[0]
    args = kernel.args
    in_place = name.endswith("_") and not name.endswith("__") and bool(args)
    # In place, the only repetition is the result: the first argument is read even where nothing lies between.
    rest, outs = (args[:-1], args[:1]) if in_place else _split(method, args, items)
    shape_only = name in _SHAPE_OF_FIRST or name.endswith("_like")
    inputs = rest[1:] if shape_only else rest
    reads = tuple(i for a in inputs for i in items(a))
    pure = namespace in ("aten", "dim_order_ops", "executorch_prim") and name not in _RANDOM
    elementwise = name.rstrip("_") in ELEMENTWISE or name in ELEMENTWISE
    if in_place:
        own = args[0]
        if name in _PARTIAL:
            return Effect(tuple(i for a in rest[1:] for i in items(a)), updates=(own,), inputs=rest, own=own)
        return Effect(reads, defines=(own,), inputs=inputs, own=own, elementwise=elementwise, pure=pure)
    if name in _UPDATES_ARGUMENTS and namespace != "aten":
        mutated = tuple(args[i] for i in _UPDATES_ARGUMENTS[name])
        kept = tuple(r for r in reads if r not in mutated)
        done = outs if name.startswith("sdpa") else ()
        # sdpa_with_kv_cache also attends over the whole cache.
        seen = reads if name.startswith("sdpa") else kept
        return Effect(seen, done, mutated, () if done else outs, rest)
    if name.startswith(("empty", "_empty", "new_empty")):
        return Effect((), leaves_undefined=outs)
    return Effect(reads, defines=outs, inputs=inputs, elementwise=elementwise, pure=pure)


def _split(
    method: Method, args: tuple[int, ...], items: Callable[[int], tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Arguments that are no results, and the slots of the results: the convention names every result twice."""
    if not args:
        return (), ()
    last, rest = args[-1], args[:-1]
    outs = items(last)
    if isinstance(method.values[last], Tensor):
        return (rest[:-1] if rest and rest[-1] == last else rest), outs
    if not outs:
        return rest, ()
    if rest and items(rest[-1]) == outs:
        return rest[:-1], outs
    if rest[-len(outs) :] == outs:
        return rest[: -len(outs)], outs
    return rest, outs


_ARITHMETIC: dict[str, Callable[..., object]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "truediv": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "sym_float": float,
    "sym_max": max,
    "sym_min": min,
    "sym_not": lambda a: not a,
    "sym_ite": lambda c, a, b: a if c else b,
    "ceil": ceil,
    "floor": floor,
    "round": round,
    "trunc": trunc,
}


def delegate_outputs(method: Method) -> dict[tuple[int, int], int]:
    """How many trailing arguments of each delegate call are its results, guessed where the program does not say."""
    defined: set[int] = set(method.inputs)
    read: Counter[int] = Counter(method.outputs)
    for _, _, instruction in method.instructions():
        match instruction:
            case Kernel(_, args):
                effect = effect_of(method, instruction, method.tensors_of)
                defined.update(effect.defines, effect.updates, effect.leaves_undefined)
                if name_of(instruction.operator) in ("et_copy_index", "et_view"):
                    defined.add(args[0] if "copy" in instruction.operator else args[-1])
                read.update(effect.reads)
            case DelegateCall(_, args):
                read.update(args)
            case Move(source, target) | Alias(source, target):
                defined.add(target)
                read[source] += 1
            case JumpFalse(condition, _):
                read[condition] += 1
            case Free():
                pass
    for slot, value in enumerate(method.values):
        if isinstance(value, Tensor) and (value.is_constant or value.initial is not None):
            defined.add(slot)
    found: dict[tuple[int, int], int] = {}
    for c, i, instruction in method.instructions():
        if not isinstance(instruction, DelegateCall):
            continue
        args = instruction.args
        count = 0
        if instruction.outputs is not None:
            count = instruction.outputs
        else:
            while count < len(args) and method.is_tensor(args[-1 - count]) and args[-1 - count] not in defined:
                count += 1
            # A view without an instruction of its own looks like a result; but a result is used by something else.
            while count > 1 and read[args[-count]] <= 1:
                count -= 1
        found[c, i] = max(count, 1) if args else 0
        defined.update(args[len(args) - found[c, i] :])
    return found


# --- running ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a read through a slot must find: tags by position within the tensor, and the number of its value."""

    expected: Pieces
    term: int


@dataclass(slots=True)
class State:
    """One execution, somewhere in the middle."""

    memory: dict[Space, Bytes]
    place: dict[int, tuple[Space, int]]  # of each tensor object; an object is named after the slot that owns it
    objects: dict[int, int]  # slot -> tensor object
    meanings: dict[int, Meaning]
    views: dict[int, tuple[tuple[int, int], Meaning]]  # slot -> when it was first read, what it means since then
    persistent: dict[tuple[int, int, int], Meaning]  # state by place: the last definition through any of its slots
    numbers: dict[int, int]  # slot -> term
    lists: dict[int, tuple[int, ...]]
    literals: list[tuple[int, bool]]
    path: tuple[tuple[int, int, int, bool], ...] = ()
    call: int = 0
    chain: int = 0
    index: int = 0
    jumps_back: int = 0
    times: dict[tuple[int, int], int] = field(default_factory=dict)
    guesses: dict[tuple[int, int], int] = field(default_factory=dict)

    def fork(self) -> State:
        return replace(
            self,
            memory={s: b.copy() for s, b in self.memory.items()},
            place=self.place.copy(),
            objects=self.objects.copy(),
            meanings=self.meanings.copy(),
            views=self.views.copy(),
            persistent=self.persistent.copy(),
            numbers=self.numbers.copy(),
            lists=self.lists.copy(),
            literals=self.literals.copy(),
            times=self.times.copy(),
            guesses=self.guesses.copy(),
        )


class _LimitError(Exception):
    pass


class Oracle:
    """Runs one method. Make one for each run."""

    def __init__(self, method: Method, calls: int, path_limit: int, step_limit: int, loop_limit: int) -> None:
        self.method = method
        self.calls = calls
        self.path_limit = path_limit
        self.steps_left = step_limit
        self.loop_limit = loop_limit
        self.terms = Terms()
        self.result = Result()
        self.found: dict[tuple[object, ...], Observation] = {}
        self.term_of: dict[Write, int] = {}
        self.move_targets = {x.target for _, _, x in method.instructions() if isinstance(x, Move)}
        self.updated = self._updated()
        self.uses = Counter(s for _, _, x in method.instructions() for s in _named(x))
        self.delegate_outputs = delegate_outputs(method)
        self.defined_somewhere = self._defined_somewhere()
        self.members = self._state_members()
        self.wrong: set[int] = set()  # operands of the current instruction that are not what was expected

    # --- preparations

    def _defined_somewhere(self) -> set[int]:
        """Slots through which something is defined: all others are presumed to be views."""
        method = self.method
        found = set(method.inputs)
        for c, i, instruction in method.instructions():
            match instruction:
                case Kernel(operator, args):
                    if name_of(operator) == "et_copy_index":
                        found.add(args[0])
                    elif name_of(operator) == "et_view":
                        found.add(args[-1])
                    else:
                        effect = effect_of(method, instruction, method.tensors_of)
                        found.update(effect.defines, effect.updates, effect.leaves_undefined)
                case DelegateCall(_, args):
                    found.update(args[len(args) - self.delegate_outputs[c, i] :])
                case Move(_, target) | Alias(_, target):
                    found.add(target)
        return found

    def _updated(self) -> set[int]:
        """Slots that an in-place kernel writes, which is what states are made for."""
        found: set[int] = set()
        for _, _, x in self.method.instructions():
            if isinstance(x, Kernel) and not name_of(x.operator).startswith("et_"):
                effect = effect_of(self.method, x, self.method.tensors_of)
                found.update(effect.updates, () if effect.own is None else (effect.own,))
        return {s for s in found if self.method.is_tensor(s)}

    def _state_members(self) -> dict[int, tuple[int, int, int]]:
        """Slots that loading writes, by their place: a view of a state carries its initial contents as well."""
        members = {}
        for slot, t in enumerate(self.method.values):
            if isinstance(t, Tensor) and t.initial is not None and t.planned:
                members[slot] = (t.planned.arena, t.planned.offset, t.nbytes)
        return members

    def _load(self) -> State:
        state = State({}, {}, {}, {}, {}, {}, {}, {}, [])
        for slot, value in enumerate(self.method.values):
            match value:
                case Tensor():
                    state.objects[slot] = slot
                    state.place[slot] = _own_place(slot, value)
                    if value.is_constant:
                        self._bytes(state, state.place[slot][0])
                case Scalar():
                    state.numbers[slot] = self.terms.constant(value.value)
                case TensorList(items):
                    state.lists[slot] = tuple(i for i in items if i >= 0)
        for slot, key in self.members.items():
            t = self.method.tensor(slot)
            tag = Write("load", slot=f"{t.initial} at {key[0]}+{key[1]}", tensor=self._region(state, slot))
            meaning = Meaning(_whole(t.nbytes, tag), self.terms.number("tag", tag))
            self._paint(state, slot, 0, t.nbytes, tag)
            state.meanings[slot] = meaning
            state.persistent[key] = meaning
        return state

    # --- memory

    def _bytes(self, state: State, space: Space) -> Bytes:
        if space not in state.memory:
            tag = FILL
            if space[0] == "constant":
                tag = Write("constant", slot=space[1])
            elif space[0] == "caller":
                tag = Write("caller", call=state.call, slot=space[1])
            state.memory[space] = Bytes(tag)
        return state.memory[space]

    def _size(self, state: State, slot: int) -> int:
        return self.method.tensor(state.objects[slot]).nbytes

    def _region(self, state: State, slot: int) -> tuple[Space, int, int]:
        space, offset = state.place[state.objects[slot]]
        return space, offset, offset + self._size(state, slot)

    def _paint(self, state: State, slot: int, low: int, high: int, tag: Write) -> None:
        space, offset = state.place[state.objects[slot]]
        self._bytes(state, space).write(offset + low, offset + high, tag)

    def _times(self, state: State) -> int:
        return state.times.get((state.chain, state.index), 0)

    def _tag(self, state: State, slot: int) -> Write:
        tensor = self._region(state, slot) if slot in state.objects else None
        return Write("instruction", state.call, state.chain, state.index, self._times(state), slot, None, tensor)

    def _observe(
        self, state: State, kind: str, role: str, slot: int, expected: Write | None, seen: Write, low: int, high: int
    ) -> None:
        space, _ = state.place[state.objects[slot]]
        instruction = None if role == "output" else state.index
        chain = None if role == "output" else state.chain
        times = 0 if role == "output" else self._times(state)
        o = Observation(
            kind, role, state.call, chain, instruction, times, slot, expected, seen, space, low, high, state.path
        )  # fmt: skip
        before = self.found.get(o.site)
        if before is None or (o.call, len(o.path)) < (before.call, len(before.path)):
            self.found[o.site] = o

    def _check_bounds(self, state: State, role: str, slot: int) -> None:
        space, low, high = self._region(state, slot)
        if space[0] != "arena" or low == high:
            return
        arena = self.method.arenas.get(int(space[1]))
        if arena is None or high > arena.size:
            self._observe(state, "outside-arena", role, slot, None, FILL, low, high)

    # --- meanings

    def _is_view(self, slot: int) -> bool:
        """Whether the slot is presumed to be a view: it has planned bytes, and nothing defines it."""
        t = self.method.tensor(slot)
        return slot not in self.defined_somewhere and t.planned is not None and t.fqn is None

    def _meaning(self, state: State, slot: int) -> Meaning:
        """What slot ``slot`` means now."""
        if self._is_view(slot):
            now = (state.call, state.jumps_back)
            when, meaning = state.views.get(slot, (None, None))
            if when != now or meaning is None:
                meaning = self._first_sight(state, slot)
                state.views[slot] = (now, meaning)
            return meaning
        if slot not in state.meanings:
            t = self.method.tensor(slot)
            tag = FILL
            if isinstance(t.placement, Constant):
                tag = Write("constant", slot=t.placement.key)
            elif state.place[slot][0][0] == "caller":
                # Memory of the caller, or a stand-in for it: nothing says what it holds.
                tag = UNDEFINED
            state.meanings[slot] = Meaning(_whole(t.nbytes, tag), self.terms.number("slot", slot, state.call))
        return state.meanings[slot]

    def _first_sight(self, state: State, slot: int) -> Meaning:
        if slot in self.members:
            return state.persistent[self.members[slot]]
        return self._as_it_is(state, slot)

    def _as_it_is(self, state: State, slot: int) -> Meaning:
        """The meaning of a slot that means whatever its bytes hold."""
        space, low, high = self._region(state, slot)
        pieces = self._bytes(state, space).read(low, high) if low < high else ()
        seen = tuple((a - low, b - low, tag) for a, b, tag in pieces)
        if len(seen) == 1 and seen[0][2] in self.term_of and self._single(state, slot):
            return Meaning(seen, self.term_of[seen[0][2]])
        # The same tags are the same bytes, but not the same value: the view may have other sizes than its base.
        return Meaning(seen, self.terms.number("bytes", seen, self.method.tensor(slot).sizes))

    def _define(self, state: State, slot: int, meaning: Meaning) -> None:
        state.meanings[slot] = meaning
        if len(meaning.expected) == 1:
            self.term_of[meaning.expected[0][2]] = meaning.term
        if state.objects[slot] in self.members:
            state.persistent[self.members[state.objects[slot]]] = meaning

    def _read(self, state: State, slot: int, role: str) -> bool:
        """Compares; returns whether every byte was as expected."""
        self.result.reads += 1
        self._check_bounds(state, role, slot)
        meaning = self._meaning(state, slot)
        space, offset, end = self._region(state, slot)
        clean = True
        for low, high, expected in meaning.expected:
            if low >= high:
                continue
            for a, b, seen in self._bytes(state, space).read(offset + low, min(offset + high, end)):
                if seen.kind == "freed":
                    kind = "freed"
                elif not agree(expected, seen):
                    kind = "clobbered"
                elif self._is_foreign(state, slot, seen):
                    kind = "foreign-view"
                elif seen.kind == "fill" and expected.kind != "undefined":
                    kind = self._kind_of_fill(slot, state.objects[slot])
                else:
                    continue
                if kind in ("unwritten", "foreign-view") and self._may_be_scratch(state, slot):
                    kind = "scratch"
                self._observe(state, kind, role, slot, expected, seen, a, b)
                clean = clean and kind == "uninitialized-state"
        return clean

    def _read_all(self, state: State, slots: Sequence[int]) -> bool:
        self.wrong = {s for s in slots if not self._read(state, s, "operand")}
        return not self.wrong

    def _is_foreign(self, state: State, slot: int, seen: Write) -> bool:
        """Whether the bytes that a presumed view finds cannot be those of its base, which has its place and size."""
        if seen.kind == "fill" or not self._is_view(slot):
            return False
        return seen.tensor != self._region(state, slot)

    def _may_be_scratch(self, state: State, slot: int) -> bool:
        if state.chain >= len(self.method.chains):
            return False
        x = self.method.chains[state.chain][state.index]
        custom = isinstance(x, Kernel) and x.operator.partition("::")[0] not in OWN_NAMESPACES
        return custom and self.uses[slot] == 1

    def _kind_of_fill(self, slot: int, owner: int) -> str:
        """Fill is fine in a state without initial contents; anywhere else somebody should have written."""
        for s in (slot, owner):
            defined = s in self.defined_somewhere and s not in self.move_targets
            if defined or self.method.tensor(s).fqn is not None:
                return "uninitialized-state"
        mine = self.method.tensor(owner).planned
        if any(self.method.tensor(s).planned == mine for s in self.updated):
            return "uninitialized-state"
        return "unwritten"

    # --- instructions

    def _items(self, state: State, slot: int) -> tuple[int, ...]:
        if slot in state.objects:
            return (slot,)
        return state.lists.get(slot, ())

    def _term(self, state: State, slot: int) -> int:
        """The number of an argument of any kind."""
        value = self.method.values[slot]
        if slot in state.objects:
            if slot in self.wrong:
                # Whatever it is, nothing is known of it.
                return self.terms.number("wrong", self._tag(state, slot))
            return self._meaning(state, slot).term
        if slot in state.lists:
            return self.terms.number("list", *(self._term(state, i) for i in state.lists[slot]))
        if isinstance(value, NumberList):
            if value.kind == "ints":
                return self.terms.number("ints", *(state.numbers[int(i)] for i in value.items))
            return self.terms.number(value.kind, *(self.terms.constant(i) for i in value.items))
        return state.numbers.get(slot, self.terms.constant(None))

    def _single(self, state: State, slot: int) -> bool:
        """One element, or a number."""
        return slot not in state.objects or prod(self.method.tensor(state.objects[slot]).sizes) == 1

    def _dtype(self, state: State, slot: int) -> str:
        if slot in state.objects:
            return self.method.tensor(state.objects[slot]).dtype
        value = self.terms.value(state.numbers[slot]) if slot in state.numbers else None
        if isinstance(value, bool):
            return "bool"
        return "i64" if isinstance(value, int) else "f64"

    def _result_term(self, state: State, kernel: Kernel, effect: Effect, out: int, tag: Write) -> int:
        """The number of a kernel's result: equal for equal computations on equal values."""
        if not effect.pure or effect.updates:
            return self.terms.number("tag", tag)
        name = name_of(kernel.operator).rstrip("_")
        arguments = effect.inputs
        t = self.method.tensor(state.objects[out])
        if name in COPIES and arguments and arguments[0] in state.objects:
            source = self.method.tensor(state.objects[arguments[0]])
            if (source.dtype, source.sizes) == (t.dtype, t.sizes):
                return self._term(state, arguments[0])
        if prod(t.sizes) == 1 and t.dtype == "bool" and all(self._single(state, a) for a in arguments):
            truth = self._truth_term(state, name, arguments)
            if truth is not None:
                return truth
        which = effect.defines.index(out)
        return self.terms.number(
            kernel.operator, *(self._term(state, a) for a in arguments), "->", which, t.dtype, t.sizes
        )

    def _truth_term(self, state: State, name: str, arguments: tuple[int, ...]) -> int | None:
        if name in _COMPARISONS and len(arguments) == 2:
            a, b = arguments
            types = [self._dtype(state, x) for x in arguments]
            # A constant is never NaN; whatever else is a float may be.
            ordered = all(
                self.terms.value(self._term(state, x)) is not None or not dtype.startswith(("f", "bf"))
                for x, dtype in zip(arguments, types, strict=True)
            )
            return self.terms.compare(
                name, self._term(state, a), self._term(state, b), ordered, (types[0] == "bool", types[1] == "bool")
            )
        if any(self._dtype(state, a) != "bool" for a in arguments):
            return None
        if name in ("logical_not", "bitwise_not", "sym_not") and len(arguments) == 1:
            return self.terms.number("not", self._term(state, arguments[0]))
        for word in ("and", "or", "xor"):
            if name in (f"logical_{word}", f"bitwise_{word}") and len(arguments) == 2:
                a, b = sorted(self._term(state, x) for x in arguments)
                return self.terms.number(word, a, b)
        return None

    def _kernel(self, state: State, kernel: Kernel) -> None:
        name = name_of(kernel.operator)
        self.wrong = set()
        if name == "et_copy_index":
            self._copy_index(state, *kernel.args)
            return
        if name == "et_view":
            self._run_time_view(state, kernel.args[0], kernel.args[-1])
            return
        last = kernel.args[-1] if kernel.args else None
        if last is not None and not self._items(state, last) and not isinstance(self.method.values[last], TensorList):
            self._on_numbers(state, kernel)
            return
        effect = effect_of(self.method, kernel, lambda a: self._items(state, a))
        clean = self._read_all(state, effect.reads)
        for s in effect.updates:
            self._read(state, s, "update")
        self._check_overlaps(state, effect)
        self._use_scratch(state, effect.reads)
        if self._copies_onto_itself(state, kernel, effect):
            source, target = effect.reads[0], effect.defines[0]
            self._result(state, target)
            # A wrong source has been observed; from here on, the target means what it got.
            self._define(state, target, self._meaning(state, source) if clean else self._as_it_is(state, target))
            return
        tags = {out: self._tag(state, out) for out in effect.defines}
        meanings = {}
        for out, tag in tags.items():
            term = self._result_term(state, kernel, effect, out, tag)
            meanings[out] = Meaning(_whole(self._size(state, out), tag), term)
        for out, tag in tags.items():
            self._result(state, out)
            self._paint(state, out, 0, self._size(state, out), tag)
        for out, meaning in meanings.items():
            self._define(state, out, meaning)
        for s in effect.updates:
            self._result(state, s)
            self._may_write(state, s)
        for s in effect.leaves_undefined:
            self._check_bounds(state, "result", s)
            term = self.terms.number("tag", self._tag(state, s))
            self._define(state, s, Meaning(_whole(self._size(state, s), UNDEFINED), term))

    def _copies_onto_itself(self, state: State, kernel: Kernel, effect: Effect) -> bool:
        """A copy whose source bytes are its target bytes changes nothing: both slots mean the source's value then."""
        name = name_of(kernel.operator)
        if name not in COPIES | {"copy_"} or len(effect.reads) != 1 or len(effect.defines) != 1:
            return False
        source, target = effect.reads[0], effect.defines[0]
        x, y = (self.method.tensor(state.objects[s]) for s in (source, target))
        same_place = self._region(state, source) == self._region(state, target)
        return same_place and x.dtype == y.dtype and self._same_order(x, y)

    def _use_scratch(self, state: State, slots: Sequence[int]) -> None:
        for slot in slots:
            space, low, high = self._region(state, slot)
            if low < high and self._is_view(slot) and self._may_be_scratch(state, slot):
                seen = self._bytes(state, space).read(low, high)
                if any(tag.kind == "fill" or self._is_foreign(state, slot, tag) for _, _, tag in seen):
                    self._may_write(state, slot)

    def _result(self, state: State, slot: int) -> None:
        self._check_bounds(state, "result", slot)
        space, low, high = self._region(state, slot)
        if space[0] == "constant" and low < high:
            self._observe(state, "written-constant", "result", slot, None, self._tag(state, slot), low, high)

    def _may_write(self, state: State, slot: int) -> None:
        """Any byte may have been written, or kept."""
        tag = self._tag(state, slot)
        expected = tuple((a, b, replace(tag, kept=old)) for a, b, old in self._meaning(state, slot).expected)
        space, low, high = self._region(state, slot)
        for a, b, old in self._bytes(state, space).read(low, high) if low < high else ():
            self._bytes(state, space).write(a, b, replace(tag, kept=old))
        self._define(state, slot, Meaning(expected, self.terms.number("tag", tag)))

    def _check_overlaps(self, state: State, effect: Effect) -> None:
        written = [*effect.defines, *effect.updates]
        for n, out in enumerate(written):
            for other in written[n + 1 :]:
                self._overlap(state, "output-overlap", "result", other, out)
            operands = list(dict.fromkeys(effect.reads))
            for operand in operands:
                if operand == effect.own and effect.reads.count(operand) == 1 and not effect.updates:
                    continue
                if not self._harmless(state, operand, out, effect):
                    self._overlap(state, "operand-overlap", "operand", operand, out)

    def _overlap(self, state: State, kind: str, role: str, slot: int, out: int) -> None:
        space, low, high = self._region(state, slot)
        other, a, b = self._region(state, out)
        low, high = max(low, a), min(high, b)
        if space == other and low < high:
            self._observe(state, kind, role, slot, None, self._tag(state, out), low, high)

    def _harmless(self, state: State, operand: int, out: int, effect: Effect) -> bool:
        """An element is read before the same element is written."""
        x, y = (self.method.tensor(state.objects[s]) for s in (operand, out))
        if effect.one_step and all(self._single(state, s) for s in (*effect.reads, out)):
            return True
        same_place = self._region(state, operand) == self._region(state, out)
        return effect.elementwise and same_place and x.itemsize == y.itemsize and self._same_order(x, y)

    def _same_order(self, x: Tensor, y: Tensor) -> bool:
        return _order(x) == _order(y) or (len(x.sizes) != len(y.sizes) and _in_order(x) and _in_order(y))

    def _copy_index(self, state: State, out: int, source: int, index: int) -> None:
        self._read(state, source, "operand")
        self._result(state, out)
        t = self.method.tensor(state.objects[out])
        row = t.nbytes // t.sizes[0] if t.sizes and t.sizes[0] else t.nbytes
        position = self.terms.value(state.numbers[index])
        if not isinstance(position, int):
            self._overlap(state, "operand-overlap", "operand", source, out)
            self._may_write(state, out)
            return
        low, high = position * row, min((position + 1) * row, t.nbytes)
        space, a, b = self._region(state, source)
        other, start, _ = self._region(state, out)
        if space == other and max(a, start + low) < min(b, start + high) and (a, b) != (start + low, start + high):
            self._overlap(state, "operand-overlap", "operand", source, out)
        tag = self._tag(state, out)
        before = self._meaning(state, out).expected if position else ()
        kept = tuple((x, min(y, low), old) for x, y, old in before if x < low)
        self._paint(state, out, low, high, tag)
        self._define(state, out, Meaning((*kept, (low, high, tag)), self.terms.number("tag", tag)))

    def _run_time_view(self, state: State, source: int, target: int) -> None:
        meaning = self._meaning(state, source)
        state.place[state.objects[target]] = state.place[state.objects[source]]
        sizes = self.method.tensor(state.objects[target]).sizes
        state.meanings[target] = Meaning(meaning.expected, self.terms.number("resized", meaning.term, sizes))

    def _on_numbers(self, state: State, kernel: Kernel) -> None:
        """An operator whose result is a number."""
        name = name_of(kernel.operator)
        *arguments, out = kernel.args
        state.numbers[out] = self._number_of(state, name, kernel.operator, arguments)

    def _number_of(self, state: State, name: str, operator: str, arguments: list[int]) -> int:
        opaque = self.terms.number("tag", self._tag(state, -1))
        if name == "sym_size":
            dim = self.terms.value(state.numbers[arguments[1]])
            sizes = self.method.tensor(state.objects[arguments[0]]).sizes
            return self.terms.constant(sizes[dim]) if isinstance(dim, int) else opaque
        if name == "sym_numel":
            return self.terms.constant(prod(self.method.tensor(state.objects[arguments[0]]).sizes))
        tensors = [s for a in arguments for s in self._items(state, a)]
        self._read_all(state, tensors)
        if name in ("_local_scalar_dense", "item") and len(arguments) == 1:
            return self._term(state, arguments[0])
        if tensors:
            return opaque
        values = [self.terms.value(self._term(state, a)) for a in arguments]
        if None not in values and name in _ARITHMETIC:
            return self.terms.constant(_ARITHMETIC[name](*values))
        if name in _COMPARISONS or name == "sym_not":
            truth = self._truth_term(state, name, tuple(arguments))
            if truth is not None:
                return truth
        return self.terms.number(operator, *(self._term(state, a) for a in arguments))

    def _delegate(self, state: State, call: DelegateCall) -> None:
        count = self.delegate_outputs[state.chain, state.index]
        cut = len(call.args) - count
        reads = tuple(s for a in call.args[:cut] for s in self._items(state, a))
        outs = tuple(s for a in call.args[cut:] for s in self._items(state, a))
        for s in reads:
            self._read(state, s, "operand")
        self._check_overlaps(state, Effect(reads, outs, delegate=True))
        for out in outs:
            self._result(state, out)
            tag = self._tag(state, out)
            self._paint(state, out, 0, self._size(state, out), tag)
            self._define(state, out, Meaning(_whole(self._size(state, out), tag), self.terms.number("tag", tag)))
        for a in call.args[cut:]:
            if a in state.numbers:
                state.numbers[a] = self.terms.number("tag", self._tag(state, a))

    def _move(self, state: State, source: int, target: int) -> None:
        for table in (state.objects, state.numbers, state.lists):
            table.pop(target, None)
        state.meanings.pop(target, None)
        if source in state.objects:
            meaning = self._meaning(state, source)
            state.objects[target] = state.objects[source]
            state.meanings[target] = meaning
        elif source in state.lists:
            state.lists[target] = state.lists[source]
        elif source in state.numbers:
            state.numbers[target] = state.numbers[source]

    def _alias(self, state: State, source: int, target: int) -> None:
        """A statement of meaning: no byte and no pointer changes."""
        if source in state.objects and target in state.objects:
            meaning = self._meaning(state, source)
            size = self._size(state, target)
            kept = tuple((a, min(b, size), tag) for a, b, tag in meaning.expected if a < size)
            sizes = [self.method.tensor(state.objects[s]).sizes for s in (source, target)]
            term = meaning.term if sizes[0] == sizes[1] else self.terms.number("resized", meaning.term, sizes[1])
            self._define(state, target, Meaning(kept, term))
        elif source in state.numbers:
            state.numbers[target] = state.numbers[source]

    def _free(self, state: State, slot: int) -> None:
        if slot in state.objects:
            state.place[state.objects[slot]] = (("heap", state.objects[slot]), 0)
            self._paint(state, slot, 0, self._size(state, slot), FREED)

    def _predicate(self, state: State, slot: int) -> int:
        if slot in state.numbers:
            return state.numbers[slot]
        clean = self._read(state, slot, "predicate")
        elements = prod(self.method.tensor(state.objects[slot]).sizes)
        if elements == 0:
            return self.terms.constant(True)
        if not clean:
            return self.terms.number("tag", self._tag(state, slot))
        term = self._meaning(state, slot).term
        # Only for a single element is "not all true" the same as "all false".
        return term if elements == 1 else self.terms.number("all", term)

    # --- paths

    def run(self) -> Result:
        start = self._load()
        start.call = 1
        self._stage(start)
        waiting = [start]
        try:
            while waiting:
                if self.result.paths >= self.path_limit:
                    raise _LimitError
                self._run_path(waiting.pop(), waiting)
                self.result.paths += 1
        except _LimitError:
            self.result.exhausted = True
        self.result.observations = list(self.found.values())
        return self.result

    def _run_path(self, state: State, waiting: list[State]) -> None:
        """Follows one execution to its end; what else could have happened is put on ``waiting``."""
        while True:
            chains = self.method.chains
            if state.chain >= len(chains):
                for out in self.method.outputs:
                    for s in self._items(state, out):
                        self._read(state, s, "output")
                if state.call == self.calls:
                    return
                self._next_call(state)
                continue
            if state.index >= len(chains[state.chain]):
                state.chain, state.index = state.chain + 1, 0
                continue
            self.steps_left -= 1
            if self.steps_left < 0:
                raise _LimitError
            here = (state.chain, state.index)
            instruction = chains[state.chain][state.index]
            if isinstance(instruction, JumpFalse):
                if not self._jump(state, instruction, waiting):
                    return
            else:
                self._execute(state, instruction)
                state.index += 1
            state.times[here] = state.times.get(here, 0) + 1

    def _execute(self, state: State, instruction: Instruction) -> None:
        match instruction:
            case Kernel():
                self._kernel(state, instruction)
            case DelegateCall():
                self._delegate(state, instruction)
            case Move(source, target):
                self._move(state, source, target)
            case Alias(source, target):
                self._alias(state, source, target)
            case Free(slot):
                self._free(state, slot)

    def _jump(self, state: State, jump: JumpFalse, waiting: list[State]) -> bool:
        """Goes on with one outcome and queues the other; returns False where no outcome may be followed."""
        term = self._predicate(state, jump.condition)
        here = (state.chain, state.index)
        decided = self.terms.truth(term, {})
        outcomes = [o for o in (True, False) if decided in (o, None)]
        if decided is None:
            outcomes = [o for o in outcomes if self.terms.possible([*state.literals, (term, o)])]
            if jump.target <= state.index and False in outcomes:
                state.guesses[here] = state.guesses.get(here, 0) + 1
                if state.guesses[here] > self.loop_limit:
                    self.result.exhausted = True
                    outcomes.remove(False)
        if not outcomes:
            return False
        others = [state.fork() for _ in outcomes[1:]]
        for outcome, s in zip(outcomes, (state, *others), strict=True):
            if decided is None:
                s.literals.append((term, outcome))
                s.path = (*s.path, (s.call, *here, outcome))
            if outcome:
                s.index += 1
            else:
                s.jumps_back += jump.target <= s.index
                s.index = jump.target
        for s in others:
            s.times[here] = s.times.get(here, 0) + 1
        waiting.extend(others)
        return True

    def _next_call(self, state: State) -> None:
        state.call += 1
        state.chain = state.index = state.jumps_back = 0
        state.times.clear()
        state.guesses.clear()
        for slot in list(state.meanings):
            if self.method.is_tensor(slot) and self.method.tensor(slot).is_constant:
                del state.meanings[slot]
        self._stage(state)

    def _stage(self, state: State) -> None:
        for slot in self.method.inputs:
            if slot not in state.objects:
                continue
            planned = self.method.tensor(slot).planned is not None
            if not planned:
                state.place[state.objects[slot]] = (("caller", slot), 0)
            kind = "stage" if planned else "caller"
            tag = Write(kind, call=state.call, slot=slot, tensor=self._region(state, slot))
            self._check_bounds(state, "result", slot)
            self._paint(state, slot, 0, self._size(state, slot), tag)
            meaning = Meaning(_whole(self._size(state, slot), tag), self.terms.number("tag", tag))
            self._define(state, slot, meaning)


def _named(instruction: Instruction) -> tuple[int, ...]:
    match instruction:
        case Kernel(_, args) | DelegateCall(_, args):
            return args
        case Move(source, target) | Alias(source, target):
            return (source, target)
        case JumpFalse(slot, _) | Free(slot):
            return (slot,)
    raise TypeError(instruction)


def _own_place(slot: int, t: Tensor) -> tuple[Space, int]:
    match t.placement:
        case Planned(arena, offset):
            return ("arena", arena), offset
        case Constant(key):
            return ("constant", key), 0
    return (("heap" if t.dynamism is Dynamism.UNBOUND else "caller"), slot), 0


def _whole(size: int, tag: Write) -> Pieces:
    return ((0, size, tag),) if size else ()


def _order(t: Tensor) -> tuple[int, ...]:
    return t.layout if t.layout is not None else tuple(range(len(t.sizes)))


def _in_order(t: Tensor) -> bool:
    return _order(t) == tuple(range(len(t.sizes)))


def run(
    method: Method, calls: int = 2, path_limit: int = 4096, step_limit: int = 2_000_000, loop_limit: int = 3
) -> Result:
    """Runs every path of up to ``calls`` calls.

    ``loop_limit`` bounds the iterations of a loop whose condition is not known; a counted loop runs to its end.
    """
    result = Oracle(method, calls, path_limit, step_limit, loop_limit).run()
    if result.exhausted and calls > 1:
        # The search goes deep first; the first call must not starve because of the second.
        shallow = run(method, calls - 1, path_limit, step_limit, loop_limit)
        sites = {o.site for o in result.observations}
        result.observations += [o for o in shallow.observations if o.site not in sites]
    return result


def main(paths: Sequence[str]) -> int:
    """Prints what is observed in each file; returns 1 if there is a hazard among it."""
    worst = 0
    for path in paths:
        for method in load(path).methods:
            result = run(method)
            end = " (limits reached: not all paths were run)" if result.exhausted else ""
            print(f"{path}: {method.name}: {result.paths} paths, {result.reads} reads{end}")
            for o in result.observations:
                print(f"  {o}")
            worst = max(worst, int(bool(result.hazards)))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
