"""Value numbers, and the predicates of jumps as formulas over them.

Two reads have one value number only if they read the same bytes that one definition wrote, or results of the same pure
operator on operands of the same numbers. A predicate tensor holds when all of its elements do (an empty one holds), so
only predicates of one element are taken apart: ``logical_not`` of one is its negation, comparisons of the same two
operands share one symbol with the values less, equal, greater and unordered.

A read that may see overwritten bytes gets a number of its own, so a clobbered predicate prunes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hazard.analysis.effects import Effect
from hazard.analysis.flow import Stage
from hazard.analysis.operators import COMPARISONS, base_name, namespace
from hazard.analysis.reaching import FILL, INTACT, LOAD, Reaching
from hazard.analysis.sizes import parsed
from hazard.program import Dynamism, JumpFalse, Kernel, NumberList, Scalar, Tensor, TensorList

Key = tuple[Any, ...]
#: ("atom", n) | ("size", text) | ("not", f) | ("and"|"or"|"xor", f, g) | ("cmp", n, m, answers, is_float)
Formula = tuple[Any, ...]

_MAX_DEPTH: Final = 60
_NEGATIONS: Final = ("logical_not", "bitwise_not", "sym_not")
_CONNECTIVES: Final = {
    "logical_and": "and", "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or", "logical_xor": "xor",
    "bitwise_xor": "xor",
}  # fmt: skip
_COPIES: Final = frozenset(
    "clone alias_copy view_copy _clone_dim_order lift_fresh_copy detach_copy unsqueeze_copy".split()
)


@dataclass(frozen=True, slots=True)
class Literal:
    """A jump's predicate: ``formula`` (never a negation) holds exactly when the predicate's truth is ``positive``.

    ``exact``: False when what the predicate is made of may have been overwritten, so that too little is known of it.
    ``loops``: loops whose iterations give the predicate a new value. ``free_from``: the first call in which it can be
    either: 1 if inputs decide, 2 if only state does (its first value is the program's own), 0 if constants do.
    """

    formula: Formula
    positive: bool
    loops: frozenset[int]
    free_from: int
    exact: bool


@dataclass(frozen=True, slots=True)
class _Term:
    number: int
    key: Key
    loops: frozenset[int]
    free_from: int  # see `Literal`
    one: bool  # a single element
    dtype: str


class Predicates:
    """Formulas for the jumps of a method, from the solution of `Reaching`."""

    def __init__(self, reaching: Reaching) -> None:
        self.reaching = reaching
        self.method = reaching.method
        self._terms: dict[Key, _Term] = {}
        self._by_number: list[_Term] = []
        self._definitions: dict[tuple[int, int], _Term] = {}
        self.literals: dict[int, Literal | None] = {}
        self._exactness: dict[int, bool] = {}
        self.clobbered: set[int] = set()  # jumps whose predicate may be overwritten
        for position, step in enumerate(reaching.flow.code):
            if isinstance(step, JumpFalse):
                self.literals[position] = self._literal(position, step.condition)

    def term_key(self, number: int) -> Key:
        """The structure behind a value number, for the solver."""
        return self._by_number[number].key

    def equal(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        """Whether two definitions, each an object and a position, are known to make the same value."""
        return self._definition(*a, 0).number == self._definition(*b, 0).number

    def _literal(self, position: int, slot: int) -> Literal | None:
        facts = self.reaching.reads.get((position, slot), ())
        if any(f[2] != INTACT for f in facts):
            self.clobbered.add(position)  # on some path; what it is on the others is still worth knowing
        term = self._read(position, slot, 0, intact=True)
        formula = self._formula(term)
        positive = True
        while formula[0] == "not":
            formula, positive = formula[1], not positive
        return Literal(formula, positive, term.loops, term.free_from, self._exact(term))

    def _intern(self, key: Key, loops: frozenset[int], free_from: int, one: bool, dtype: str) -> _Term:
        term = self._terms.get(key)
        if term is None:
            term = _Term(len(self._by_number), key, loops, free_from, one, dtype)
            self._terms[key] = term
            self._by_number.append(term)
        return term

    def _loops_at(self, position: int) -> frozenset[int]:
        flow = self.reaching.flow
        return frozenset(flow.loops_of.get(flow.block_of[position], ()))

    def _shape(self, slot: int) -> tuple[bool, str]:
        value = self.method.values[slot]
        if isinstance(value, Tensor):
            one = value.dynamism is Dynamism.STATIC and value.nbytes == value.itemsize
            return one, value.dtype
        return True, value.kind if isinstance(value, Scalar) else ""

    def _exact(self, term: _Term) -> bool:
        known = self._exactness.get(term.number)
        if known is None:
            parts = _parts(term.key)
            known = term.key[0] != "read" and all(self._exact(self._by_number[p]) for p in parts)
            self._exactness[term.number] = known
        return known

    def _read(self, position: int, slot: int, depth: int, intact: bool = False) -> _Term:
        """The number of what the instruction at ``position`` reads in ``slot``.

        ``intact``: on paths on which the bytes have not been overwritten.
        """
        value = self.method.values[slot]
        one, dtype = self._shape(slot)
        none: frozenset[int] = frozenset()
        reads = self.reaching.reads.get((position, slot))
        if reads is None:
            if isinstance(value, Scalar):
                return self._intern(("const", value.kind, value.value), none, 0, True, value.kind)
            if isinstance(value, Tensor) and value.is_constant:
                return self._intern(("data", str(value.placement), dtype, value.sizes), none, 0, one, dtype)
            if isinstance(value, NumberList):
                items: Key = value.items
                if value.kind == "ints":
                    items = tuple(self._read(position, int(i), depth + 1).number for i in items)
                return self._intern((value.kind, items), self._loops_at(position), 0, False, "")
            if isinstance(value, TensorList):
                parts = [self._read(position, i, depth + 1) for i in value.items if i >= 0]
                loops = none.union(*(p.loops for p in parts))
                free_from = _earliest(p.free_from for p in parts)
                return self._intern(("list", tuple(p.number for p in parts)), loops, free_from, False, "")
            return self._intern(("read", position, slot), self._loops_at(position), 1, one, dtype)
        if not intact and any(f[2] != INTACT for f in reads):
            return self._intern(("read", position, slot), self._loops_at(position), 1, one, dtype)
        definitions = {(f[0], f[1]) for f in reads}
        if len(definitions) == 1:
            ((obj, definer),) = definitions
            return self._definition(obj, definer, depth)
        # One of several definitions: which one is the same for two reads unless a definition runs between them. Those
        # of an earlier call cannot; those of this call can only in a loop.
        key = frozenset((f[0], f[1], self._in_this_call(f[1], position)) for f in reads)
        if any(here and self._loops_at(d) for _, d, here in key):
            return self._intern(("read", position, slot), self._loops_at(position), 1, one, dtype)
        kept = not any(here for _, _, here in key)
        return self._intern(("choice", key), none, 2 if kept else 1, one, dtype)

    def _in_this_call(self, definer: int, position: int) -> bool:
        """Whether a definition can reach a position without a further call in between."""
        if definer < 0:
            return False
        flow = self.reaching.flow
        a, b = flow.block_of[definer], flow.block_of[position]
        return (a == b and definer < position) or b in flow.reachable(a)

    def _definition(self, obj: int, definer: int, depth: int) -> _Term:
        one, dtype = self._shape(obj)
        none: frozenset[int] = frozenset()
        value = self.method.values[obj]
        if isinstance(value, Scalar) and value.size is not None and definer >= 0 and (size := parsed(value.size)):
            # Sizes are the caller's choice and stay for the call.
            return self._intern(("size", value.size), none, 1, True, "bool" if size.truth else dtype)
        if definer in (LOAD, FILL):
            return self._intern(("state", obj), none, 0, one, dtype)
        known = self._definitions.get((obj, definer))
        if known is not None:
            return known
        step, effect = self.reaching.flow.code[definer], self.reaching.effects[definer]
        loops = self._loops_at(definer)
        if isinstance(step, Stage):
            term = self._intern(("input", step.slot), none, 1, one, dtype)
        elif not isinstance(step, Kernel) or not _functional(effect) or depth > _MAX_DEPTH:
            term = self._intern(("definition", definer, obj), loops, 1, one, dtype)
        else:
            outs = {*effect.writes, *effect.scalars}
            operands: list[object] = []
            free_from = 0
            for arg in step.args:
                slots = self.method.tensors_of(arg) or (arg,)
                if arg in outs or all(s in outs for s in slots):
                    continue
                if arg in effect.shapes:
                    shaped = self.method.values[arg]
                    static = isinstance(shaped, Tensor) and shaped.dynamism is Dynamism.STATIC
                    if static and isinstance(shaped, Tensor) and arg not in self.reaching.roles.renamed:
                        operands.append(("sizes", shaped.sizes, shaped.dtype))
                        continue
                    part = self._intern(("shape", definer, arg), loops, 1, False, "")
                else:
                    part = self._read(definer, arg, depth + 1)
                operands.append(part.number)
                loops |= part.loops
                free_from = _earliest((free_from, part.free_from))
            which = effect.writes.index(obj) if obj in effect.writes else -1
            loops |= self._loops_at(definer)
            key: Key = ("op", step.operator, which, tuple(operands), dtype)
            if which < 0 and effect.writes:
                key = ("definition", definer, obj)
            term = self._intern(key, loops, free_from, one, dtype)
        self._definitions[(obj, definer)] = term
        return term

    # --- formulas -----------------------------------------------------------------------------------------------------

    def _formula(self, term: _Term) -> Formula:
        key = term.key
        if key[0] == "const" and isinstance(key[2], bool):
            return ("true",) if key[2] else ("not", ("true",))
        if key[0] == "size" and term.dtype == "bool":
            return ("size", key[1])
        if key[0] == "op" and term.one and term.dtype == "bool":
            name, operands = base_name(key[1]), [o for o in key[3] if isinstance(o, int)]
            parts = [self._by_number[o] for o in operands]
            truths = all(p.one and p.dtype == "bool" for p in parts)
            if name in _NEGATIONS and len(parts) == 1 and truths:
                return _negate(self._formula(parts[0]))
            if name in _CONNECTIVES and len(parts) == 2 and truths:
                return (_CONNECTIVES[name], self._formula(parts[0]), self._formula(parts[1]))
            if (
                (name in _COPIES or name == "_local_scalar_dense")
                and parts
                and parts[0].one
                and parts[0].dtype == "bool"
            ):
                return self._formula(parts[0])
            if name in COMPARISONS and len(parts) == 2 and all(p.one for p in parts):
                known = namespace(key[1]) in ("aten", "executorch_prim")
                if known and (formula := self._comparison(COMPARISONS[name], *parts)):
                    return formula
        return ("atom", term.number)

    def _comparison(self, answers: frozenset[str], a: _Term, b: _Term) -> Formula | None:
        """``answers`` are the outcomes of comparing a with b for which the predicate holds."""
        floats = {"f32", "f64", "double"}
        whole = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "int"}
        kinds = {a.dtype, b.dtype}
        if not (kinds <= whole or (kinds <= floats | {"int"} and len(kinds & {"f32", "f64"}) <= 1)):
            return None  # kernels round mixed operands in ways that the solver's numbers do not
        left, right = self._operand(a, b.dtype), self._operand(b, a.dtype)
        if left is None or right is None:
            return None
        is_float = bool(kinds & floats)
        if str(left) > str(right):
            left, right = right, left
            answers = frozenset({"<": ">", ">": "<"}.get(x, x) for x in answers)
        return ("cmp", left, right, answers, is_float)

    def _operand(self, term: _Term, other: str) -> Key | None:
        """A number of the solver: ("n", value number) or ("c", constant as the kernel sees it)."""
        while term.key[0] == "op" and base_name(term.key[1]) == "_local_scalar_dense":
            term = self._by_number[term.key[3][0]]  # the number that is in the tensor
        if term.key[0] == "size":
            return ("s", term.key[1])
        if term.key[0] != "const":
            return ("n", term.number)
        value = term.key[2]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if other == "f32":
            try:
                value = struct.unpack("<f", struct.pack("<f", value))[0]
            except (OverflowError, struct.error):
                return None
        if other == "f64":
            value = float(value)
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return None
        return ("c", value)


def _parts(key: Key) -> list[int]:
    """The value numbers that a term is made of."""
    if key[0] == "op":
        return [o for o in key[3] if isinstance(o, int)]
    if key[0] in ("list", "ints"):
        return [o for o in key[1] if isinstance(o, int)]
    return []


def _earliest(calls: Iterable[int]) -> int:
    """The first call in which something made of several parts can be either; parts that never can do not count."""
    return min((c for c in calls if c), default=0)


def _functional(effect: Effect) -> bool:
    return effect.known and effect.pure and not effect.undefined


def _negate(formula: Formula) -> Formula:
    return formula[1] if formula[0] == "not" else ("not", formula)


def symbols_of(formula: Formula) -> frozenset[str]:
    """The size symbols that a formula speaks of."""
    match formula[0]:
        case "true" | "atom":
            return frozenset()
        case "size":
            texts = [formula[1]]
        case "cmp":
            texts = [x[1] for x in formula[1:3] if x[0] == "s"]
        case _:
            return frozenset().union(*(symbols_of(f) for f in formula[1:]))
    return frozenset().union(*(e.symbols for t in texts if (e := parsed(t)) is not None))


def atoms_of(formula: Formula) -> frozenset[object]:
    """What relates a formula to others: atoms, and the value numbers that it compares."""
    match formula[0]:
        case "true":
            return frozenset()
        case "atom":
            return frozenset({("atom", formula[1])})
        case "size":
            return frozenset(("size", name) for name in symbols_of(formula))
        case "cmp":
            numbers = frozenset(x for x in formula[1:3] if x[0] == "n")
            return numbers | frozenset(("size", name) for name in symbols_of(formula))
        case "not":
            return atoms_of(formula[1])
    return atoms_of(formula[1]) | atoms_of(formula[2])
