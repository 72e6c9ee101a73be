"""Two live tensors were put at overlapping bytes of one base.

## What it does

Reports a read of a tensor that shares the storage of a base, after another tensor with the same base has been written
over its bytes.

## Why is this bad?

Each request to share storage is looked at on its own: that two results share one base, at the same or at overlapping
offsets, and are alive at the same time, is seen by nobody. The shipped verifier exempts all tensors of one base.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 name "a"
  %2 = tensor f32[4] @ 1+16 name "first" base %1+0
  %3 = tensor f32[4] @ 1+16 name "second" base %1+0
  %4 = tensor f32[4] @ 1+32
  inputs %0
  outputs %4
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::exp.out(%1, %2, %2)
    2  aten::cos.out(%0, %3, %3)                # error: [overlapping-siblings]
    3  aten::add.out(%2, %3, %5, %4, %4)
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 name "a"
  %2 = tensor f32[4] @ 1+16 name "first" base %1+0
  %3 = tensor f32[4] @ 1+48 name "second"
  %4 = tensor f32[4] @ 1+32
  inputs %0
  outputs %4
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::exp.out(%1, %2, %2)
    2  aten::cos.out(%0, %3, %3)
    3  aten::add.out(%2, %3, %5, %4, %4)
```

## What to do

Give the tensors offsets that do not overlap, or let only one of them share the base. Operators named in
`reinplace_extra_ops` that have no kernel for working in place share their input's storage, whatever
`run_reinplace_pass` says: take them out.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.lineage import meanings, storage
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    clobber, use = conflict.clobber, conflict.use
    if conflict.kind not in (Kind.OVERWRITTEN, Kind.COLLISION) or clobber is None:
        return False
    if clobber.slot is None or use.slot is None:
        return False
    writer = storage(analysis.method, clobber.slot)
    for slot in meanings(analysis.method, use.slot):
        victim = storage(analysis.method, slot)
        # One base, and the victim is not what the writer was allowed to use.
        if victim[0] != writer[0] and victim[-1] == writer[-1] and victim[0] not in writer and len(victim) > 1:
            return True
    return False


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    slot = conflict.use.slot
    base = storage(analysis.method, slot)[-1] if slot is not None else None
    name = getattr(analysis.method.values[base], "name", None) if base is not None else None
    shared = f"`{name}`" if name else "their base" if base is None else f"`%{base}`"
    victim, writer = value_word(conflict.use), value_word(conflict.clobber)
    return Story(
        f"{victim} and {writer} share the storage of {shared}, and {writer} is written over {victim} before it is read",
        f"do not let {writer} share the storage of {shared} before {site_word(conflict.use)}: take its operator out of"
        " `reinplace_extra_ops`, or the request to share out of the pass that makes it",
    )


RULE = Rule(
    code="HZ402",
    name="overlapping-siblings",
    severity="error",
    since="0.1.0",
    summary="two live tensors were put at overlapping bytes of one base",
    claims=claims,
    tell=tell,
    precedence=62,
)
