"""A tensor's bytes are overwritten while the tensor is still needed.

## What it does

Reports a read of a tensor whose bytes another instruction of the same call has written since the tensor was computed.

## Why is this bad?

The read gets the other tensor's bytes. Nothing at run time notices.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+8
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::cos.out(%0, %2, %2)           # error: [clobbered-value]
    2  aten::add.out(%1, %2, %4, %3, %3)
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::cos.out(%0, %2, %2)
    2  aten::add.out(%1, %2, %4, %3, %3)
```

## What to do

The plan ends the tensor's live range too early: a pass changed the graph after lifetimes were computed, a planner of
one's own has a fault, or an in-place result's uses do not extend its storage (`run_reinplace_pass=True` or
`reinplace_extra_ops` in the released versions: export without both). Re-plan with the live range that the finding
names; `hazard fix` does.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.operators import is_reinplaced
from hazard.rule import NOT_REINPLACED, Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind is Kind.OVERWRITTEN


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    victim = value_word(conflict.use)
    since = site_word(conflict.define) if conflict.define else "its definition"
    by = site_word(conflict.clobber) if conflict.clobber else "another instruction"
    if conflict.view:
        message = f"{victim}, a view without an instruction, sees bytes that {by} has written"
    else:
        message = f"{victim} is overwritten before it is read"
    until = f"{site_word(conflict.use)}{_planned(conflict, analysis)}"
    in_place = any(is_reinplaced(d.operator) for d in conflict.all_defines)
    otherwise = f"; or {NOT_REINPLACED}" if in_place else ""
    return Story(message, f"keep the bytes of {victim} from {since} until {until}{otherwise}")


def _planned(conflict: Conflict, analysis: MethodAnalysis) -> str:
    """Where the planner took the tensor to be needed no more, if that is too early and the graph tells."""
    slot, origin = conflict.use.slot, conflict.use.origin
    owner = analysis.method.emitted_slot(slot) if slot is not None else None
    last = next((end for s, _, end in analysis.method.lives if s == owner), None)
    if last is None:
        return ""
    if origin is not None and origin.index is not None and origin.index <= last:
        return ""
    return f": the planner ends its live range at instruction {last} of the emitted program"


RULE = Rule(
    code="HZ103",
    name="clobbered-value",
    severity="error",
    since="0.1.0",
    summary="a tensor is overwritten while it is still needed",
    claims=claims,
    tell=tell,
)
