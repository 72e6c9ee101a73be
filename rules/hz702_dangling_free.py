"""Memory is used after it was given back, or planned memory is given back.

## What it does

Reports a read of a tensor whose memory a `free` has given back, also through a slot that a move made refer to it, and a
`free` of planned memory or of constant data.

## Why is this bad?

What is read after a `free` belongs to somebody else. Planned memory belongs to its arena for ever.

## Example

```hir
method forward
  %0 = tensor f32[4]
  %1 = tensor f32[4] unbound
  %2 = tensor f32[4] unbound
  inputs %0
  outputs %2
  chain
    0  aten::sin.out(%0, %1, %1)
    1  free %1                             # error: [dangling-free]
    2  aten::cos.out(%1, %2, %2)
```

## Use instead

```hir
method forward
  %0 = tensor f32[4]
  %1 = tensor f32[4] unbound
  %2 = tensor f32[4] unbound
  inputs %0
  outputs %2
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::cos.out(%1, %2, %2)
    2  free %1
```

## What to do

Move the `free` after the last read, through whichever slot that is; leave planned memory alone.
"""

from collections.abc import Iterator

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind, Place
from hazard.program import Free, Tensor, Unplanned
from hazard.rule import Context, Finding, Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return (
        conflict.kind is Kind.OVERWRITTEN
        and conflict.clobber is not None
        and isinstance(analysis.flow.code[conflict.clobber.position], Free)
    )


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    value = value_word(conflict.use)
    where = site_word(conflict.clobber) if conflict.clobber else "an instruction"
    return Story(
        f"{value} is read after {where} has given its memory back",
        f"free it after {site_word(conflict.use)}",
    )


def scan(context: Context) -> Iterator[Finding]:
    for analysis in context.methods:
        method = analysis.method
        for position, step in enumerate(analysis.flow.code):
            if not isinstance(step, Free):
                continue
            value = method.values[step.value]
            if isinstance(value, Tensor) and not isinstance(value.placement, Unplanned):
                what = "planned memory" if value.planned else "constant data"
                site = analysis.flow.sites[position] or (0, 0)
                place = Place(position, site[0], site[1], None, "free", step.value, None, 0, value.nbytes, step.origin)
                yield RULE.finding(
                    method=method.name,
                    message=f"`%{step.value}` is {what}, which is never given back",
                    help="remove the `free`",
                    clobber=place,
                    use=place,
                )


RULE = Rule(
    code="HZ702",
    name="dangling-free",
    severity="error",
    since="0.1.0",
    summary="memory is used after it was given back, or planned memory is given back",
    claims=claims,
    tell=tell,
    scan=scan,
    precedence=50,
)
