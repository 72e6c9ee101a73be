"""An instruction writes constant data.

## What it does

Reports an instruction that writes, or changes in part, a tensor whose bytes are constant data of the program.

## Why is this bad?

Constant data belongs to the loaded program: every tensor with the same data, every method and every later call sees the
change. On a host that maps the file read-only the write faults.

## Example

```hir
method forward
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] const 1
  %2 = bool false
  inputs %0
  outputs %1
  chain
    0  aten::copy_(%1, %0, %2, %1)         # error: [written-constant]
```

## Use instead

```hir
method forward
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1
  %2 = bool false
  inputs %0
  outputs %1
  chain
    0  aten::copy_(%1, %0, %2, %1)
```

## What to do

Export the tensor as a mutable buffer, or copy it before the write. A view of a weight that `run_reinplace_pass=True`
turned into the target of `index_put_` is the usual cause: leave the pass off (`reinplace_extra_ops` turns it on as
well), or clone the weight.
"""

from collections.abc import Iterator

from hazard.analysis.operators import is_reinplaced
from hazard.rule import NOT_REINPLACED, Context, Finding, Rule, value_word


def scan(context: Context) -> Iterator[Finding]:
    from hazard.analysis.places import place_at

    for analysis in context.methods:
        for (position, slot), objects in sorted(analysis.reaching.writes.items()):
            if slot in analysis.effects[position].may_writes:
                continue  # an operator of which nothing is known most likely reads its weights
            for obj in sorted(objects):
                if analysis.method.is_tensor(obj) and analysis.method.tensor(obj).is_constant:
                    place = place_at(analysis.flow, position, slot, obj, None)
                    sure = len(objects) == 1
                    otherwise = "export it as a mutable buffer"
                    if is_reinplaced(place.operator):
                        otherwise = NOT_REINPLACED
                    yield RULE.finding(
                        method=analysis.method.name,
                        message=f"`{place.operator}` writes {value_word(place)}, which is constant data",
                        help=f"copy the constant first (`.clone()`), or {otherwise}",
                        certain=sure,
                        severity=None if sure else "warning",
                        clobber=place,
                        use=place,
                    )


RULE = Rule(
    code="HZ703",
    name="written-constant",
    severity="error",
    since="0.1.0",
    summary="an instruction writes constant data",
    scan=scan,
)
