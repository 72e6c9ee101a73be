"""The only module that knows z3, which is imported when the first question is asked.

Questions are asked with a deterministic limit (``rlimit``), so a run on another machine gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hazard.analysis.predicates import Formula, Key

RESOURCE_LIMIT: Final = 2_000_000


class Theory:
    """Decides whether predicates can have given truth values at the same time."""

    def __init__(self) -> None:
        self._known: dict[frozenset[tuple[Formula, bool]], bool] = {}
        self.questions = 0

    def consistent(self, literals: Iterable[tuple[Formula, bool]]) -> bool:
        """False only if no values of the operands give the formulas these truth values."""
        key = frozenset(literals)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(key)
        return known

    def _ask(self, literals: frozenset[tuple[Formula, bool]]) -> bool:
        import z3

        self.questions += 1
        solver = z3.Solver()
        solver.set("rlimit", RESOURCE_LIMIT)
        encoder = _Encoder(z3)
        for formula, truth in sorted(literals, key=str):
            term = encoder.encode(formula)
            solver.add(term if truth else z3.Not(term))
        return bool(solver.check() != z3.unsat)  # `unknown` prunes nothing


class _Encoder:
    def __init__(self, z3: Any) -> None:
        self.z3 = z3

    def encode(self, formula: Formula) -> Any:
        z3 = self.z3
        match formula:
            case ("true",):
                return z3.BoolVal(True)
            case ("atom", number):
                return z3.Bool(f"p{number}")
            case ("not", f):
                return z3.Not(self.encode(f))
            case ("and", f, g):
                return z3.And(self.encode(f), self.encode(g))
            case ("or", f, g):
                return z3.Or(self.encode(f), self.encode(g))
            case ("xor", f, g):
                return z3.Xor(self.encode(f), self.encode(g))
            case ("cmp", a, b, answers, is_float):
                return self._comparison(a, b, answers, is_float)
        raise TypeError(formula)

    def _comparison(self, a: Key, b: Key, answers: frozenset[str], is_float: bool) -> Any:
        z3 = self.z3
        x, y = self._number(a, is_float), self._number(b, is_float)
        cases = []
        if "<" in answers:
            cases.append(x < y)
        if "=" in answers:
            cases.append(x == y)
        if ">" in answers:
            cases.append(x > y)
        holds = z3.Or(cases) if cases else z3.BoolVal(False)
        if not is_float:
            return holds
        unordered = z3.Or([z3.Bool(f"nan{n[1]}") for n in (a, b) if n[0] == "n"])
        return z3.Or(z3.And(z3.Not(unordered), holds), z3.And(unordered, z3.BoolVal("?" in answers)))

    def _number(self, operand: Key, is_float: bool) -> Any:
        z3 = self.z3
        kind, payload = operand
        if kind == "c":
            if is_float:
                numerator, denominator = float(payload).as_integer_ratio()
                return z3.Q(numerator, denominator)
            return z3.RealVal(payload)
        # Whole numbers are reals that happen to be whole: one sort, so that constants of either kind compare.
        return z3.Real(f"x{payload}") if is_float else z3.ToReal(z3.Int(f"i{payload}"))
