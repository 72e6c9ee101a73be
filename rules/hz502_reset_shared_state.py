"""Loading a method writes the initial contents of a state that another method has already changed.

## What it does

Reports a read of shared state after a sequence in which one method has updated the state and another, loaded later, has
put the initial contents back. Only hosts that load a method at its first call are concerned.

## Why is this bad?

`load_method` copies initial contents into the arena each time. What the program has accumulated until then (a cache, a
running sum) is gone, and the next call starts from the beginning.

## Example

```hir
method a
  arena 1 : 32
  arena 2 : 16
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0 init 1
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)   # warning: [reset-shared-state]
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  arena 2 : 16
  %1 = tensor f32[2] @ 2+0 init 1
  %2 = tensor f32[2] @ 1+16
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)   # warning: [reset-shared-state]
```

## Use instead

Only one method brings the initial contents; or, as here, each method has state of its own:

```hir
method a
  arena 1 : 32
  arena 2 : 16
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0 init 1
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  arena 2 : 16
  %1 = tensor f32[2] @ 2+8 init 1
  %2 = tensor f32[2] @ 1+16
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)
```

## What to do

Load every method of the program before the first call.
"""

from collections.abc import Iterator

from hazard.hosts import tell
from hazard.rule import Context, Finding, Rule, value_word


def scan(context: Context) -> Iterator[Finding]:
    for fault in context.events.faults:
        if fault.kind != "reset":
            continue
        parts = fault.parts
        yield RULE.finding(
            message=f"loading method `{fault.clobberer.name}` resets the shared state {value_word(parts['use'])} "
            f"after it was changed: {tell(fault.sequence)}",
            help="load all methods before the first call, and say that you do (`--load eager`, `load=\"eager\"`)",
            severity="error" if context.narrowed else None,
            **parts,
        )


RULE = Rule(
    code="HZ502",
    name="reset-shared-state",
    severity="warning",
    since="0.1.0",
    summary="loading a method re-initialises state that another method has already changed",
    scan=scan,
)
