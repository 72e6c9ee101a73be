"""An instruction or a loop body writes over an operand that it is still reading, or over another of its results.

## What it does

Reports an output of an instruction that shares bytes with one of its operands or with another of its outputs, and an
operand of a loop that the loop's own body overwrites before a later iteration reads it. An elementwise kernel that
writes exactly over an operand of the same element size is fine, and so is a result of one element over an operand of
one element.

## Why is this bad?

Inside one kernel, reads and writes interleave: part of the operand is gone before it has been read. Across iterations,
the next iteration reads what the previous one left.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+8
  inputs %0
  outputs %1
  chain
    0  aten::exp.out(%0, %1, %1)   # error: [overlapping-operand]
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::exp.out(%0, %1, %1)
```

## What to do

Give the output bytes of its own: extend the operand's live range over the instruction, or over the whole loop. Where a
branch result is the operand, `.clone()` right after the higher-order operator does it.
"""

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Kind
from hazard.rule import Rule, Story, site_word, value_word


def claims(conflict: Conflict, analysis: MethodAnalysis) -> bool:
    return conflict.kind is Kind.COLLISION or (conflict.kind is Kind.OVERWRITTEN and conflict.again)


def tell(conflict: Conflict, analysis: MethodAnalysis) -> Story:
    victim = value_word(conflict.use)
    if conflict.kind is Kind.COLLISION:
        both = conflict.define is not None and conflict.define == conflict.clobber
        what = "another of its results" if both else "an operand that it is still reading"
        message = f"`{conflict.use.operator}` writes {value_word(conflict.clobber)} over {victim}, {what}"
        return Story(message, f"give {value_word(conflict.clobber)} bytes that do not overlap {victim}")
    by = site_word(conflict.clobber) if conflict.clobber else "its body"
    message = f"a loop overwrites {victim}, which a later iteration still reads"
    return Story(message, f"keep the bytes of {victim} from {by} until the loop has ended, or copy it before the loop")


RULE = Rule(
    code="HZ102",
    name="overlapping-operand",
    severity="error",
    since="0.1.0",
    summary="an instruction or a loop body writes over an operand that it is still reading",
    claims=claims,
    tell=tell,
    precedence=30,
)
