"""A write-back reads a state that an earlier write-back has already replaced.

## What it does

Reports a write-back whose source is the old state of a buffer, or a view of it, that another write-back of the same
call overwrote before.

## Why is this bad?

New values of buffers are written one after the other at the end of the call, in the order of the buffers. The model
means all of them at once: when one buffer takes over the value of another, it gets that one's new value instead.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "first"
  %2 = tensor f32[2,2] @ 1+32 init 1 fqn "second"
  %3 = tensor f32[2,2] @ 1+16
  %4 = bool false
  %5 = tensor f32[4] slot 1
  %6 = tensor f32[2,2] slot 2
  %7 = tensor f32[2,2] @ 1+48
  inputs %0
  outputs %7
  chain
    0  aten::sin.out(%2, %7, %7)
    1  alias %3 <- %1                     # a view of the first buffer
    2  alias %5 <- %1
    3  aten::copy_(%5, %0, %4, %5)        # error: [reordered-write-back]
    4  alias %6 <- %2
    5  aten::copy_(%6, %3, %4, %6)
    6  alias %1 <- %5
    7  alias %2 <- %6
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "first"
  %2 = tensor f32[2,2] @ 1+32 init 1 fqn "second"
  %3 = tensor f32[2,2] @ 1+16
  %4 = bool false
  %5 = tensor f32[4] slot 1
  %6 = tensor f32[2,2] slot 2
  %7 = tensor f32[2,2] @ 1+48
  inputs %0
  outputs %7
  chain
    0  aten::sin.out(%2, %7, %7)
    1  alias %3 <- %1
    2  alias %6 <- %2
    3  aten::copy_(%6, %3, %4, %6)
    4  alias %5 <- %1
    5  aten::copy_(%5, %0, %4, %5)
    6  alias %1 <- %5
    7  alias %2 <- %6
```

## What to do

Export with `remove_view_copy=False`, compute on the old value (`self.first.view(2, 2) + 0`), or register the buffers in
the order in which they may be overwritten.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.lineage import state_behind
from hazard.program import Kernel
from hazard.rule import Rule, Story, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    if conflict.kind is not Kind.OVERWRITTEN or conflict.clobber is None or analysis.method.meaning != "graph":
        return False
    victim = state_behind(analysis.method, conflict.use.slot) if conflict.use.slot is not None else None
    replaced = _written_back(analysis, conflict.clobber.position)
    return victim is not None and victim == replaced and _written_back(analysis, conflict.use.position) is not None


def _written_back(analysis: MethodAnalysis, position: int) -> int | None:
    """The buffer that the instruction at a position writes back, or None."""
    step = analysis.flow.code[position] if 0 <= position < len(analysis.flow.code) else None
    if not isinstance(step, Kernel) or step.operator != "aten::copy_" or not step.args:
        return None
    return state_behind(analysis.method, step.args[0])


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    target = _written_back(analysis, conflict.use.position)
    name = getattr(analysis.method.values[target], "fqn", None) if target is not None else None
    buffer = f"`{name}`" if name else "a buffer"
    return Story(
        f"the new value of {buffer} is read from {value_word(conflict.clobber)} after that was replaced",
        "compute on the old value, so that it gets bytes of its own, or export with `remove_view_copy=False`",
    )


RULE = Rule(
    code="HZ302",
    name="reordered-write-back",
    severity="error",
    since="0.1.0",
    summary="a write-back reads a state that an earlier write-back has already replaced",
    claims=claims,
    tell=tell,
    precedence=70,
)
