"""A buffer's new value never reaches the buffer's bytes.

## What it does

Reports a read of a buffer in the next call that finds the old state, because no instruction of the call before wrote
the new state into the buffer's bytes.

## Why is this bad?

The model assigns a new value to a buffer. The pass that inserts write-backs leaves one out when the new value is, after
copies without effect have been removed, another buffer or a constant: it takes any buffer for the buffer itself. And it
looks buffers and inputs up in one table, so that an input called as the buffer gets the new value. The state then never
changes.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "last"
  %2 = tensor f32[4] @ 1+32 init 1 fqn "before"
  %3 = tensor f32[4] @ 1+48
  %4 = bool false
  %5 = tensor f32[4] slot 1
  %6 = tensor f32[4] slot 1
  inputs %0
  outputs %3
  chain
    0  aten::add.out(%1, %2, %7, %3, %3)      # error: [lost-write-back]
    1  alias %6 <- %1
    2  alias %5 <- %1
    3  aten::copy_(%5, %0, %4, %5)
    4  alias %1 <- %5
    5  alias %2 <- %6
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "last"
  %2 = tensor f32[4] @ 1+32 init 1 fqn "before"
  %3 = tensor f32[4] @ 1+48
  %4 = bool false
  %5 = tensor f32[4] slot 1
  %6 = tensor f32[4] slot 2
  inputs %0
  outputs %3
  chain
    0  aten::add.out(%1, %2, %7, %3, %3)
    1  alias %6 <- %2
    2  aten::copy_(%6, %1, %4, %6)
    3  alias %5 <- %1
    4  aten::copy_(%5, %0, %4, %5)
    5  alias %1 <- %5
    6  alias %2 <- %6
```

## What to do

Make the new value a tensor of its own by an operation that no pass removes, for example `self.before.copy_(self.last +
0)`. A conversion that changes nothing (`.to(copy=True)`, a slice of the full range) is removed, and a `.clone()` by
passes of back ends. Where an input is called as the buffer, rename one of them.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind, Place
from hazard.analysis.lineage import state_behind
from hazard.program import Tensor
from hazard.rule import Rule, Story, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    if conflict.kind is not Kind.ELSEWHERE or conflict.use.slot is None or analysis.method.meaning != "graph":
        return False
    state = state_behind(analysis.method, conflict.use.slot)
    # A view that was planned elsewhere than its buffer is a fault of the view.
    return state is not None and _lies_on(conflict.use, analysis.method.tensor(state))


def _lies_on(place: Place, state: Tensor) -> bool:
    """Whether a read is of the buffer's own bytes. A buffer without planned bytes has only one place."""
    planned = state.planned
    return planned is None or (planned.arena, planned.offset) == (place.arena, place.offset)


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    slot = conflict.use.slot
    state = state_behind(analysis.method, slot) if slot is not None else None
    name = getattr(analysis.method.values[state], "fqn", None) if state is not None else None
    buffer = f"`{name}`" if name else value_word(conflict.use)
    if name is not None and name in {getattr(analysis.method.values[i], "name", None) for i in analysis.method.inputs}:
        return Story(
            f"the new value of buffer {buffer}, {value_word(conflict.define)}, is written to the input of that name",
            f"call the input or the buffer {buffer} by another name",
        )
    return Story(
        f"the new value of buffer {buffer}, {value_word(conflict.define)}, is never written to it",
        f"give {buffer} a value that is computed, such as `new + 0`; copies without effect are removed",
    )


RULE = Rule(
    code="HZ301",
    name="lost-write-back",
    severity="error",
    since="0.1.0",
    summary="a buffer's new value never reaches the buffer's bytes",
    claims=claims,
    tell=tell,
    precedence=66,
)
