"""Another method writes over the state of this one, in an arena that the host gives to both.

## What it does

Reports a read of state whose bytes another method has written: by a call, through an activation, an input or a state of
its own, or by loading its initial contents. The finding gives the shortest sequence of loads and calls that shows it,
the hosts on which it happens and those that are right.

## Why is this bad?

Each method is planned as if it were alone: state lies in arena 1 among its activations. A host that gives every method
the same arenas (`executorch.runtime.Program.load_method` does) lets one method's tensors land in the other's state, and
nothing at run time notices.

## Example

```hir
method a
  arena 1 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16 init 1
  %2 = tensor f32[2] @ 1+8
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)   # error: [clobbered-method-state]
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## Use instead

```hir
method a
  arena 1 : 48
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+40 init 1
  %2 = tensor f32[2] @ 1+8
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## What to do

Export with `MemoryPlanningPass(share_mutable_buffers=True)`, which gives state an arena of its own, and load every
method before the first call; buffers of one name are then one state, so give others different names. Or run on a host
that gives each method its own arenas (the C++ `Module` by default); or load the file once for each method.
"""

from collections.abc import Iterator

from hazard.hosts import tell
from hazard.program import Tensor
from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    for fault in context.events.faults:
        if fault.kind == "concurrent":
            parts = fault.parts
            yield RULE.finding(
                message=f"{value_word(parts['use'])} is overwritten by method `{fault.clobberer.name}` "
                f"when both run at the same time",
                help="run one method at a time, or give each method its own arenas",
                **parts,
            )
        elif fault.kind == "foreign" and not fault.layout:
            parts = fault.parts
            by = f"method `{fault.clobberer.name}`, {site_word(fault.clobber)}"
            if fault.clobber.operator.startswith("load "):
                by = f"the initial contents of method `{fault.clobberer.name}`"
            yield RULE.finding(
                message=f"the state {value_word(parts['use'])} is overwritten by {by}: {tell(fault.sequence)}",
                help=f"export with share_mutable_buffers=True{_named_apart(context, parts['use'].fqn)} and load all "
                "methods before the first call, or give each method its own arenas",
                **parts,
            )


def _named_apart(context: Context, name: str | None) -> str:
    """What sharing takes besides, where several methods have a buffer of that name: it makes them one state."""
    having = [
        analysis
        for analysis in context.methods
        if any(isinstance(v, Tensor) and v.fqn == name for v in analysis.method.values)
    ]
    return f" (buffers `{name}` that are not one state need different names)" if name and len(having) > 1 else ""


RULE = Rule(
    code="HZ501",
    name="clobbered-method-state",
    severity="error",
    since="0.1.0",
    summary="another method's writes reach this method's state through shared arenas",
    scan=scan,
    references=("https://github.com/pytorch/executorch/pull/17719",),
)
