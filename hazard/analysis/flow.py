"""Control flow of a method: staging, the chains in order, the reads of the outputs, and then the next call.

The code of a method is laid out as one line of positions: first one `Stage` for each input that execution sets, then
the instructions of all chains, then one `Use` for each output. Jumps go to absolute instructions of their own chain.
The last block leads back to the first: a call is followed by another call, with all slots and bytes as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hazard.program import Instruction, JumpFalse, Method, Scalar


@dataclass(frozen=True, slots=True)
class Stage:
    """The caller's value of an input arrives: in planned bytes by a copy, else by a pointer."""

    slot: int


@dataclass(frozen=True, slots=True)
class Use:
    """An output is read after the call."""

    slot: int


Step = Instruction | Stage | Use


@dataclass(slots=True)
class Block:
    """Positions ``start`` (included) to ``end`` (excluded). ``successors`` are (block, outcome): the outcome is True or
    False for a conditional jump on a predicate that held or did not, None where there is no choice."""

    start: int
    end: int
    successors: list[tuple[int, bool | None]] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: header block, all its blocks, and the sources of its back edges."""

    header: int
    body: frozenset[int]
    latches: frozenset[int]


@dataclass(slots=True)
class Flow:
    """The control-flow graph of one method; block 0 is the entry, ``exit`` the block of the output reads."""

    method: Method
    code: list[Step]
    sites: list[tuple[int, int | None] | None]  # (chain, number) of each instruction; None for staging and uses
    starts: list[int]  # position of the first instruction of each chain
    blocks: list[Block]
    block_of: list[int]
    exit: int
    first: int  # position of the first instruction
    order: list[int] = field(default_factory=list)  # reachable blocks in reverse postorder
    loops: list[Loop] = field(default_factory=list)
    loops_of: dict[int, tuple[int, ...]] = field(default_factory=dict)  # block -> loops around it, outermost first
    _reachable: dict[int, frozenset[int]] = field(default_factory=dict)

    def reachable(self, block: int) -> frozenset[int]:
        """Blocks that can follow a block within the same call; itself only through a loop."""
        known = self._reachable.get(block)
        if known is None:
            found: set[int] = set()
            work = [t for t, _ in self.blocks[block].successors]
            while work:
                b = work.pop()
                if b not in found:
                    found.add(b)
                    work.extend(t for t, _ in self.blocks[b].successors)
            known = self._reachable[block] = frozenset(found)
        return known

    def back_edges(self) -> set[tuple[int, int]]:
        """(source block, header) of every loop."""
        return {(latch, loop.header) for loop in self.loops for latch in loop.latches}


def build_flow(method: Method) -> Flow:
    """Lays out the code and finds blocks; edges that a constant predicate forbids are left out."""
    code: list[Step] = [Stage(i) for i in method.inputs]
    sites: list[tuple[int, int | None] | None] = [None] * len(code)
    first = len(code)
    starts = []
    for c, chain in enumerate(method.chains):
        starts.append(len(code))
        code.extend(chain)
        sites.extend([(c, number) for number in method.numbers(c)])
    tail = len(code)
    code.extend(Use(o) for o in method.outputs)
    sites.extend([None] * len(method.outputs))

    leaders = {0, tail}
    targets: dict[int, int] = {}
    for position in range(first, tail):
        step = code[position]
        if isinstance(step, JumpFalse):
            site = sites[position]
            assert site is not None
            targets[position] = starts[site[0]] + step.target
            leaders.add(targets[position])
            leaders.add(position + 1)
    # An empty tail still needs a block of its own, the place of the call's end.
    begins = sorted(leaders)
    blocks = [Block(s, e) for s, e in zip(begins, [*begins[1:], len(code)], strict=True)]
    index = {b.start: i for i, b in enumerate(blocks)}
    block_of = [0] * (len(code) + 1)
    for i, b in enumerate(blocks):
        for position in range(b.start, b.end):
            block_of[position] = i
    exit_block = index[tail]
    written = _written_scalars(code, method)
    for i, b in enumerate(blocks):
        if i == exit_block:
            continue
        last = b.end - 1
        jump = code[last] if b.end > b.start else None
        if isinstance(jump, JumpFalse):
            value = method.values[jump.condition]
            fixed = value.value if isinstance(value, Scalar) and jump.condition not in written else None
            taken, through = index[targets[last]], index[b.end]
            if isinstance(fixed, bool):
                b.successors = [(through if fixed else taken, None)]
            elif taken == through:
                b.successors = [(through, None)]
            else:
                b.successors = [(through, True), (taken, False)]
        else:
            b.successors = [(i + 1, None)]
    flow = Flow(method, code, sites, starts, blocks, block_of, exit_block, first)
    complete(flow)
    return flow


def _written_scalars(code: list[Step], method: Method) -> set[int]:
    """Slots of numbers that some instruction may define: the last argument of a call, or the target of a move."""
    from hazard.program import DelegateCall, Kernel, Move

    written: set[int] = set()
    for step in code:
        match step:
            case Kernel(_, args) if args:
                written.add(args[-1])
            case DelegateCall(_, args):
                written.update(args)
            case Move(_, target) | Stage(target):
                written.add(target)
    return {s for s in written if isinstance(method.values[s], Scalar)}


def complete(flow: Flow) -> None:
    """Computes predecessors, order and loops from the successors; called again when edges have been removed."""
    blocks = flow.blocks
    for b in blocks:
        b.predecessors = []
    seen = {0}
    postorder: list[int] = []
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        node, successors = stack[-1]
        for target, _ in successors:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(blocks[target].successors)))
                break
        else:
            postorder.append(node)
            stack.pop()
    flow.order = postorder[::-1]
    flow._reachable.clear()
    for node in flow.order:
        for target, _ in blocks[node].successors:
            blocks[target].predecessors.append(node)
    _find_loops(flow)


def _find_loops(flow: Flow) -> None:
    rank = {b: i for i, b in enumerate(flow.order)}
    latches: dict[int, set[int]] = {}
    for node in flow.order:
        for target, _ in flow.blocks[node].successors:
            if rank[target] <= rank[node]:
                latches.setdefault(target, set()).add(node)
    flow.loops = []
    for header in sorted(latches):
        body = {header}
        work = [b for b in latches[header] if b != header]
        while work:
            node = work.pop()
            if node not in body:
                body.add(node)
                work.extend(flow.blocks[node].predecessors)
        flow.loops.append(Loop(header, frozenset(body), frozenset(latches[header])))
    flow.loops.sort(key=lambda loop: -len(loop.body))
    around: dict[int, list[int]] = {}
    for i, loop in enumerate(flow.loops):
        for block in loop.body:
            around.setdefault(block, []).append(i)
    flow.loops_of = {b: tuple(ls) for b, ls in around.items()}


class InstanceOrder:
    """Order of positions within one instance of a value: one call, and one iteration of the loops around all reads."""

    def __init__(self, flow: Flow, positions: Iterable[int]) -> None:
        self.flow = flow
        common: set[int] | None = None
        for p in positions:
            loops = set(flow.loops_of.get(flow.block_of[p], ()))
            common = loops if common is None else common & loops
        cut = {(latch, flow.loops[i].header) for i in common or () for latch in flow.loops[i].latches}
        self.successors = {b: [t for t, _ in flow.blocks[b].successors if (b, t) not in cut] for b in flow.order}
        self._reached: dict[int, set[int]] = {}

    def _from(self, block: int) -> set[int]:
        known = self._reached.get(block)
        if known is None:
            known = set()
            work = list(self.successors.get(block, ()))
            while work:
                b = work.pop()
                if b not in known:
                    known.add(b)
                    work.extend(self.successors.get(b, ()))
            self._reached[block] = known
        return known

    def before(self, first: int, then: int) -> bool:
        """Whether ``then`` can follow ``first`` in the same instance."""
        a, b = self.flow.block_of[first], self.flow.block_of[then]
        return (a == b and first < then) or b in self._from(a)
