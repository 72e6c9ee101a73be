"""An output that is handed back as an input, without a copy, is overwritten before it is read.

## What it does

Notes an input for which an output of the same dtype and sizes, of this or of another method in the same arenas, does
not survive until it is read: `y = f(x); f(y)`. Under `--feedback`, with which the
caller says that it does so, it is an error.

## Why is this bad?

Outputs point into planned memory on hosts that do not copy them. A call that takes such a pointer as an input writes
over its own input as soon as an instruction uses those bytes. With planned inputs the data is copied out first, unless
the copy of another input lands on it before.

## Example

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[2]
  %1 = tensor f32[2] @ 1+0
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)   # note: [fed-back-output]
    1  aten::cos.out(%1, %2, %2)
    2  aten::add.out(%0, %2, %4, %1, %1)
```

## Use instead

```hir
method forward
  arena 1 : 48
  %0 = tensor f32[2]
  %1 = tensor f32[2] @ 1+0
  %2 = tensor f32[2] @ 1+16
  %3 = tensor f32[2] @ 1+32
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %3, %3)
    1  aten::cos.out(%3, %2, %2)
    2  aten::add.out(%0, %2, %4, %1, %1)
```

## What to do

Copy the output before it is fed back, or export with planned inputs (`alloc_graph_input=True`, the default).
"""

from collections.abc import Iterator

from hazard.analysis.callers import fed_back_outputs
from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    asked = any(h.feedback for h in events.hosts)
    # Without `--feedback` only hosts that hand out the output itself are of interest.
    hosts = events.hosts
    for consumer in events.memories:
        told: set[int] = set()
        for producer in (consumer, *(m for m in events.memories if m is not consumer)):
            for fault in fed_back_outputs(producer, consumer, hosts):
                if fault.slot in told:
                    continue
                told.add(fault.slot)
                source = f"the output %{fault.other}"
                if producer is not consumer:
                    source += f" of `{producer.name}`"
                by = site_word(fault.clobber) if fault.clobber else "the call"
                yield RULE.finding(
                    message=f"the input {value_word(fault.use)} does not survive when it is {source}, fed back without "
                    f"a copy: {by} overwrites it: {fault.told}",
                    help="copy the output before it is fed back, or export with alloc_graph_input=True",
                    severity="error" if asked and fault.certain else "warning" if asked else None,
                    **fault.parts(hosts),
                )


RULE = Rule(
    code="HZ603",
    name="fed-back-output",
    severity="note",
    since="0.1.0",
    summary="an output that is fed back as an input without a copy is overwritten before it is read",
    scan=scan,
)
