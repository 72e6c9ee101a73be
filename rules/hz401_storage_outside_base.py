"""Shared storage does not fit its base, is misaligned, has no base, or goes in a circle.

## What it does

Reports a request to share storage that cannot be met as it was made: bytes beyond the end of the base, an offset that
does not respect the alignment, an offset without a base, an argument index that is out of range or names no tensor,
several results, a base without memory, a chain of bases that comes back to where it began.

## Why is this bad?

Passes ask for shared storage in a node's metadata (`_share_alloc_with_arg_idx`, `_shared_alloc_offset`). Releases
differ in what they check: some requests fail in the planner without a word about the node, others are passed over in
silence and the tensor is planned as if nothing had been asked.

## Example

```hir
method forward
  meaning graph
  obstacle storage "mul takes bytes 16 to 32 of a base of 16 bytes" "mul"   # error: [storage-outside-base]
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
  arena 1 : 64
  %0 = tensor f32[4] @ 1+32
  %1 = tensor f32[8] @ 1+0
  %2 = tensor f32[4] @ 1+48
  %3 = tensor f32[4] @ 1+16 base %1+16
  inputs %0
  outputs %3
  chain
    0  aten::repeat.out(%0, %4, %1, %1)
    1  aten::slice_copy.Tensor_out(%1, %4, %4, %4, %4, %2, %2)
    2  aten::sin.out(%2, %3, %3)
```

## What to do

Make the request fit: the offset plus the result's bytes within the base, and the base's own offset plus the offset a
multiple of the alignment.
"""

from collections.abc import Iterator

from hazard.analysis.conflicts import Place
from hazard.program import Tensor
from hazard.rule import Context, Finding, Rule


def scan(context: Context) -> Iterator[Finding]:
    for analysis in context.methods:
        method = analysis.method
        told: set[str] = set()
        for obstacle in method.obstacles:
            if obstacle.kind == "storage":
                told.update(obstacle.names)
                place = Place(-1, 0, None, None, "obstacle", None, None, 0, 0, obstacle.origin, obstacle.origin.node)
                yield RULE.finding(
                    method=method.name,
                    message=obstacle.what,
                    help="ask for bytes that lie within the base and respect the alignment",
                    use=place,
                )
        for slot, value in enumerate(method.values):
            if isinstance(value, Tensor) and value.base is not None and value.name not in told:
                problem = _problem(value, method.values[value.base])
                if problem is not None:
                    arena, offset = (value.planned.arena, value.planned.offset) if value.planned else (None, 0)
                    yield RULE.finding(
                        method=method.name,
                        message=f"`{value.name or f'%{slot}'}` {problem}",
                        help="plan it within the bytes of its base, or do not share storage",
                        use=Place(
                            -1, 0, None, None, "plan", slot, arena, offset, value.nbytes, None, value.name, value.fqn
                        ),
                    )  # fmt: skip


def _problem(value: Tensor, base: object) -> str | None:
    """What is wrong with the place of a tensor, measured by the place of its base."""
    if not isinstance(base, Tensor):
        return "shares the storage of something that is no tensor"
    if value.planned is None or base.planned is None:
        return None
    if value.planned.arena != base.planned.arena:
        return f"was to share the storage of `{base.name}`, and lies in another arena"
    return None


RULE = Rule(
    code="HZ401",
    name="storage-outside-base",
    severity="error",
    since="0.1.0",
    summary="shared storage does not fit its base",
    scan=scan,
)
