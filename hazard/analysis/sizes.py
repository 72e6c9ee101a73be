"""Sizes as expressions over the export's symbols: which tensors can have a byte in common, and at which sizes.

Expressions are those that sympy prints (``8*s0``, ``s0//2 + 1``, ``Max(1, s0)``, ``s0 > 3``). Concrete sizes settle
nearly everything; only what they leave open is put to z3.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hazard.program import Dynamism, Method, Tensor

Ranges = Mapping[str, tuple[int, int | None]]
Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression, the symbols in it, and whether it is a truth rather than a number."""

    text: str
    symbols: frozenset[str]
    truth: bool


_FUNCTIONS: Final = {
    "FloorDiv": "floor", "CleanDiv": "floor", "Mod": "mod", "PythonMod": "mod", "Max": "max", "Min": "min", "Eq": "eq",
    "Ne": "ne", "And": "and", "Or": "or", "Not": "not", "CeilDiv": "ceil",
}  # fmt: skip
_BINARY: Final[dict[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floor", ast.Mod: "mod", ast.Pow: "pow",
    ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
_COMPARE: Final[dict[type, str]] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_UNARY: Final[dict[type, str]] = {ast.USub: "neg", ast.Not: "not", ast.Invert: "not"}

#: How each operator is computed on numbers.
PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor": lambda a, b: a // b,
    "ceil": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}


@cache
def parsed(text: str) -> Expression | None:
    """The expression, or None for one that is not understood."""
    try:
        tree = ast.parse(text, mode="eval").body
        symbols: set[str] = set()

        def number(value: int | bool) -> None:
            return None

        fold(tree, number, symbols.add, lambda name, *args: None)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Expression(text, frozenset(symbols), _is_truth(tree))


def _is_truth(tree: Any) -> bool:
    match tree:
        case ast.Compare() | ast.BinOp(op=ast.BitAnd() | ast.BitOr()) | ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return True
        case ast.Call(ast.Name(name)):
            return _FUNCTIONS.get(name) in ("eq", "ne", "and", "or", "not")
        case ast.Constant(value):
            return isinstance(value, bool)
    return False


@cache
def tree_of(expression: Expression) -> Any:
    """The expression as a tree of Python's grammar."""
    return ast.parse(expression.text, mode="eval").body


def fold(
    tree: Any, number: Callable[[int | bool], Any], symbol: Callable[[str], Any], apply: Callable[..., Any]
) -> Any:
    """Computes a tree of Python's grammar. Raises ValueError for what is no size."""

    def walk(node: Any) -> Any:
        match node:
            case ast.Constant(value) if isinstance(value, int):
                return number(value)
            case ast.Name("True" | "true"):
                return number(True)
            case ast.Name("False" | "false"):
                return number(False)
            case ast.Name(name):
                return symbol(name)
            case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
                if isinstance(operator, ast.Pow) and not isinstance(right, ast.Constant):
                    raise ValueError("a power of a symbol")
                return apply(_BINARY[type(operator)], walk(left), walk(right))
            case ast.UnaryOp(operator, operand) if type(operator) in _UNARY:
                return apply(_UNARY[type(operator)], walk(operand))
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARE:
                return apply(_COMPARE[type(operator)], walk(left), walk(right))
            case ast.Call(ast.Name(name), args, []) if name in _FUNCTIONS and args:
                values = [walk(a) for a in args]
                if len(values) == 1:
                    return apply(_FUNCTIONS[name], values[0])
                result = values[0]
                for value in values[1:]:
                    result = apply(_FUNCTIONS[name], result, value)
                return result
        raise ValueError(ast.dump(node))

    return walk(tree)


def compute(expression: Expression, sizes: Mapping[str, int]) -> int | bool:
    """The value at the given sizes. Raises KeyError for a symbol without one, ArithmeticError where there is none."""
    tree = tree_of(expression)
    result: int | bool = fold(tree, lambda v: v, sizes.__getitem__, lambda name, *args: PLAIN[name](*args))
    return result


class SymbolicBytes:
    """The extents of a method's tensors, and questions about them. Tensors whose extent is not known have all sizes."""

    def __init__(self, method: Method) -> None:
        self.ranges: dict[str, tuple[int, int | None]] = {n: (low, high) for n, low, high in method.symbols}
        self.extents: dict[int, Expression] = {}
        self._whole: dict[int, int] = {}
        for slot, value in enumerate(method.values):
            if not isinstance(value, Tensor):
                continue
            self._whole[slot] = value.nbytes
            if value.dynamism is not Dynamism.STATIC and value.extent is not None:
                expression = parsed(value.extent.expression)
                if expression is not None and expression.symbols <= self.ranges.keys():
                    self.extents[slot] = expression
        self._answers: dict[tuple[object, ...], Sizes | None] = {}

    def can_meet(self, a: int, b: int, distance: int) -> bool:
        """Whether there are sizes at which the tensors of two slots share a byte; ``distance`` as in `meeting`."""
        key = ("can", self._extent(a), self._extent(b), distance)
        if key not in self._answers:
            self._answers[key] = () if self._meet_at_largest(a, b, distance) else self.meeting(a, b, distance)
        return self._answers[key] is not None

    def _meet_at_largest(self, a: int, b: int, distance: int) -> bool:
        """Whether they do when every symbol is as large as it can be, which answers nearly all questions."""
        sizes = {name: high for name, (_, high) in self.ranges.items() if high is not None}
        near, far = (a, b) if distance >= 0 else (b, a)
        try:
            return self._nbytes(near, sizes) > abs(distance) and self._nbytes(far, sizes) > 0
        except (KeyError, ArithmeticError):
            return False

    def _nbytes(self, slot: int, sizes: Mapping[str, int]) -> int:
        expression = self.extents.get(slot)
        whole = self._whole[slot]
        return whole if expression is None else min(whole, int(compute(expression, sizes)))

    def meeting(self, a: int, b: int, distance: int, facts: Iterable[tuple[Expression, bool]] = ()) -> Sizes | None:
        """The smallest sizes at which the tensors of two slots share a byte, None if there are none.

        ``distance`` is from the first byte of ``a`` to that of ``b``. ``facts`` are predicates on sizes, and whether
        they hold on the way.
        """
        known = frozenset(facts)
        key = (self._extent(a), self._extent(b), distance, known)
        if key not in self._answers:
            self._answers[key] = self._meeting(a, b, distance, known)
        return self._answers[key]

    def _extent(self, slot: int) -> Expression | int:
        return self.extents.get(slot, self._whole[slot])

    def _meeting(self, a: int, b: int, distance: int, facts: frozenset[tuple[Expression, bool]]) -> Sizes | None:
        from hazard.analysis.solver import smallest_sizes

        first, second = self._extent(a), self._extent(b)
        near, far = (first, second) if distance >= 0 else (second, first)
        # The one that begins lower must reach beyond the first byte of the other, and both must have bytes.
        limits = [(self.extents[s], self._whole[s]) for s in (a, b) if s in self.extents]
        return smallest_sizes(self.ranges, [(near, abs(distance)), (far, 0)], limits, facts)

