"""A caller's output buffer takes the place of an input.

## What it does

Reports a tensor that is an input and an output of a method, with memory from the caller for both
(`alloc_graph_input=False`, and either the input is returned or it is mutated).

## Why is this bad?

Inputs are set first, outputs after them, and both go into the one tensor: the output's buffer replaces the input's
data before the first instruction runs. The program computes on whatever that buffer holds.

An input that the program itself changes is meant to lie in the caller's memory, and is right on a host that attaches no
output buffer. It is a warning until a host is named (`--host`); the Python runtime always attaches one.

## Example

```hir
method forward
  arena 1 : 16
  %0 = tensor f32[2]
  %1 = tensor f32[2] @ 1+0
  inputs %0
  outputs %0 %1
  chain
    0  aten::sin.out(%0, %1, %1)   # error: [output-over-input]
```

## Use instead

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[2] @ 1+16
  %1 = tensor f32[2] @ 1+0
  inputs %0
  outputs %0 %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## What to do

Let the plan place inputs and outputs (`alloc_graph_input=True` and `alloc_graph_output=True`, the defaults; an input
that is returned has planned bytes only with both), or return a clone of the input, and a new value in place of a change
of it.
"""

from collections.abc import Iterator

from hazard.analysis.callers import outputs_over_inputs
from hazard.rule import Context, Finding, Rule, value_word


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    for memory, analysis in zip(events.memories, context.methods, strict=True):
        changed = {
            obj
            for (position, _), objects in analysis.reaching.writes.items()
            if analysis.flow.sites[position] is not None
            for obj in objects
        }
        for fault in outputs_over_inputs(memory, events.hosts):
            mutated = fault.use is not None and fault.use.slot in changed
            otherwise = "return a new value rather than change the input" if mutated else "return a clone of the input"
            yield RULE.finding(
                severity="warning" if mutated and not context.narrowed else None,
                message=f"the input {value_word(fault.use)} is an output too: the caller's output buffer replaces its "
                f"data before the call begins: {fault.told}",
                help="let the plan place inputs and outputs (`alloc_graph_input=True`, `alloc_graph_output=True`), or"
                f" {otherwise}",
                **fault.parts(events.hosts),
            )


RULE = Rule(
    code="HZ602",
    name="output-over-input",
    severity="error",
    since="0.1.0",
    summary="a caller's output buffer replaces an input",
    scan=scan,
)
