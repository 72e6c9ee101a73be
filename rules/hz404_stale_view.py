"""A view reads its base after the base was changed in place, or never sees the change.

## What it does

Reports a read of a view that has no instruction of its own and lies in the bytes of its base: after an in-place
operator has changed the base, or, the other way round, where the view of an in-place result was planned onto other
bytes.

## Why is this bad?

The pass that makes operators work in place looks at the direct users of a tensor, not at those of its views. The view
was meant to show the old value and shows the new one. A view of an in-place result may keep the place that the result
would have had as a tensor of its own, where nobody writes.

## Example

```hir
method forward
  meaning graph
  arena 1 : 96
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensors %1
  %4 = bool false
  %5 = tensor f32[4] slot 2
  %6 = tensor f32[2,2] @ 1+16
  %7 = tensor f32[2,2] @ 1+64
  inputs %0 %1
  outputs %5 %7
  chain
    0  aten::sin.out(%0, %2, %2)
    1  alias %6 <- %2                           # a view
    2  alias %5 <- %2
    3  aten::index_put_(%5, %3, %0, %4, %5)     # error: [stale-view]
    4  aten::cos.out(%6, %7, %7)
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 96
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensors %1
  %4 = bool false
  %5 = tensor f32[4] slot 2
  %6 = tensor f32[2,2] @ 1+16
  %7 = tensor f32[2,2] @ 1+64
  inputs %0 %1
  outputs %5 %7
  chain
    0  aten::sin.out(%0, %2, %2)
    1  alias %6 <- %2
    2  aten::cos.out(%6, %7, %7)
    3  alias %5 <- %2
    4  aten::index_put_(%5, %3, %0, %4, %5)
```

## What to do

Export with `run_reinplace_pass=False` and without `reinplace_extra_ops` (the pass runs as well where only these are
given). Keeping the copies of views (`remove_view_copy=False`) is not always enough: the result in place may then be
overwritten itself (HZ103).
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.lineage import is_alias, meanings, storage
from hazard.program import Kernel, Tensor
from hazard.rule import NOT_REINPLACED, Rule, Story, unshared, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    method, slot = analysis.method, conflict.use.slot
    if method.meaning != "graph" or slot is None or not _is_view(analysis, slot):
        return False
    if conflict.kind is Kind.ELSEWHERE:
        return any(_is_in_place(analysis, s) for s in meanings(method, slot) - {slot})
    clobber = conflict.clobber
    if conflict.kind not in (Kind.OVERWRITTEN, Kind.COLLISION) or clobber is None or clobber.slot is None:
        return False
    seen = meanings(method, slot)
    if _is_in_place(analysis, clobber.slot) and meanings(method, clobber.slot) & seen:
        return True
    bases = storage(method, clobber.slot)[1:]
    return any(storage(method, s)[0] in bases for s in seen)


def _is_view(analysis: MethodAnalysis, slot: int) -> bool:
    """Whether a slot is a name that nothing writes through."""
    return is_alias(analysis.method, slot) and slot not in _written(analysis)


def _is_in_place(analysis: MethodAnalysis, slot: int) -> bool:
    value = analysis.method.values[slot]
    return isinstance(value, Tensor) and is_alias(analysis.method, slot) and slot in _written(analysis)


def _written(analysis: MethodAnalysis) -> set[int]:
    found: set[int] = set()
    for step, effect in zip(analysis.flow.code, analysis.effects, strict=True):
        if isinstance(step, Kernel):
            found.update((*effect.writes, *effect.updates, *effect.may_writes))
    return found


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    view = value_word(conflict.use)
    if conflict.kind is Kind.ELSEWHERE or conflict.clobber is None:
        message = f"{view} is a view of {value_word(conflict.define)}, but lies on bytes that nobody writes"
        return Story(message, NOT_REINPLACED)
    message = f"the view {view} is read after {value_word(conflict.clobber)} changed its base in place"
    return Story(message, unshared(conflict.clobber))


RULE = Rule(
    code="HZ404",
    name="stale-view",
    severity="error",
    since="0.1.0",
    summary="a view reads its base after the base was changed in place",
    claims=claims,
    tell=tell,
    precedence=58,
)
