"""Numbers that are known without running the program: loop counters, trip counts, constant predicates.

Sparse conditional constant propagation (Wegman and Zadeck) over the slots of numbers: an edge that a known predicate
never takes is removed from the control flow, so a loop over one row has no second iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hazard.analysis.effects import Effect
from hazard.analysis.flow import Block, Flow, Stage, complete
from hazard.analysis.operators import base_name, namespace
from hazard.program import Dynamism, JumpFalse, Kernel, Method, Move, Scalar, Tensor

Number = int | bool | float
_UNKNOWN = object()
State = dict[int, object]  # a number, `_Equal`, or `_UNKNOWN`


@dataclass(frozen=True, slots=True)
class _Equal:
    """The slot holds the same number as slot ``other``, whatever that is: a loop's counter once the loop has ended."""

    other: int


_ARITHMETIC: dict[str, Callable[..., Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "sym_max": max,
    "sym_min": min,
    "sym_not": lambda a: not a,
    "sym_ite": lambda c, a, b: a if c else b,
}


def evaluate(
    method: Method, step: Kernel, number: Callable[[int], Number | None], renamed: frozenset[int] | set[int]
) -> Number | None:
    """The number that a call leaves in its last argument, or None; ``number`` gives those of other slots.

    ``renamed`` are slots whose tensor object may be another's, so that their written sizes say nothing.
    """
    name, space = base_name(step.operator), namespace(step.operator)
    if name == "sym_size" and len(step.args) == 3:
        tensor, dim = method.values[step.args[0]], number(step.args[1])
        static = isinstance(tensor, Tensor) and tensor.dynamism is Dynamism.STATIC and step.args[0] not in renamed
        if (
            static
            and isinstance(dim, int)
            and isinstance(tensor, Tensor)
            and -len(tensor.sizes) <= dim < len(tensor.sizes)
        ):
            return tensor.sizes[dim]
        return None
    if space != "executorch_prim" or name not in _ARITHMETIC:
        return None
    if name == "sub" and len(step.args) == 3 and step.args[0] == step.args[1]:
        return 0
    operands = [number(a) for a in step.args[:-1]]
    if any(o is None for o in operands):
        return None
    try:
        return _ARITHMETIC[name](*operands)
    except (ArithmeticError, TypeError):
        return None


def constant_of(method: Method, slot: int) -> Number | None:
    """The number that a slot holds in the file."""
    value = method.values[slot]
    if isinstance(value, Scalar) and value.kind in ("int", "bool", "double") and not isinstance(value.value, str):
        return value.value
    return None


class Scalars:
    """Known numbers at the end of each block; built by `propagate`."""

    def __init__(self, flow: Flow, effects: list[Effect], renamed: set[int]) -> None:
        self.flow, self.effects, self.renamed = flow, effects, renamed
        method = flow.method
        self.written: set[int] = set()
        for position, step in enumerate(flow.code):
            self.written.update(effects[position].scalars)
            if isinstance(step, Move) and isinstance(method.values[step.target], Scalar):
                self.written.add(step.target)
            if isinstance(step, Stage) and isinstance(method.values[step.slot], Scalar):
                self.written.add(step.slot)
        self.out: dict[int, State] = {}
        self.edges: set[tuple[int, int]] = set()

    def number(self, state: State, slot: int) -> Number | None:
        """The number in a slot under a state; slots that nobody writes hold what the file says."""
        if slot not in self.written:
            return constant_of(self.flow.method, slot)
        value = state.get(slot, _UNKNOWN)
        if isinstance(value, _Equal):
            return self.number(state, value.other)
        return value if isinstance(value, int | bool | float) else None

    def run(self) -> None:
        """Iterates to the fixed point."""
        flow = self.flow
        if not any(isinstance(step, JumpFalse) for step in flow.code):
            return
        start: State = {s: constant_of(flow.method, s) for s in self.written}
        start = {s: (_UNKNOWN if v is None else v) for s, v in start.items()}
        inputs: dict[int, State] = {0: start}
        work = [0]
        while work:
            b = work.pop()
            state = dict(inputs[b])
            block = flow.blocks[b]
            for position in range(block.start, block.end):
                self._step(position, state)
            self.out[b] = state
            successors = block.successors or [(0, None)]
            last = flow.code[block.end - 1] if block.end > block.start else None
            known = self.number(state, last.condition) if isinstance(last, JumpFalse) else None
            for target, outcome in successors:
                if outcome is not None and known is not None and bool(known) is not outcome:
                    continue
                self.edges.add((b, target))
                arriving = self._refine(block, outcome, state)
                if target not in inputs:
                    inputs[target] = dict(arriving)
                    work.append(target)
                elif self._join(inputs[target], arriving):
                    work.append(target)

    def _refine(self, block: Block, outcome: bool | None, state: State) -> State:
        """What an edge adds: where ``eq(a, b)`` held, a is b."""
        jump = self.flow.code[block.end - 1] if block.end - block.start >= 2 else None
        test = self.flow.code[block.end - 2] if jump is not None else None
        if not (outcome and isinstance(jump, JumpFalse) and isinstance(test, Kernel)):
            return state
        if test.operator != "executorch_prim::eq.Scalar" or test.args[-1] != jump.condition:
            return state
        a, b = test.args[0], test.args[1]
        return {**state, a: _Equal(b)} if a in self.written and a != b else state

    @staticmethod
    def _join(into: State, other: State) -> bool:
        changed = False
        for slot, value in into.items():
            if value is not _UNKNOWN and not _same(value, other[slot]):
                into[slot] = _UNKNOWN
                changed = True
        return changed

    def _step(self, position: int, state: State) -> None:
        step = self.flow.code[position]
        match step:
            case Kernel(operator, args) if self.effects[position].scalars:
                result = evaluate(self.flow.method, step, lambda s: self.number(state, s), self.renamed)
                if operator == "executorch_prim::sub.Scalar" and state.get(args[0]) == _Equal(args[1]):
                    result = 0  # how the emitter resets the counter of a loop
                self._set(state, args[-1], _UNKNOWN if result is None else result)
            case Move(source, target) if target in self.written:
                known = self.number(state, source)
                self._set(state, target, _UNKNOWN if known is None else known)
            case _:
                for slot in self.effects[position].scalars:
                    self._set(state, slot, _UNKNOWN)

    @staticmethod
    def _set(state: State, slot: int, value: object) -> None:
        state[slot] = value
        for other, known in state.items():
            if isinstance(known, _Equal) and known.other == slot:
                state[other] = _UNKNOWN


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and a == b)


def propagate(flow: Flow, effects: list[Effect], renamed: set[int]) -> Scalars:
    """Finds the known numbers and removes the edges that no execution takes."""
    scalars = Scalars(flow, effects, renamed)
    scalars.run()
    if scalars.edges:
        removed = False
        for b, block in enumerate(flow.blocks):
            kept = [(t, o) for t, o in block.successors if (b, t) in scalars.edges]
            if b in scalars.out and len(kept) != len(block.successors):
                block.successors = [(t, None) for t, _ in kept] if len(kept) == 1 else kept
                removed = True
        if removed:
            complete(flow)
    return scalars
