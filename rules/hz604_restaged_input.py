"""An input that is not set again before the next call holds other data by then.

## What it does

Notes planned inputs whose bytes a call overwrites. Ordinary plans do that to nearly every input, so the rule is silent
unless it is selected or the host is said to leave inputs from the last call (`restaged=False`).

## Why is this bad?

A caller that sets an input once and calls twice gets a second result that is computed from something else.

## Example

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+0
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)   # note: [restaged-input]
```

## Use instead

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## What to do

Set every input before every call, or export with `alloc_graph_input=False`, which keeps the caller's memory.
"""

from collections.abc import Iterator

from hazard.analysis.callers import restaged_inputs
from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    if RULE.code not in context.asked and all(h.restaged for h in events.hosts):
        return
    for memory in events.memories:
        others = [m for m in events.memories if m is not memory]
        for fault in restaged_inputs(memory, others, events.hosts):
            by = site_word(fault.clobber) if fault.clobber else "the call"
            whose = f" of `{fault.clobberer.name}`" if fault.clobberer and fault.clobberer is not memory else ""
            yield RULE.finding(
                message=f"the input {value_word(fault.use)} is overwritten by {by}{whose} and must be set again "
                f"before the next call: {fault.told}",
                help="set every input before every call",
                **fault.parts(events.hosts),
            )


RULE = Rule(
    code="HZ604",
    name="restaged-input",
    severity="note",
    since="0.1.0",
    summary="a planned input that is not set again is overwritten by the call before",
    scan=scan,
)
