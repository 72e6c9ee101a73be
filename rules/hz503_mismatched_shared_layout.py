"""Methods disagree about the place of a state that they share, or about what a shared arena is for.

## What it does

Reports a state that carries one name in several methods but lies at another arena, offset or size, or has another
dtype, where at least one of them keeps it in an arena for shared state (id 2 or above); an arena that two methods share
state in and another method uses for something else, with the sequence of loads and calls that shows the damage; and, as
possible, one shared place for which two methods bring different initial contents. Two methods that keep a state of one
name each for itself in arena 1 get a note.

## Why is this bad?

On a host that shares arenas each method reads and writes the other's bytes at its own offsets. On the way from export
to device nothing compares the two layouts.

## Example

```hir
method a
  arena 1 : 32
  arena 2 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0 fqn "cache"
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)   # error: [mismatched-shared-layout]
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  arena 2 : 32
  %1 = tensor f32[4] @ 2+0 fqn "cache"
  %2 = tensor f32[4] @ 1+16
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)   # error: [mismatched-shared-layout]
    1  aten::copy_(%1, %2, %4, %1)
```

## Use instead

```hir
method a
  arena 1 : 32
  arena 2 : 32
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0 fqn "cache"
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
method b
  arena 1 : 32
  arena 2 : 32
  %1 = tensor f32[2] @ 2+0 fqn "cache"
  %2 = tensor f32[2] @ 1+16
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
```

## What to do

Export all methods of the program together, with `MemoryPlanningPass(share_mutable_buffers=True)`, from modules whose
buffers of one name have one size; give unrelated buffers different names; keep activations out of arenas that hold
shared state.
"""

from collections.abc import Iterator
from typing import Any

from hazard.analysis.summary import FIRST_SHARED_ARENA, Memory, same_state
from hazard.hosts import tell
from hazard.program import Tensor
from hazard.rule import Context, Finding, Rule, site_word, value_word


def scan(context: Context) -> Iterator[Finding]:
    told: set[tuple[str, int]] = set()
    for fault in context.events.faults:
        if fault.kind != "foreign" or not fault.layout:
            continue
        told.add((fault.victim.name, fault.read.object))
        parts = fault.parts
        by = f"by method `{fault.clobberer.name}`, {site_word(fault.clobber)}"
        if fault.clobber.operator.startswith("load "):
            by = f"when method `{fault.clobberer.name}` is loaded"
        yield RULE.finding(
            message=f"the shared state {value_word(parts['use'])} is overwritten {by}, "
            f"which uses the same arena otherwise: {tell(fault.sequence)}",
            help="let every method place the state at the same arena, offset and size, "
            "and nothing else in that arena",
            **parts,
        )
    yield from _names(context.events.memories, told)
    yield from _contents(context.events.memories)


def _names(memories: list[Memory], told: set[tuple[str, int]]) -> Iterator[Finding]:
    """States of one name at different places."""
    first: dict[str, tuple[Memory, int]] = {}
    for memory in memories:
        for slot in sorted(memory.states):
            tensor = memory.tensor(slot)
            if tensor.fqn is None or tensor.base is not None:
                continue
            known = first.setdefault(tensor.fqn, (memory, slot))
            if known[0] is memory:
                continue
            other = known[0].tensor(known[1])
            if _layout(tensor) == _layout(other):
                continue
            if (memory.name, slot) in told and (known[0].name, known[1]) in told:
                continue
            meant = any(t.planned and t.planned.arena >= FIRST_SHARED_ARENA for t in (tensor, other))
            parts: dict[str, Any] = {
                "method": memory.name,
                "define": known[0].state_place(known[1]),
                "use": memory.state_place(slot),
                "properties": (("methods", (known[0].name, memory.name)), ("fqn", tensor.fqn)),
            }
            here, there = _words(tensor), _words(other)
            if meant:
                yield RULE.finding(
                    message=f"`{tensor.fqn}` lies at {here} here and at {there} in method `{known[0].name}`",
                    help="export the methods together, from modules whose buffers of one name have one size and dtype",
                    **parts,
                )
            elif memory.regions.region(slot)[0] != 0:
                yield RULE.finding(
                    message=f"`{tensor.fqn}` is a state of its own in method `{memory.name}` and in method "
                    f"`{known[0].name}`; neither sees what the other writes",
                    help="export with share_mutable_buffers=True if the methods are meant to share it",
                    severity="note",
                    **parts,
                )


def _contents(memories: list[Memory]) -> Iterator[Finding]:
    """One shared place with two sets of initial contents."""
    first: dict[tuple[int, int, int], tuple[Memory, int]] = {}
    for memory in memories:
        for slot in sorted(memory.states):
            tensor = memory.tensor(slot)
            if tensor.initial is None or tensor.planned is None or tensor.planned.arena < FIRST_SHARED_ARENA:
                continue
            known = first.setdefault(memory.regions.region(slot), (memory, slot))
            other = known[0].tensor(known[1])
            if known[0] is memory or other.initial == tensor.initial or not same_state(tensor, other):
                continue
            yield RULE.finding(
                method=memory.name,
                message=f"{value_word(memory.state_place(slot))} shares its bytes with the same state of method "
                f"`{known[0].name}`, but starts from other contents: the method that is loaded last decides",
                help="give buffers that are not the same state different names",
                certain=False,
                define=known[0].state_place(known[1]),
                use=memory.state_place(slot),
                properties=(("methods", (known[0].name, memory.name)),),
            )


def _layout(t: Tensor) -> tuple[object, ...]:
    return (t.planned, t.nbytes, t.dtype)


def _words(t: Tensor) -> str:
    place = f"arena {t.planned.arena}, offset {t.planned.offset}" if t.planned else "no arena"
    return f"{place}, {t.nbytes} bytes of {t.dtype}"


RULE = Rule(
    code="HZ503",
    name="mismatched-shared-layout",
    severity="error",
    since="0.1.0",
    summary="methods disagree about the layout of state that they share",
    scan=scan,
    references=("https://github.com/pytorch/executorch/pull/17719", "https://github.com/pytorch/executorch/issues/17005"),
)
