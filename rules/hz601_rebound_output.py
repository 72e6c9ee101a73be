"""A caller's output buffer takes the place of a tensor inside the program.

## What it does

Reports programs whose outputs are not planned (`alloc_graph_output=False`) and are bound by a move, as the result of a
`cond` is. After the first call the output's slot refers to the branch's tensor; the buffer that the caller gives for
the second call is attached to *that tensor*. From then on the tensor's own planned bytes are not written any more, and
whatever still looks at them reads old data: a view without an instruction, a constant or a state that the branch handed
out. Where nothing looks at them a note says that the caller's own buffer is not the one that is filled.

## Why is this bad?

The first call of each path is right and later ones are wrong, without an error. A caller that looks into the buffer it
gave, instead of the tensor that the call returns, finds that buffer untouched.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4]
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[2,2] @ 1+16
  %4 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %1 %4
  chain
    0  aten::sin.out(%0, %2, %2)
    1  aten::cos.out(%3, %4, %4)   # error: [rebound-output]
    2  move %1 <- %2
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[2,2] @ 1+16
  %4 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %1 %4
  chain
    0  aten::sin.out(%0, %2, %2)
    1  aten::cos.out(%3, %4, %4)
    2  move %1 <- %2
```

## What to do

Let the plan place outputs (`alloc_graph_output=True`, the default), or return `result.clone()` of the `cond`'s result.
"""

from collections.abc import Iterator

from hazard.analysis.callers import rebound_outputs
from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    for memory in events.memories:
        told: set[tuple[int, int | None]] = set()
        for fault in rebound_outputs(memory, events.hosts):
            key = (fault.use.position, fault.use.slot)
            if key in told:
                continue
            told.add(key)
            parts = fault.parts(events.hosts)
            sequence = fault.told
            if fault.what == "unfilled":
                borrowing = context.narrowed and any(not h.cloned for h in events.hosts)
                yield RULE.finding(
                    message=f"the output %{fault.slot} is bound to the branch's tensor %{fault.other}: the first call "
                    "does not fill the caller's buffer, and a later one may fill the buffer of an earlier call",
                    help="use the tensor that the call returns, and copy it; or let the plan place the output",
                    severity="warning" if borrowing else "note",
                    **parts,
                )
            elif fault.what == "view":
                since = site_word(fault.define) if fault.define else "its definition"
                yield RULE.finding(
                    message=f"{value_word(fault.use)} sees the bytes of an earlier call: from the second call on "
                    f"{since} writes into the caller's buffer of output %{fault.slot} instead: {sequence}",
                    help="let the plan place the output, or return a clone of the branch's result",
                    **parts,
                )
            else:
                yield RULE.finding(
                    message=f"{value_word(fault.use)} sees the caller's buffer of output %{fault.slot}, which is "
                    f"attached to %{fault.other} from the second call on: {sequence}",
                    help="let the plan place the output, or return a clone of the branch's result",
                    **parts,
                )


RULE = Rule(
    code="HZ601",
    name="rebound-output",
    severity="error",
    since="0.1.0",
    summary="a caller's output buffer is attached to a tensor inside the program",
    scan=scan,
)
