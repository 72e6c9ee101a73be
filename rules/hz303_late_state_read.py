"""The old state of a buffer is read, or returned, after it was replaced.

## What it does

Reports a read of a buffer's old state that happens after the buffer was updated in place or written back: most often
because the buffer itself is an output of the program, and outputs are read last.

## Why is this bad?

A model that returns the old state copies it first. Where the copy has no other effect, passes remove it
(`to(copy=True)`, a slice of the full range, `.clone()` under some passes), and the output becomes the buffer itself.
The caller gets the new state.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %3 = bool false
  %4 = tensor f32[4] slot 1
  %5 = tensor f32[4] slot 1
  inputs %0
  outputs %5
  chain
    0  aten::add.out(%1, %0, %6, %2, %2)
    1  alias %4 <- %1
    2  aten::copy_(%4, %2, %3, %4)        # error: [late-state-read]
    3  alias %5 <- %1                     # the old state, returned
    4  alias %1 <- %4
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %3 = bool false
  %4 = tensor f32[4] slot 1
  %5 = tensor f32[4] @ 1+48
  inputs %0
  outputs %5
  chain
    0  aten::add.out(%1, %0, %6, %2, %2)
    1  aten::clone.out(%1, %7, %5, %5)
    2  alias %4 <- %1
    3  aten::copy_(%4, %2, %3, %4)
    4  alias %1 <- %4
```

## What to do

Return something that is computed from the old state, such as `self.count + 0`, before the update.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.lineage import is_alias, state_behind
from hazard.rule import Rule, Story, site_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    clobber, slot = conflict.clobber, conflict.use.slot
    if conflict.kind is not Kind.OVERWRITTEN or clobber is None or clobber.slot is None or slot is None:
        return False
    method = analysis.method
    if method.meaning != "graph" or clobber.operator == "output":
        return False
    state = state_behind(method, slot)
    # The buffer's own new state, not any tensor that happens to lie on its bytes.
    if state is None or state_behind(method, clobber.slot) != state or not is_alias(method, clobber.slot):
        return False
    # A view that an in-place operator makes stale is another rule's.
    return clobber.operator == "aten::copy_" or analysis.method.tensor(slot).is_name_only or slot == state


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    slot = conflict.use.slot
    state = state_behind(analysis.method, slot) if slot is not None else None
    name = getattr(analysis.method.values[state], "fqn", None) if state is not None else None
    buffer = f"`{name}`" if name else "a buffer"
    how = "returned" if conflict.use.operator == "output" else f"read by {site_word(conflict.use)}"
    return Story(
        f"the old state of buffer {buffer} is {how} after it was replaced",
        f"compute on the old state (`old + 0`) before {buffer} is updated; copies without effect are removed",
    )


RULE = Rule(
    code="HZ303",
    name="late-state-read",
    severity="error",
    since="0.1.0",
    summary="the old state of a buffer is read after it was replaced",
    claims=claims,
    tell=tell,
    precedence=68,
)
