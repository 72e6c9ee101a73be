"""Sizes that are expressions over an export's symbols, as torch's fake tensors carry them through planning."""

from __future__ import annotations

from typing import Any


class SymbolicSizes:
    """Collects the symbols of one method. Sizes that are numbers have no expression."""

    def __init__(self) -> None:
        self._symbols: dict[str, Any] = {}  # name -> range by the shape environment
        self._bounds: dict[str, int] = {}  # name -> the most that an input has room for

    def nbytes(self, value: Any, itemsize: int) -> str | None:
        """The bytes of a tensor, ``8*s0*s1``; ``value`` is its fake tensor. None if its sizes are numbers."""
        shape = getattr(value, "shape", None)
        if shape is None or all(isinstance(s, int) for s in shape):
            return None
        product: Any = itemsize
        for size in shape:
            if isinstance(size, int):
                product = product * size
            elif (expression := self._noted(size)) is None:
                return None
            else:
                product = product * expression
        return str(product)

    def expression(self, value: Any) -> str | None:
        """What a symbolic number or truth is computed to, ``s0 + 1`` or ``s0 > 3``; None for others."""
        if isinstance(value, bool | int | float) or not hasattr(value, "node"):
            return None
        noted = self._noted(value)
        return None if noted is None else str(noted)

    def bound(self, value: Any, sizes: tuple[int, ...]) -> None:
        """An input has room for ``sizes``: the runtime refuses larger ones."""
        for size, most in zip(getattr(value, "shape", ()), sizes, strict=False):
            expression = None if isinstance(size, int) else self._noted(size)
            if expression is not None and expression.is_Symbol:
                name = str(expression)
                self._bounds[name] = min(most, self._bounds.get(name, most))

    def _noted(self, symbolic: Any) -> Any | None:
        """The expression of a symbolic number, once its symbols are kept."""
        node = getattr(symbolic, "node", None)
        expression, environment = getattr(node, "expr", None), getattr(node, "shape_env", None)
        if expression is None or environment is None:
            return None
        for symbol in expression.free_symbols:
            self._symbols.setdefault(str(symbol), environment.var_to_range.get(symbol))
        return expression

    def ranges(self, exported: Any) -> tuple[tuple[str, int, int | None], ...]:
        """(name, least, most) of every symbol met; ``most`` is None where there is no bound.

        The export's own constraints come before those of the shape environment. Both begin at 2 where the user gave no
        least size: the exporter has then decided everything that 0 and 1 would have made different.
        """
        given = {str(s): r for s, r in (getattr(exported, "range_constraints", None) or {}).items()}
        result = []
        for name in sorted(self._symbols):
            span = given.get(name, self._symbols[name])
            low, high = _whole(getattr(span, "lower", None)), _whole(getattr(span, "upper", None))
            if name in self._bounds:
                high = self._bounds[name] if high is None else min(high, self._bounds[name])
            result.append((name, low or 0, high))
        return tuple(result)


def _whole(bound: Any) -> int | None:
    try:
        return int(bound)
    except Exception:  # infinity (sympy's kinds of it fail in ways of their own), or nothing
        return None
