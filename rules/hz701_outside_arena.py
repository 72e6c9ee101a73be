"""A planned tensor does not fit its arena.

## What it does

Reports a tensor whose planned bytes lie outside of the arena of its id, or whose arena does not exist, or whose offset
is no multiple of its element size.

## Why is this bad?

The runtime refuses such a program when it loads it, or, where it does not check, writes beyond the arena. A misaligned
tensor faults on some processors and is slow on others.

## Example

```hir
method forward
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16               # error: [outside-arena]
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## Use instead

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
```

## What to do

Give the arena the size that the finding names, or plan the tensor into an arena that exists. The released planners drop
arenas that only the branches of a higher-order operator use: let the parent graph use the same arena id.
"""

from collections.abc import Iterator

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Place
from hazard.program import Tensor
from hazard.rule import Context, Finding, Rule


def scan(context: Context) -> Iterator[Finding]:
    for analysis in context.methods:
        method = analysis.method
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.planned is not None and value.nbytes > 0:
                problem = _problem(analysis, value)
                if problem is not None:
                    message, advice = problem
                    yield RULE.finding(
                        method=method.name, message=f"`%{slot}` {message}", help=advice, use=_place(slot, value)
                    )


def _problem(analysis: MethodAnalysis, value: Tensor) -> tuple[str, str] | None:
    assert value.planned is not None
    arena, offset = value.planned.arena, value.planned.offset
    known = analysis.method.arenas.get(arena)
    end = offset + value.nbytes
    if known is None:
        return (
            f"is planned into arena {arena}, which the program does not have",
            f"reserve at least {end} bytes for arena {arena}, or plan the tensor into another one",
        )
    if end > known.size:
        return (
            f"ends at byte {end} of arena {arena}, which has {known.size} bytes",
            f"make arena {arena} at least {end} bytes large",
        )
    if offset % value.itemsize:
        return (
            f"begins at byte {offset} of arena {arena}, which is no multiple of its element size {value.itemsize}",
            f"place it at a multiple of {value.itemsize}",
        )
    return None


def _place(slot: int, value: Tensor) -> Place:
    assert value.planned is not None
    return Place(
        -1,
        0,
        None,
        None,
        "plan",
        slot,
        value.planned.arena,
        value.planned.offset,
        value.nbytes,
        None,
        value.name,
        value.fqn,
    )


RULE = Rule(
    code="HZ701",
    name="outside-arena",
    severity="error",
    since="0.1.0",
    summary="a planned tensor does not fit its arena",
    scan=scan,
)
