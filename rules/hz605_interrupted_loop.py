"""After a failed call the next one starts in the middle of a loop.

## What it does

Notes loops (`map`, `scan`) whose counter is kept in a slot from call to call and is set back to zero only by an
instruction behind the loop.

## Why is this bad?

When an instruction inside the loop fails (a kernel refuses its arguments, a delegate reports an error), the call ends
with an error and the counter keeps its value. The next call, with good inputs, silently starts at that row; the rows
before it hold data of an earlier call. The call after that is right again. A call that ended with an error is also not
undone: state that it had updated by then stays updated.

The note says nothing of calls that succeed: verdicts are about those.

## Example

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[3] @ 1+0
  %1 = tensor f32[] @ 1+16
  %2 = tensor f32[] @ 1+32
  %3 = tensor f32[3] @ 1+48
  %4 = int 0
  %5 = int 1
  %6 = int 3
  %7 = bool false
  %8 = int 0
  inputs %0
  outputs %3
  chain
    0  aten::select_copy.int_out(%0, %8, %4, %1, %1)   # note: [interrupted-loop]
    1  aten::sin.out(%1, %2, %2)
    2  executorch_prim::et_copy_index.tensor(%3, %2, %4)
    3  executorch_prim::add.Scalar(%4, %5, %4)
    4  executorch_prim::eq.Scalar(%4, %6, %7)
    5  jump-false %7 -> 0
    6  executorch_prim::sub.Scalar(%4, %4, %4)
```

## Use instead

```hir
method forward
  arena 1 : 64
  %0 = tensor f32[3] @ 1+0
  %3 = tensor f32[3] @ 1+48
  inputs %0
  outputs %3
  chain
    0  aten::sin.out(%0, %3, %3)
```

## What to do

Load the method again after a call that returned an error, or call it once with good inputs and discard the result.
"""

from collections.abc import Iterator

from hazard.analysis.summary import Memory
from hazard.hosts import Event, tell
from hazard.program import DelegateCall, Kernel, Scalar
from hazard.rule import Context, Finding, Rule


def scan(context: Context) -> Iterator[Finding]:
    for memory in context.events.memories:
        told: set[int] = set()
        for counter, update, loop in _counters(memory):
            if counter in told:
                continue
            told.add(counter)
            events = (Event("load", memory.name), Event("call", memory.name, "(fails)"), Event("call", memory.name))
            blocks = memory.flow.blocks
            positions = [p for b in loop for p in range(blocks[b].start, blocks[b].end)]
            first, last = min(positions), max(positions)
            yield RULE.finding(
                method=memory.name,
                message=f"after an error between {memory.judge.describe(first)} and {memory.judge.describe(last)} the "
                f"counter %{counter} of this loop stays set: the next call starts at that row",
                help="load the method again after a call that failed",
                define=memory.place(update, counter, None, 1),
                use=memory.place(_first_use(memory, counter, positions), counter, None, 2),
                notes=(f"sequence: {tell(events)}", "calls that succeed are not concerned"),
                properties=(("sequence", tuple(map(str, events))), ("loop", (first, last))),
            )


def _counters(memory: Memory) -> Iterator[tuple[int, int, frozenset[int]]]:
    """(slot, position of the update, blocks of the loop) of numbers that a loop changes and a call starts with."""
    live = memory.reaching.live_in.get(0, set())
    for loop in sorted(memory.flow.loops, key=lambda item: len(item.body)):
        for b in sorted(loop.body):
            block = memory.flow.blocks[b]
            for position in range(block.start, block.end):
                step = memory.flow.code[position]
                if not isinstance(step, Kernel):
                    continue
                for slot in memory.a.effects[position].scalars:
                    if slot in live and isinstance(memory.method.values[slot], Scalar) and slot in step.args[:-1]:
                        yield slot, position, loop.body


def _first_use(memory: Memory, counter: int, positions: list[int]) -> int:
    for position in sorted(positions):
        step = memory.flow.code[position]
        if isinstance(step, Kernel | DelegateCall) and counter in step.args:
            return position
    return min(positions)


RULE = Rule(
    code="HZ605",
    name="interrupted-loop",
    severity="note",
    since="0.1.0",
    summary="a loop counter stays set when an instruction inside the loop fails",
    scan=scan,
)
