"""A tensor is read after an in-place operator, or one that shares its storage, has replaced it.

## What it does

Reports a read of a tensor whose bytes were taken over by the result of an operator that works in place on it or shares
its storage; the operator's other operands included.

## Why is this bad?

Working in place is right only where nobody needs the old value any more. The pass that makes operators work in place
does not count the outputs of the program as users, nor that the operator itself reads the same tensor as another
operand. Requests to share storage are not checked for later uses of the base at all.

## Example

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensors %1
  %4 = bool false
  %5 = tensor f32[4] slot 2
  inputs %0 %1
  outputs %2 %5
  chain
    0  aten::sin.out(%0, %2, %2)
    1  alias %5 <- %2
    2  aten::index_put_(%5, %3, %0, %4, %5)     # error: [base-read-after-write]
```

## Use instead

```hir
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensors %1
  %4 = bool false
  %5 = tensor f32[4] slot 2
  inputs %0 %1
  outputs %5
  chain
    0  aten::sin.out(%0, %2, %2)
    1  alias %5 <- %2
    2  aten::index_put_(%5, %3, %0, %4, %5)
```

## What to do

Export with `run_reinplace_pass=False` and without `reinplace_extra_ops` (the pass runs as well where only these are
given), or copy the tensor before it is changed in place. Where a pass of your own shares storage: only with a base that
nothing reads afterwards, and only for kernels that work element by element.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.analysis.lineage import is_alias, meanings, storage
from hazard.analysis.operators import is_reinplaced
from hazard.rule import Rule, Story, site_word, unshared, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    clobber, use, method = conflict.clobber, conflict.use, analysis.method
    if conflict.kind not in (Kind.OVERWRITTEN, Kind.COLLISION) or clobber is None or method.meaning != "graph":
        return False
    if clobber.slot is None or use.slot is None:
        return False
    bases = storage(method, clobber.slot)[1:]
    if any(storage(method, slot)[0] in bases for slot in meanings(method, use.slot)):
        return True
    # In place: the result is a name for the operand, and the old name is read.
    return is_alias(method, clobber.slot) and bool(meanings(method, clobber.slot) & meanings(method, use.slot))


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    victim, writer = value_word(conflict.use), value_word(conflict.clobber)
    if conflict.kind is Kind.COLLISION:
        message = f"{writer} is written over {victim} while `{conflict.use.operator}` still reads it"
    else:
        message = f"{victim} is read after {writer} took over its bytes"
    assert conflict.clobber is not None
    cure = unshared(conflict.clobber)
    # A kernel that was put over its own operand reads that very tensor: a copy would be put over as well.
    if conflict.kind is not Kind.COLLISION or is_reinplaced(conflict.clobber.operator):
        cure += f"; or copy {victim} before {site_word(conflict.clobber)} (`.clone()`)"
    return Story(message, cure)


RULE = Rule(
    code="HZ403",
    name="base-read-after-write",
    severity="error",
    since="0.1.0",
    summary="a tensor is read after an operator that works in its storage has replaced it",
    claims=claims,
    tell=tell,
    precedence=56,
)
