"""What a path has decided about predicates, and whether one more decision can still be true.

Decisions about one number against constants are kept as an interval, without a solver; only predicates that relate
several numbers, or that are made of others by `and`, `or`, `xor`, are put to z3 (`hazard.analysis.solver`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf
from typing import Final

from hazard.analysis.predicates import Formula, Predicates, atoms_of
from hazard.analysis.sizes import Expression, parsed
from hazard.analysis.solver import Theory

#: Predicates on sizes, and whether they hold.
SizeFacts = tuple[tuple[Expression, bool], ...]


@dataclass(frozen=True, slots=True)
class _Range:
    """What a number may be: not a number, or between ``low`` and ``high`` (open ends exclusive), without ``holes``."""

    nan: bool
    low: float = -inf
    high: float = inf
    low_open: bool = True
    high_open: bool = True
    holes: frozenset[float] = frozenset()

    def empty(self) -> bool:
        """Whether no value is left."""
        if self.nan:
            return False
        if self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)):
            return True
        return self.low == self.high and self.low in self.holes

    def meet(self, outcomes: frozenset[str], constant: float, whole: bool) -> _Range:
        """The values left when comparing the number with a constant gives one of the outcomes (of ``<=>?``)."""
        nan = self.nan and "?" in outcomes
        order = outcomes - {"?"}
        low, high, low_open, high_open, holes = self.low, self.high, self.low_open, self.high_open, self.holes
        if not order:
            return _Range(nan, 1.0, 0.0)
        if "<" not in order:
            bound, is_open = constant, "=" not in order
            if whole:
                bound, is_open = (floor(constant) + 1 if is_open else ceil(constant)), False
            if bound > low or (bound == low and is_open):
                low, low_open = bound, is_open
        if ">" not in order:
            bound, is_open = constant, "=" not in order
            if whole:
                bound, is_open = (ceil(constant) - 1 if is_open else floor(constant)), False
            if bound < high or (bound == high and is_open):
                high, high_open = bound, is_open
        if "=" not in order and "<" in order and ">" in order:
            holes = holes | {constant}
        return _Range(nan, low, high, low_open, high_open, holes)


_FLIPPED: Final = {"<": ">", ">": "<", "=": "=", "?": "?"}


class Believing:
    """The predicates of a method, sorted by how they can contradict each other. Makes `Beliefs`."""

    def __init__(self, predicates: Predicates, theory: Theory) -> None:
        self.predicates, self.theory = predicates, theory
        self.formulas: list[Formula] = []
        self.identity: dict[Formula, int] = {}
        self.loops: list[frozenset[int]] = []
        self.at: dict[int, tuple[int, bool]] = {}  # jump -> (formula, positive), for jumps that can contradict
        self.interval: dict[int, tuple[int, frozenset[str], float, bool]] = {}
        self.related: dict[int, tuple[int, ...]] = {}
        self.about_sizes: dict[int, Expression] = {}
        self._sort()
        self.empty = Beliefs(self, frozenset(), ())

    def _sort(self) -> None:
        users: dict[object, set[int]] = {}
        jumps: dict[int, list[int]] = {}
        for position, literal in self.predicates.literals.items():
            if literal is None:
                continue
            number = self.identity.get(literal.formula)
            if number is None:
                number = self.identity[literal.formula] = len(self.formulas)
                self.formulas.append(literal.formula)
                self.loops.append(frozenset())
                for atom in atoms_of(literal.formula):
                    users.setdefault(atom, set()).add(number)
            self.loops[number] |= literal.loops
            jumps.setdefault(number, []).append(position)
        for number, formula in enumerate(self.formulas):
            if formula[0] == "size" and (expression := parsed(formula[1])) is not None:
                self.about_sizes[number] = expression
            related: set[int] = set()
            for atom in atoms_of(formula):
                related |= users[atom]
            related.discard(number)
            alone = not related and len(jumps[number]) == 1 and self._renewed(jumps[number][0], number)
            if alone and (formula[0] == "atom" or _against_constant(formula) is not None):
                continue  # met once in a call, related to nothing, either way possible: always free
            for position in jumps[number]:
                literal = self.predicates.literals[position]
                assert literal is not None
                self.at[position] = (number, literal.positive)
            if not related and (formula[0] in ("atom", "true") or _against_constant(formula) is not None):
                continue
            mine = _against_constant(formula)
            if mine is not None and all(self._same_number(mine[0], other) for other in related):
                self.interval[number] = mine
            else:
                self.related[number] = tuple(sorted(related))

    def _renewed(self, position: int, number: int) -> bool:
        """Whether the predicate of a jump has a new value each time the jump is met in one call."""
        flow = self.predicates.reaching.flow
        around = flow.loops_of.get(flow.block_of[position], ())
        return not around or around[-1] in self.loops[number]

    def sure(self, position: int) -> bool:
        """Whether the predicate of a jump is read intact on every path."""
        return position not in self.predicates.clobbered

    def _same_number(self, number: int, other: int) -> bool:
        theirs = _against_constant(self.formulas[other])
        return theirs is not None and theirs[0] == number


def _against_constant(formula: Formula) -> tuple[int, frozenset[str], float, bool] | None:
    """(value number, outcomes, constant, whole numbers) of a comparison with a constant, or None."""
    if formula[0] != "cmp":
        return None
    _, a, b, outcomes, is_float = formula
    if a[0] == "c" and b[0] == "n":
        a, b, outcomes = b, a, frozenset(_FLIPPED[o] for o in outcomes)
    if a[0] != "n" or b[0] != "c":
        return None
    return a[1], outcomes, b[1], not is_float


_ALL: Final = frozenset("<=>?")


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Decisions taken so far, as literals (twice the formula's number, plus one where it holds), and what they leave of
    the numbers that they compare with constants."""

    of: Believing
    literals: frozenset[int]
    ranges: tuple[tuple[int, _Range], ...]

    @property
    def sizes(self) -> SizeFacts:
        """What has been decided about sizes."""
        if not self.of.about_sizes:
            return ()
        return tuple((self.of.about_sizes[x >> 1], bool(x & 1)) for x in self.literals if x >> 1 in self.of.about_sizes)

    def __hash__(self) -> int:
        return hash(self.literals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beliefs) and self.literals == other.literals

    def fixed(self, position: int) -> bool | None:
        """The outcome of a jump that has been decided already, None where it has not.

        Holds where the predicate's bytes are intact; see `Believing.sure`.
        """
        known = self.of.at.get(position)
        if known is None:
            return None
        number, positive = known
        if 2 * number + 1 in self.literals:
            return positive
        return not positive if 2 * number in self.literals else None

    def decide(self, position: int, outcome: bool) -> Beliefs | None:
        """The beliefs once the predicate of a jump is seen to hold or not; None if that contradicts them."""
        known = self.of.at.get(position)
        if known is None:
            return self
        number, positive = known
        truth = outcome == positive
        literal = 2 * number + truth
        if literal in self.literals:
            return self
        if literal ^ 1 in self.literals or (self.of.formulas[number] == ("true",) and not truth):
            return None
        ranges = self.ranges
        if number in self.of.interval:
            compared, outcomes, constant, whole = self.of.interval[number]
            before = next((r for n, r in ranges if n == compared), _Range(nan=not whole))
            after = before.meet(outcomes if truth else _ALL - outcomes, constant, whole)
            if after.empty():
                return None
            ranges = (*((n, r) for n, r in ranges if n != compared), (compared, after))
        elif number in self.of.related and not self._possible(number, truth):
            return None
        return Beliefs(self.of, self.literals | {literal}, ranges)

    def _possible(self, number: int, truth: bool) -> bool:
        group = {number}
        work = [number]
        while work:
            for other in self.of.related.get(work.pop(), ()):
                if other not in group and (2 * other in self.literals or 2 * other + 1 in self.literals):
                    group.add(other)
                    work.append(other)
        formulas = self.of.formulas
        return self.of.theory.consistent(
            (formulas[n], truth if n == number else 2 * n + 1 in self.literals) for n in group
        )

    def without_loop(self, loop: int) -> Beliefs:
        """The beliefs when a loop begins its next iteration: predicates computed in it have new values."""
        kept = frozenset(x for x in self.literals if loop not in self.of.loops[x >> 1])
        if len(kept) == len(self.literals):
            return self
        ranges: dict[int, _Range] = {}
        for x in sorted(kept):
            if x >> 1 in self.of.interval:
                compared, outcomes, constant, whole = self.of.interval[x >> 1]
                before = ranges.get(compared, _Range(nan=not whole))
                ranges[compared] = before.meet(outcomes if x & 1 else _ALL - outcomes, constant, whole)
        return Beliefs(self.of, kept, tuple(ranges.items()))
