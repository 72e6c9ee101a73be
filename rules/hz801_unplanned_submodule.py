"""The graphs of a higher-order operator were never planned.

## What it does

Reports a `cond`, `map`, `scan` or `while_loop` whose graphs hold tensors without memory: neither an arena and an offset
nor memory that is taken at run time.

## Why is this bad?

No program can be made of such a graph. The released planner looks for a `while_loop` of its own and passes over torch's
in silence; emission then fails with `Unsupported control flow operator`.

## Example

```hir
method forward
  meaning graph
  obstacle unplanned "the graphs of while_loop were never planned" "add"   # error: [unplanned-submodule]
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  inputs %0
  outputs %0
  chain
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  inputs %0
  outputs %0
  chain
```

## What to do

Write the loop as a `scan` over a fixed number of steps, or plan the graphs with a planner of your own: such a plan is
checked like any other.
"""

from collections.abc import Iterator

from hazard.analysis.conflicts import Place
from hazard.program import Obstacle
from hazard.rule import Context, Finding, Rule

#: Tensors that a message names.
NAMED = 8


def scan(context: Context) -> Iterator[Finding]:
    for analysis in context.methods:
        for obstacle in analysis.method.obstacles:
            if obstacle.kind == "unplanned":
                yield RULE.finding(
                    method=analysis.method.name,
                    message=f"{obstacle.what}{_names(obstacle)}",
                    help="use `scan` with a fixed number of steps, or a planner that plans these graphs",
                    use=Place(
                        -1, 0, None, None, "obstacle", None, None, 0, 0, obstacle.origin, obstacle.origin.node
                    ),
                )  # fmt: skip


def _names(obstacle: Obstacle) -> str:
    if not obstacle.names:
        return ""
    told = ", ".join(f"`{n}`" for n in obstacle.names[:NAMED])
    more = len(obstacle.names) - NAMED
    return f"; without memory: {told}" + (f" and {more} more" if more > 0 else "")


RULE = Rule(
    code="HZ801",
    name="unplanned-submodule",
    severity="error",
    since="0.1.0",
    summary="the graphs of a higher-order operator were never planned",
    scan=scan,
)
