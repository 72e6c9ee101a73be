"""An output lies in memory that a later call overwrites.

## What it does

Notes an output in planned memory that the next call of this or of another method writes, on hosts that hand outputs out
without a copy. It is silent where nothing is unusual: by default it speaks of outputs that are state, and of outputs
that a call of *another* method overwrites; of all others when the hosts are given, or the rule is selected.

## Why is this bad?

A tensor that the caller has kept changes behind its back. `executorch.runtime` copies outputs unless it is asked not
to; the C++ `Module` does not.

## Example

```hir
method a
  arena 1 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16
  inputs %0
  outputs %1   # note: [perishable-output]
  chain
    0  aten::sin.out(%0, %1, %1)
method b
  arena 1 : 32
  %0 = tensor f32[2] @ 1+16
  %1 = tensor f32[2] @ 1+0
  inputs %0
  outputs %1   # note: [perishable-output]
  chain
    0  aten::cos.out(%0, %1, %1)
```

## Use instead

```hir
method a
  arena 1 : 32
  %0 = tensor f32[2]
  %1 = tensor f32[2]
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
method b
  arena 1 : 32
  %0 = tensor f32[2]
  %1 = tensor f32[2]
  inputs %0
  outputs %1
  chain
    0  aten::cos.out(%0, %1, %1)
```

## What to do

Copy an output before the next call, or export with `alloc_graph_output=False` and bring a buffer for each.
"""

from collections.abc import Iterator

from hazard.analysis.callers import perishable_outputs
from hazard.hosts import event_notes, event_properties
from hazard.rule import Context, Finding, Rule


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    everything = context.narrowed or RULE.code in context.asked
    copying = [h for h in events.hosts if h.cloned]
    for memory in events.memories:
        others = [m for m in events.memories if m is not memory]
        if not (everything or others or memory.kept):
            continue  # every output is overwritten by the same output of the next call, which is told only on request
        faults = [
            f
            for f in perishable_outputs(memory, others, events.hosts)
            if everything or f.other is not None or f.clobberer is not memory
        ]
        for is_state in (True, False):
            group = [f for f in faults if (f.other is not None) is is_state]
            if not group:
                continue
            # The story of another method is the one that surprises.
            first = next((f for f in group if f.clobberer is not memory), group[0])
            outputs = list(dict.fromkeys(f.slot for f in group))
            methods = tuple(dict.fromkeys(f.clobberer.name for f in group if f.clobberer))
            sequences = {h: e for f in reversed([first, *group]) for h, e in f.sequences.items()}
            words = ", ".join(f"%{o}" for o in outputs)
            one = len(outputs) == 1
            state = ("is state and " if one else "are state and ") if is_state else ""
            yield RULE.finding(
                message=f"the output{'' if one else 's'} {words} {state}{'changes' if one else 'change'} with the next "
                f"call of {', '.join(f'`{m}`' for m in methods)}: {first.told}",
                help="copy outputs before the next call",
                **{
                    **first.parts(events.hosts),
                    "all_clobbers": tuple(dict.fromkeys(f.clobber for f in group if f.clobber)),
                    "notes": event_notes(sequences, copying),
                    "properties": (
                        *event_properties(sequences, copying),
                        ("methods", methods),
                        ("outputs", tuple(outputs)),
                    ),
                },
            )


RULE = Rule(
    code="HZ504",
    name="perishable-output",
    severity="note",
    since="0.1.0",
    summary="an output lives in memory that a later call overwrites",
    scan=scan,
    references=("https://github.com/pytorch/executorch/pull/17719",),
)
