"""The only module that knows z3, which is imported when the first question is asked.

Questions are asked with a deterministic limit (``rlimit``), so a run on another machine gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hazard.analysis.predicates import Formula, Key, symbols_of
from hazard.analysis.sizes import PLAIN, Expression, Ranges, Sizes, fold, parsed, tree_of

RESOURCE_LIMIT: Final = 2_000_000


class Theory:
    """Decides whether predicates can have given truth values at the same time."""

    def __init__(self, ranges: Ranges | None = None) -> None:
        """``ranges`` are those of the size symbols."""
        self._ranges = ranges or {}
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
        symbols = sorted(set().union(*(symbols_of(f) for f, _ in literals)))
        encoder = _Encoder(z3, _declare(z3, solver, symbols, self._ranges))
        for formula, truth in sorted(literals, key=str):
            term = encoder.encode(formula)
            solver.add(term if truth else z3.Not(term))
        return bool(solver.check() != z3.unsat)  # `unknown` prunes nothing


def smallest_sizes(
    ranges: Ranges,
    exceeds: Iterable[tuple[Expression | int, int]],
    limits: Iterable[tuple[Expression, int]],
    facts: Iterable[tuple[Expression, bool]],
) -> Sizes | None:
    """The smallest sizes at which every first number is greater than its second, or None if there are none.

    ``limits`` are the most that expressions may be; ``facts`` are predicates with their truth. Symbols are made small
    in the order of their names. Where the solver gives up the answer is no sizes at all: there may be some.
    """
    import z3

    exceeds, limits, facts = list(exceeds), list(limits), sorted(facts, key=str)
    texts = [e for e, _ in (*exceeds, *limits, *facts) if isinstance(e, Expression)]
    symbols = sorted(set().union(*(e.symbols for e in texts)))
    solver = z3.Solver()
    solver.set("rlimit", RESOURCE_LIMIT)
    variables = _declare(z3, solver, symbols, ranges)
    for expression, least in exceeds:
        solver.add(_size(z3, expression, variables) > least)
    for expression, most in limits:
        solver.add(_size(z3, expression, variables) <= most)
    for expression, truth in facts:
        solver.add(_size(z3, expression, variables) == z3.BoolVal(truth))
    answer = solver.check()
    if answer != z3.sat:
        return None if answer == z3.unsat else ()
    return tuple((name, _least(z3, solver, variables[name])) for name in symbols)


def _declare(z3: Any, solver: Any, symbols: Iterable[str], ranges: Ranges) -> dict[str, Any]:
    variables = {}
    for name in symbols:
        variables[name] = variable = z3.Int(f"size {name}")
        low, high = ranges.get(name, (0, None))
        solver.add(variable >= low)
        if high is not None:
            solver.add(variable <= high)
    return variables


def _least(z3: Any, solver: Any, variable: Any) -> int:
    """The smallest value of a variable; the solver then keeps it there."""
    model = solver.model()
    best = model.eval(variable, model_completion=True).as_long()
    low = None
    step = 1
    while low is None or best - low > 1:
        trial = best - step if low is None else (best + low) // 2
        solver.push()
        solver.add(variable <= trial)
        if solver.check() == z3.sat:
            best = solver.model().eval(variable, model_completion=True).as_long()
            step *= 2
        else:
            low = trial
        solver.pop()
    solver.add(variable == best)
    solver.check()
    return int(best)


def _size(z3: Any, expression: Expression | int, variables: dict[str, Any]) -> Any:
    if isinstance(expression, int):
        return z3.IntVal(expression)

    def number(value: int | bool) -> Any:
        return z3.BoolVal(value) if isinstance(value, bool) else z3.IntVal(value)

    def apply(name: str, *args: Any) -> Any:
        match name:
            case "floor":
                return args[0] / args[1]  # z3 rounds so that the rest is not negative: down, for a positive divisor
            case "ceil":
                return -((-args[0]) / args[1])
            case "pow":
                return z3.simplify(args[0] ** args[1]) if z3.is_int_value(args[0]) else _power(args[0], args[1])
            case "max":
                return z3.If(args[0] >= args[1], args[0], args[1])
            case "min":
                return z3.If(args[0] <= args[1], args[0], args[1])
            case "and":
                return z3.And(*args)
            case "or":
                return z3.Or(*args)
            case "not":
                return z3.Not(args[0])
        return PLAIN[name](*args)

    return fold(tree_of(expression), number, variables.__getitem__, apply)


def _power(base: Any, exponent: Any) -> Any:
    result = base
    for _ in range(exponent.as_long() - 1):
        result = result * base
    return result


class _Encoder:
    def __init__(self, z3: Any, sizes: dict[str, Any]) -> None:
        self.z3, self.sizes = z3, sizes

    def encode(self, formula: Formula) -> Any:
        z3 = self.z3
        match formula:
            case ("true",):
                return z3.BoolVal(True)
            case ("atom", number):
                return z3.Bool(f"p{number}")
            case ("size", text):
                expression = parsed(text)
                assert expression is not None
                return _size(z3, expression, self.sizes)
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
        if kind == "s":
            expression = parsed(payload)
            assert expression is not None
            return z3.ToReal(_size(z3, expression, self.sizes))
        if kind == "c":
            if is_float:
                numerator, denominator = float(payload).as_integer_ratio()
                return z3.Q(numerator, denominator)
            return z3.RealVal(payload)
        # Whole numbers are reals that happen to be whole: one sort, so that constants of either kind compare.
        return z3.Real(f"x{payload}") if is_float else z3.ToReal(z3.Int(f"i{payload}"))
