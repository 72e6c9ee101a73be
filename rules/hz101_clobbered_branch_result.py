"""A result that left a branch or loop body through a move is overwritten before it is read.

## What it does

Reports a read of a `cond`, `map`, `scan` or `while_loop` result whose bytes another instruction has written since.

## Why is this bad?

The graphs of all higher-order operators of one parent are planned into the same region of the arena. A branch hands its
result to the parent by a move, which copies a pointer and no data, so the result stays in that region. The next
higher-order operator that runs, or one nested in it, uses the region for its own tensors. The later read gets their
bytes: wrong numbers, without any error.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[2] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[2] @ 1+0
  %3 = tensor f32[2] @ 1+16
  %4 = tensor f32[2] @ 1+0
  %5 = bool false
  inputs %0 %1
  outputs %3 %4
  chain
    0  jump-false %1 -> 4
    1  aten::sin.out(%0, %2, %2)
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%0, %2, %2)
    5  move %3 <- %2
    6  aten::exp.out(%0, %4, %4)   # error: [clobbered-branch-result]
```

## Use instead

The result has bytes of its own for as long as it is needed:

```hir
method forward
  arena 1 : 80
  %0 = tensor f32[2] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[2] @ 1+64
  %3 = tensor f32[2] @ 1+16
  %4 = tensor f32[2] @ 1+0
  %5 = bool false
  inputs %0 %1
  outputs %3 %4
  chain
    0  jump-false %1 -> 4
    1  aten::sin.out(%0, %2, %2)
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%0, %2, %2)
    5  move %3 <- %2
    6  aten::exp.out(%0, %4, %4)
```

## What to do

Copy the result right after the higher-order operator (`y = torch.cond(...).clone()`; a reshape is not enough), or give
it a place that no other branch uses: `hazard fix` writes such a plan. No planning algorithm and no alignment of the
released versions avoids it.

## References

- pytorch/executorch issue 21490
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind is Kind.OVERWRITTEN and conflict.escaped


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    result = value_word(conflict.use)
    message = f"the branch result {result} is overwritten before it is read"
    by = site_word(conflict.clobber) if conflict.clobber else "another instruction"
    return Story(
        message,
        f"copy the result right after the higher-order operator (`.clone()`), or re-plan so that {by} does not use"
        f" the bytes of {result} before {site_word(conflict.use)}",
    )


RULE = Rule(
    code="HZ101",
    name="clobbered-branch-result",
    severity="error",
    since="0.1.0",
    summary="a result that left a branch through a move is overwritten before it is read",
    claims=claims,
    tell=tell,
    precedence=20,
    references=("https://github.com/pytorch/executorch/issues/21490",),
)
