"""The bytes of state that must last from call to call are overwritten.

## What it does

Reports a read of a buffer whose bytes something other than its own write-back has written, in this call or in an
earlier one, or at the staging of an input.

## Why is this bad?

State has to keep its bytes for as long as the program is loaded. When another tensor shares them, the next call starts
from that tensor's data.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %4 = bool false
  %5 = tensor f32[4] @ 1+16
  inputs %0
  outputs %5
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
    2  aten::exp.out(%2, %5, %5)           # error: [clobbered-state]
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %4 = bool false
  %5 = tensor f32[4] @ 1+48
  inputs %0
  outputs %5
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
    2  aten::exp.out(%2, %5, %5)
```

## What to do

Plan the buffer for the whole life of the program: its live range is every instruction of every call.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind is Kind.OVERWRITTEN and conflict.persistent and not conflict.escaped


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    state = value_word(conflict.use)
    by = site_word(conflict.clobber) if conflict.clobber else "another tensor"
    return Story(
        f"the state {state} is overwritten by {by} before it is read",
        f"reserve the bytes of {state} for every instruction of every call",
    )


RULE = Rule(
    code="HZ304",
    name="clobbered-state",
    severity="error",
    since="0.1.0",
    summary="bytes of persistent state are overwritten by something else",
    claims=claims,
    tell=tell,
    precedence=35,
)
