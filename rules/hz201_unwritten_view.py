"""A view without an instruction of its own reads bytes that nobody has written for it.

## What it does

Reports a read of a planned tensor that no instruction writes, where the bytes hold nothing, or hold other tensors'
data on some path.

## Why is this bad?

A static view is planned onto the bytes of its base and gets no instruction. When the base is the result of a `cond`,
the branch's result stays in the branch's own bytes (a move copies a pointer, no data), and the bytes planned for the
parent's slot are never written. The same happens to a view of a placeholder of a branch or loop body that has bytes of
its own but is bound to the caller's tensor. The view then reads zeros, or whatever another tensor left there. One
`cond` is enough.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[4] @ 1+0
  %3 = tensor f32[4] @ 1+16
  %4 = tensor f32[2,2] @ 1+16             # a view of %3, without an instruction
  %5 = bool false
  inputs %0 %1
  outputs %6
  %6 = tensor f32[2,2] @ 1+32
  chain
    0  jump-false %1 -> 4
    1  aten::sin.out(%0, %2, %2)
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%0, %2, %2)
    5  move %3 <- %2
    6  aten::exp.out(%4, %6, %6)           # error: [unwritten-view]
```

## Use instead

The branches write the bytes that the view reads:

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor bool[1] @ 1+32
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+16
  %4 = tensor f32[2,2] @ 1+16
  %5 = bool false
  inputs %0 %1
  outputs %6
  %6 = tensor f32[2,2] @ 1+32
  chain
    0  jump-false %1 -> 4
    1  aten::sin.out(%0, %2, %2)
    2  move %3 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%0, %2, %2)
    5  move %3 <- %2
    6  aten::exp.out(%4, %6, %6)
```

## What to do

Export with `remove_view_copy=False`, or `.clone()` the result before the view. A plan cures it too, by placing the
results of all branches on the bytes of the parent's slot; that needs the graph, which knows what the view is a view of.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind in (Kind.UNWRITTEN, Kind.ELSEWHERE)


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    view = value_word(conflict.use)
    if conflict.kind is Kind.ELSEWHERE and conflict.define is not None:
        message = f"{view} reads bytes that its value, made at {site_word(conflict.define)}, was never in"
    elif conflict.clobber is not None:
        message = f"{view} reads bytes that nobody wrote for it; they hold what {site_word(conflict.clobber)} left"
    else:
        message = f"{view} reads bytes that nobody has written"
    return Story(message, "copy the base before the view (`.clone()`), or export with `remove_view_copy=False`")


RULE = Rule(
    code="HZ201",
    name="unwritten-view",
    severity="error",
    since="0.1.0",
    summary="a view without an instruction reads bytes that nobody has written for it",
    claims=claims,
    tell=tell,
    precedence=10,
)
