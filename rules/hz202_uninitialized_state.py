"""State that has no initial contents is read.

## What it does

Notes a read, in the first call, of planned memory that neither loading nor an instruction has written: a buffer whose
initial contents were not exported. Where methods share the state, the note names those that write it and the
sequence of loads and calls in which the read comes first.

## Why is this bad?

The first call sees what the arena holds. Most hosts fill arenas with zeros, some do not; neither is the module's own
initial value unless that is zero.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %4 = bool false
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)   # note: [uninitialized-state]
    1  aten::copy_(%1, %2, %4, %1)
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1 fqn "count"
  %2 = tensor f32[4] @ 1+32
  %4 = bool false
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
```

## What to do

Add `InitializedMutableBufferPass([...names...])` to the passes of `ExecutorchBackendConfig` where the initial value
matters. From a graph, where the model's own value is known and is not zero, this is an error. Ignore the note where the
state is zero at the start and hosts fill arenas with zeros.
"""

from collections.abc import Iterator

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.hosts import tell as tell_events
from hazard.program import Tensor
from hazard.rule import Context, Finding, Rule, Story, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind is Kind.UNINITIALIZED


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    state = value_word(conflict.define or conflict.use)
    slot = conflict.define.slot if conflict.define else None
    value = analysis.method.values[slot] if slot is not None else None
    if isinstance(value, Tensor) and value.lost_value:
        return Story(
            f"the state {state} is read before anything has written it: its initial value in the model is not zero, and"
            " is not in the program",
            "export the initial value with `InitializedMutableBufferPass`",
            severity="error",
        )
    return Story(
        f"the state {state} is read before anything has written it: its initial contents are not in the program",
        "export the initial value with `InitializedMutableBufferPass` if it is not zero",
    )


def scan(context: Context) -> Iterator[Finding]:
    """State that another method writes, if it runs first."""
    if len(context.methods) < 2:
        return
    for fault in context.events.faults:
        if fault.kind != "blank":
            continue
        parts = fault.parts
        writers = ", ".join(f"`{m}`" for m in dict.fromkeys(p.method for p in fault.all_clobbers))
        yield RULE.finding(
            message=f"the shared state {value_word(parts['use'])} is read before any method has written it, "
            f"unless {writers} runs first: {tell_events(fault.sequence)}",
            help="call a method that writes the state first, or export its initial value with "
            "`InitializedMutableBufferPass`",
            **{**parts, "clobber": None},
        )


RULE = Rule(
    code="HZ202",
    name="uninitialized-state",
    severity="note",
    since="0.1.0",
    summary="state without initial contents is read before anything has written it",
    claims=claims,
    tell=tell,
    scan=scan,
    precedence=40,
)
