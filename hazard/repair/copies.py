"""Copies that a finding advises, tried in the program: one more instruction, whose result has bytes of its own.

The model itself stays as it is: what is tried is that a copy at this place, read in place of the value from then on,
leaves nothing of the finding. A planner may give the copy other bytes; within one graph it knows how long it is needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hazard.analysis.check import NOT_JUDGED, MethodAnalysis, analyse, prepare, suspected
from hazard.analysis.conflicts import Kind
from hazard.analysis.flow import Flow
from hazard.program import (
    NULL,
    Alias,
    Arena,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    Planned,
    Program,
    Tensor,
    TensorList,
    Value,
)
from hazard.repair.interference import demand
from hazard.repair.placement import first_free
from hazard.rule import Finding

_CLONE: Final = "aten::clone.out"
#: Rules whose advice is a copy of the value right after it is made.
_AFTER_DEFINITION: Final = frozenset(("HZ101", "HZ102", "HZ201"))
#: Rules whose advice is a copy of the value right before its bytes are written.
_BEFORE_CLOBBER: Final = frozenset(("HZ302", "HZ303", "HZ703"))


@dataclass(frozen=True, slots=True)
class Trial:
    """A copy that leaves nothing of a finding: ``method`` has it, with arenas that grow from ``before`` to ``after``
    bytes."""

    method: Method
    before: int
    after: int


def try_copy(program: Program, analyses: list[MethodAnalysis], m: int, finding: Finding) -> Trial | None:
    """Puts the copy that ``finding`` of method ``m`` advises into the program and analyses that.

    None where no place for it is known, or where the finding would stay or another one come.
    """
    analysis = analyses[m]
    doubtful = suspected(analysis)
    for position, slot, once in _places(analysis, finding):
        copying = _Copying(analysis, position, slot, once, whole=finding.code == "HZ703")
        if finding.code == "HZ201" and finding.use is not None and finding.use.slot is not None:
            copying.follow(finding.use.slot)
        made = copying.run()
        if made is None:
            continue
        method, copy = made
        step = _Step(finding, position, slot, copy)
        again = prepare(method) or analyse(method)
        if again.reaching.reads and not _is_better(analysis, again, step):
            continue
        # Now that it is known how long the copy is needed, it gets the first bytes that are free for so long.
        others = [again if n == m else a for n, a in enumerate(analyses)]
        changed = Program(tuple(a.method for a in others))
        demanded = demand(changed, others)
        group = next(g for g in demanded.groups if any(member[:2] == (m, copy) for member in g.members))
        free = first_free(demanded, group.index, {})
        end = free + demanded.units(group.index) * demanded.alignment
        size = max(end, analysis.method.arenas[group.arena].size if group.arena in analysis.method.arenas else 0)
        arenas = {**method.arenas, group.arena: replace(method.arenas[group.arena], size=size)}
        placed = replace(_placed(method, {s: free + above for _, s, above in group.members}), arenas=arenas)
        if _is_surely_better(doubtful, placed, step) or _is_better(analysis, analyse(placed), step):
            before, after = (sum(a.size for a in x.arenas.values()) for x in (analysis.method, placed))
            return Trial(placed, before, after)
    return None


def _places(analysis: MethodAnalysis, finding: Finding) -> Iterator[tuple[int, int, bool]]:
    """(position before which to copy, slot of the value, whether the copy is for that position alone) that may help."""
    flow, roles, use = analysis.flow, analysis.roles, finding.use
    if use is None or use.slot is None or not analysis.method.is_tensor(use.slot):
        return
    if finding.code in _BEFORE_CLOBBER and finding.clobber is not None and finding.clobber.instruction is not None:
        yield finding.clobber.position, use.slot, False
        if finding.define is not None and finding.define.slot is not None and finding.define.slot != use.slot:
            yield finding.clobber.position, finding.define.slot, False
    if finding.code == "HZ104":
        root = roles.root.get(use.slot, use.slot)
        for position, step in enumerate(flow.code):
            if isinstance(step, Move) and roles.root.get(step.target, step.target) == root:
                yield position, step.source, True
    if finding.code not in _AFTER_DEFINITION:
        return
    for position, step in enumerate(flow.code):
        if isinstance(step, Alias) and step.target == use.slot and finding.code == "HZ201":
            yield position, step.source, True
    root = roles.root.get(use.slot, use.slot)
    for slot in sorted(roles.move_targets, key=lambda s: s != use.slot):
        # A file does not tell what a view is a view of; a result on whose bytes it lies is what the advice is about.
        lies_on = finding.code == "HZ201" and slot != use.slot and analysis.regions.overlap(slot, use.slot)
        if roles.root.get(slot, slot) == root or lies_on:
            yield _joined(flow, slot), slot, False
    if finding.define is not None and finding.define.instruction is not None:
        yield finding.define.position + 1, use.slot, False


def _joined(flow: Flow, slot: int) -> int:
    """The first position at which all moves that fill a slot are behind: after the branches of its operator."""
    moves = [p for p, step in enumerate(flow.code) if isinstance(step, Move) and step.target == slot]
    last = max(moves)
    over = [
        flow.blocks[target].start
        for p in range(min(moves), last)
        if isinstance(flow.code[p], JumpFalse)
        for target, _ in flow.blocks[flow.block_of[p]].successors
    ]
    return min([p for p in over if p > last], default=last + 1)


class _Copying:
    """A method with one more instruction at ``position``: a copy of ``slot``, which is read in its place from then on.

    ``once``: it is read in its place at ``position`` alone. ``whole``: it takes its place where an instruction changes
    it, too.
    """

    def __init__(self, analysis: MethodAnalysis, position: int, slot: int, once: bool, whole: bool) -> None:
        self.flow, self.effects = analysis.flow, analysis.effects
        self.method, self.position, self.slot = analysis.method, position, slot
        self.once, self.whole = once, whole
        self.redefined = False
        self.values: list[Value] = list(self.method.values)
        self.lists: dict[int, int] = {}
        self.followers: dict[int, int] = {}  # views on the bytes of the value -> bytes above its first

    def run(self) -> tuple[Method, int] | None:
        """The method and the slot of the copy; None where the value has no bytes to be copied."""
        value = self.method.tensor(self.slot)
        if not value.nbytes or self.position >= self.flow.starts[-1] + len(self.method.chains[-1]):
            return None
        chain = bisect_right(self.flow.starts, self.position) - 1
        arena = value.planned.arena if value.planned else 1
        size = self.method.arenas[arena].size if arena in self.method.arenas else 0
        offset = -(-size // 64) * 64
        self.values.append(NULL)
        self.copy = len(self.values)
        self.values.append(
            replace(
                value, placement=Planned(arena, offset), initial=None, fqn=None, slot=None, base=None, lost_value=False
            )
        )  # fmt: skip
        chains = []
        for c, code in enumerate(self.method.chains):
            new: list[Instruction] = []
            for i, instruction in enumerate(code):
                at = self.flow.starts[c] + i
                if at == self.position:
                    new.append(Kernel(_CLONE, (self.slot, self.copy - 1, self.copy, self.copy)))
                if c == chain and isinstance(instruction, JumpFalse) and instruction.target > self.position - (
                    self.flow.starts[c]
                ):  # fmt: skip
                    instruction = replace(instruction, target=instruction.target + 1)
                wanted = at == self.position if self.once else at >= self.position and not self.redefined
                new.append(self._renamed(instruction, at) if wanted else instruction)
            chains.append(tuple(new))
        outputs = self.method.outputs
        if not (self.once or self.redefined):
            outputs = tuple(map(self._name, outputs))
        for view, above in self.followers.items():
            seen = self.values[view]
            assert isinstance(seen, Tensor)
            self.values[view] = replace(seen, placement=Planned(arena, offset + above), initial=None, fqn=None)
        arenas = {**self.method.arenas, arena: Arena(offset + value.nbytes, None)}
        if arena in self.method.arenas:
            arenas[arena] = replace(self.method.arenas[arena], size=offset + value.nbytes)
        method = replace(
            self.method, values=tuple(self.values), chains=tuple(chains), outputs=outputs, arenas=arenas, lives=()
        )
        return method, self.copy

    def _renamed(self, instruction: Instruction, at: int) -> Instruction:
        effect = self.effects[at]
        made = instruction.target if isinstance(instruction, Alias | Move) else None
        self.redefined = self.slot == made or self.slot in effect.writes
        if not self.whole and self.slot in (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes):
            return instruction
        match instruction:
            case Kernel(operator, args):
                return Kernel(operator, tuple(map(self._name, args)), instruction.origin)
            case DelegateCall():
                return replace(instruction, args=tuple(map(self._name, instruction.args)))
            case Alias(source, target):
                if source == self.slot or source in self.followers:
                    self.follow(target)
                return replace(instruction, source=self._name(source))
            case Move(source):
                return replace(instruction, source=self._name(source))
            case JumpFalse(condition):
                return replace(instruction, condition=self._name(condition))
            case Free():
                return instruction
        raise TypeError(instruction)

    def follow(self, view: int) -> None:
        """Has a view on the bytes of the value lie on those of the copy."""
        value, seen = self.method.tensor(self.slot), self.method.tensor(view)
        if seen.planned is None:
            return
        above = seen.planned.offset - value.planned.offset if value.planned else 0
        if 0 <= above <= value.nbytes - seen.nbytes:
            self.followers[view] = above
        elif seen.nbytes == value.nbytes:
            self.followers[view] = 0  # it was never on the bytes of the value, which is what is wrong

    def _name(self, slot: int) -> int:
        if slot == self.slot:
            return self.copy
        value = self.method.values[slot]
        if not isinstance(value, TensorList) or self.slot not in value.items:
            return slot
        if slot not in self.lists:
            self.lists[slot] = len(self.values)
            self.values.append(replace(value, items=tuple(self.copy if i == self.slot else i for i in value.items)))
        return self.lists[slot]


def _placed(method: Method, offsets: dict[int, int]) -> Method:
    """The method with slots at other offsets of their arena."""
    values = list(method.values)
    for slot, offset in offsets.items():
        value = method.tensor(slot)
        assert value.planned is not None
        values[slot] = replace(value, placement=Planned(value.planned.arena, offset))
    return replace(method, values=tuple(values))


@dataclass(frozen=True, slots=True)
class _Step:
    """The copy of ``slot`` that stands at ``position``, and the finding that it is for."""

    finding: Finding
    position: int
    slot: int
    copy: int

    def original(self, position: int, slot: int | None) -> tuple[int, int]:
        """(position, slot) of a read in the method without the copy."""
        assert slot is not None
        return position - (position > self.position), self.slot if slot == self.copy else slot

    @property
    def use(self) -> tuple[int, int | None]:
        assert self.finding.use is not None
        return self.finding.use.position, self.finding.use.slot


def _is_surely_better(before: Mapping[tuple[int, int], set[int]], method: Method, step: _Step) -> bool:
    """What `_is_better` finds, without a look at paths: no other read is suspected, and none because of the copy."""
    if step.finding.code not in ("HZ101", "HZ102", "HZ302", "HZ303"):
        return False
    analysis = analyse(method, judged=False)
    if analysis.roles.views or analysis.reasons != [NOT_JUDGED]:
        return False
    after = suspected(analysis)
    return all(
        read[0] != step.position and step.position not in writers and step.original(*read) in before
        and step.original(*read) != step.use
        for read, writers in after.items()
    )  # fmt: skip


def _is_better(before: MethodAnalysis, after: MethodAnalysis, step: _Step) -> bool:
    """Whether the finding's read is right now and no other read has become wrong."""
    known = {(c.use.position, c.use.slot) for c in before.conflicts} - {step.use}
    conflicts = [c for c in after.conflicts if c.kind is not Kind.UNINITIALIZED]
    if after.verdict == "unknown" or any(c.use.position == step.position for c in conflicts):
        return False  # what is copied is wrong already
    changed = after.effects[step.position + 1]
    written = (*changed.writes, *changed.updates)
    if step.finding.code == "HZ703" and any(after.method.tensor(s).is_constant for s in written):
        return False
    return all(step.original(c.use.position, c.use.slot) in known for c in conflicts)
