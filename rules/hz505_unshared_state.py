"""Methods that mean to share state run on a host that gives each its own memory.

## What it does

Notes that two methods place one state at the same arena (id 2 or above), offset and size, which is how
`share_mutable_buffers=True` plans it, while a host does not share that arena. The note names the hosts that do.

## Why is this bad?

On such a host every method has a copy of the state: what `prefill` writes, `decode` never sees. Nothing reports it.

## Example

```hir
method set
  arena 1 : 32
  arena 2 : 16
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0   # note: [unshared-state]
  inputs %0
  outputs
  chain
    0  aten::copy_(%1, %0, %4, %1)
method get
  arena 1 : 32
  arena 2 : 16
  %1 = tensor f32[2] @ 2+0
  %2 = tensor f32[2] @ 1+16
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)
```

## Use instead

```hir
method forward
  arena 1 : 32
  arena 2 : 16
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %2
  chain
    0  aten::copy_(%1, %0, %4, %1)
    1  aten::sin.out(%1, %2, %2)
```

## What to do

In C++ construct the `Module` with `share_memory_arenas=True`; the Python runtime shares arenas by itself.
"""

from collections.abc import Iterator

from hazard.analysis.summary import FIRST_SHARED_ARENA, Memory, same_state
from hazard.hosts import labels
from hazard.rule import Context, Finding, Rule


def scan(context: Context) -> Iterator[Finding]:
    events = context.events
    shared = _shared(events.memories)
    if not shared:
        return
    able = [h for h in events.hosts if all(h.shares(a.method, b.method, arena) for a, _, b, _, arena in shared)]
    lacking = [h for h in context.hosts if h not in able]
    if not lacking:
        return
    first, slot, second, other, arena = shared[0]
    names = list(dict.fromkeys(name for a, _, b, _, _ in shared for name in (a.name, b.name)))
    places = list(dict.fromkeys((arena, a.regions.low[s]) for a, s, _, _, arena in shared))
    needed = labels(able) or ("python-runtime", "module-shared") if arena <= FIRST_SHARED_ARENA else labels(able)
    yield RULE.finding(
        method=first.name,
        message=f"methods {', '.join(f'`{n}`' for n in names)} share state in arena {arena}, "
        f"which {', '.join(labels(lacking))} does not share",
        help=f"run it on {' or '.join(needed)}" if needed else "no released host shares this arena",
        define=first.state_place(slot),
        use=second.state_place(other),
        properties=(
            ("hosts", labels(lacking)),
            ("right_hosts", labels(able)),
            ("methods", tuple(names)),
            ("places", tuple(places)),
        ),
    )


def _shared(memories: list[Memory]) -> list[tuple[Memory, int, Memory, int, int]]:
    """(method, slot, later method, its slot, arena) of every state that two methods place alike and one of them
    writes."""
    first: dict[tuple[int, int, int], tuple[Memory, int]] = {}
    found = []
    for memory in memories:
        for slot in sorted(memory.states):
            region = memory.regions.region(slot)
            if region[0] < FIRST_SHARED_ARENA or region[1] == region[2]:
                continue
            known = first.setdefault(region, (memory, slot))
            if known[0] is memory or not same_state(memory.tensor(slot), known[0].tensor(known[1])):
                continue
            if any(m.writes_over(*region) for m in (memory, known[0])):
                found.append((known[0], known[1], memory, slot, region[0]))
    return found


RULE = Rule(
    code="HZ505",
    name="unshared-state",
    severity="note",
    since="0.1.0",
    summary="methods share state in an arena that the host does not share",
    scan=scan,
    references=("https://github.com/pytorch/executorch/pull/17719",),
)
