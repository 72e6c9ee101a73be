"""A branch hands out its operand itself, and the operand's bytes are given to another tensor too early.

## What it does

Reports a read of a `cond` result that is, on some path, an operand of the `cond`, where the operand's bytes have been
overwritten since.

## Why is this bad?

The branch returns its operand without a copy, so the move makes the result refer to the operand's own bytes. The
planner ends the operand's live range at its last use, which is the `cond`: it does not know that the result lives on in
them. The exporter refuses such branches; passes that remove copies make them.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[4] @ 1+0
  %3 = tensor f32[4] @ 1+16
  %4 = tensor f32[4] @ 1+0
  %5 = bool false
  %6 = tensor f32[4] @ 1+32
  inputs %0 %1
  outputs %6
  chain
    0  aten::exp.out(%0, %2, %2)
    1  jump-false %1 -> 4
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::sin.out(%2, %6, %6)
    5  move %3 <- %6
    6  aten::cos.out(%0, %4, %4)              # error: [clobbered-operand-alias]
    7  aten::add.out(%3, %4, %7, %6, %6)
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 80
  %0 = tensor f32[4] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[4] @ 1+0
  %3 = tensor f32[4] @ 1+16
  %4 = tensor f32[4] @ 1+64
  %5 = bool false
  %6 = tensor f32[4] @ 1+32
  inputs %0 %1
  outputs %6
  chain
    0  aten::exp.out(%0, %2, %2)
    1  jump-false %1 -> 4
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::sin.out(%2, %6, %6)
    5  move %3 <- %6
    6  aten::cos.out(%0, %4, %4)
    7  aten::add.out(%3, %4, %7, %6, %6)
```

## What to do

Leave out the pass that removes the branch's copy, or return from the branch what is computed (`x + 0`), which no pass
removes. Or extend the operand's live range to the last use of the result.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.flow import Flow
from hazard.analysis.lineage import meanings, moves_behind
from hazard.program import Move
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    define, use = conflict.define, conflict.use
    if conflict.kind is not Kind.OVERWRITTEN or not conflict.escaped or analysis.method.meaning != "graph":
        return False
    if define is None or define.slot is None or use.slot is None:
        return False
    method, flow = analysis.method, analysis.flow
    # Moves are told apart by their slots: a branch that returns one value twice has two.
    handed_out = {
        (m.source, m.target) for m in moves_behind(method, use.slot) if define.slot in meanings(method, m.source)
    }
    return any(
        isinstance(step, Move)
        and (step.source, step.target) in handed_out
        and (define.position < 0 or _avoids(flow, define.position, position))
        for position, step in enumerate(flow.code)
    )


def _avoids(flow: Flow, start: int, move: int) -> bool:
    """Whether a call can go on to its end from ``start`` without the move: then that was not in the move's branch."""
    barrier = flow.block_of[move]
    seen = {flow.block_of[start]}
    work = list(seen - {barrier})
    while work:
        block = work.pop()
        if block == flow.exit:
            return True
        for target, _ in flow.blocks[block].successors:
            if target not in seen and target != barrier:
                seen.add(target)
                work.append(target)
    return False


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    result, operand = value_word(conflict.use), value_word(conflict.define)
    return Story(
        f"{result} is the branch's operand {operand} itself, which is overwritten before it is read",
        "return from the branch what is computed (`x + 0`), or leave out the pass that removes its copy, or keep the"
        f" bytes of {operand} until {site_word(conflict.use)}",
    )


RULE = Rule(
    code="HZ104",
    name="clobbered-operand-alias",
    severity="error",
    since="0.1.0",
    summary="a branch hands out its operand itself, and the operand is overwritten too early",
    claims=claims,
    tell=tell,
    precedence=50,
)
