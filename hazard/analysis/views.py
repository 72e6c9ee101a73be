"""Presumed views: planned slots that nothing writes, whose meaning the bytecode has lost.

Each is taken to be a view of the one tensor whose definitions it sees. That is an assumption, and it is named; where
the program's own reads contradict it, the read is a conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hazard.analysis.conflicts import Conflict, Kind, Place
from hazard.analysis.flow import InstanceOrder
from hazard.analysis.reaching import FILL, LOAD, Content
from hazard.program import Move, Tensor

if TYPE_CHECKING:
    from hazard.analysis.check import _Judge

Reads = dict[int, list[tuple[int, set[Content]]]]


def judge_views(judge: _Judge) -> set[tuple[int, int]]:
    """Judges all reads of presumed views; returns those that rest on an assumption."""
    reaching = judge.reaching
    reads: Reads = {}
    real: set[tuple[int, int]] = set()
    for b in judge.flow.order:
        block = judge.flow.blocks[b]
        for position in range(block.start, block.end):
            real.update((position, s) for s in judge.a.effects[position].reads)
            if (handed := judge._handed_on(position)) is not None:
                real.add((position, handed))
    for (position, slot), contents in sorted(reaching.contents.items()):
        reads.setdefault(slot, []).append((position, contents))
    assumed: set[tuple[int, int]] = set()
    for view, found in sorted(reads.items()):
        assumed |= _View(judge, view, found, real).judge()
    return assumed


class _View:
    def __init__(
        self, judge: _Judge, view: int, reads: list[tuple[int, set[Content]]], real: set[tuple[int, int]]
    ) -> None:
        self.judge_, self.view, self.reads, self.real = judge, view, reads, real
        self.regions, self.roles = judge.regions, judge.a.roles
        self.region = judge.regions.region(view)
        mine = judge.method.tensor(view)
        self.states: set[int] = set()  # roots of the state that this slot is a second entry of
        if mine.initial is not None:
            for slot, value in enumerate(judge.method.values):
                if slot != view and isinstance(value, Tensor) and value.initial == mine.initial:
                    if slot not in self.roles.views and judge.regions.region(slot) == self.region:
                        self.states.add(self.roles.root.get(slot, slot))
        self.owners = {
            t for t in self.roles.move_targets if judge.method.is_tensor(t) and judge.regions.region(t) == self.region
        }
        self.on_moved = bool(self.owners)

    def judge(self) -> set[tuple[int, int]]:
        """Reports the reads that are wrong; returns those that rest on an assumption."""
        judge = self.judge_
        if self.view in judge.reaching.overflowed:
            for position, _ in self.reads:
                judge.uncertain.add((position, self.view))
            judge._reason(f"%{self.view}: too many alternatives for the bytes of this view without instruction")
            return set()
        if self._never_written():
            self._report_unwritten()
            return set()
        good: set[tuple[int, int]] = set()
        roots: dict[int, tuple[int, int]] = {}  # root -> (definer, slot) first seen
        for position, contents in self.reads:
            problems = [(self._problem(position, content, roots), content) for content in sorted(contents)]
            wrong = [(p, content) for p, content in problems if p is not None]
            if wrong:
                # If no contents are those of one whole tensor of these bytes, the read is wrong whatever is meant.
                certain = all(p in ("pieces", "other", "fill") for p, _ in problems)
                self._report(position, *wrong[0], roots, certain)
            else:
                good.add((position, self.view))
        self._stale()
        good = {key for key in good if key not in judge.hazardous}
        if roots and good:
            base = min(slot for _, slot in roots.values())
            judge._assume(f"elided-view v{self.view}=v{base}")
        return good & self.real

    def _never_written(self) -> bool:
        return all(d == FILL for _, contents in self.reads for c in contents for _, _, d, _ in c)

    def _is_state_like(self) -> bool:
        value = self.judge_.method.tensor(self.view)
        shared = value.planned is not None and value.planned.arena >= 2
        return value.fqn is not None or shared

    def _report_unwritten(self) -> None:
        judge = self.judge_
        for position, _ in self.reads:
            key = (position, self.view)
            if self._is_state_like():
                judge._uninitialized(position, self.view, self.view)
                continue
            if key not in self.real:
                continue
            if self.view in judge.a.effects[position].may_writes:
                judge.doubt_operand(position, self.view)
                continue
            answer = judge.paths.to_position(position)
            if not answer.paths:
                continue
            path = answer.paths[0]
            judge.hazardous.add(key)
            judge.a.conflicts.append(
                Conflict(
                    Kind.UNWRITTEN,
                    judge.place(position, self.view, self.view, path.call),
                    None,
                    None,
                    (),
                    (),
                    path.exact and judge._handed_on(position) is None,
                    judge.witness(None, path, None, self.view),
                    view=True,
                    moved_region=self.on_moved,
                )  # fmt: skip
            )

    def _problem(self, position: int, content: Content, roots: dict[int, tuple[int, int]]) -> str | None:
        """Why these contents cannot be the bytes of one tensor that this slot is a view of, or None."""
        judge = self.judge_
        pieces = [p for p in content if p[2] != FILL]
        if len(content) == 1 and not pieces:
            return None if self._has_state_root() else "fill"
        if len(content) > 1:
            return "pieces"
        _, _, definer, slot = content[0]
        if slot == self.view:
            return None  # a delegate may have written the slot itself
        objects = {slot} if definer == LOAD else judge.reaching.writes.get((definer, slot), {slot})
        if not any(self.regions.region(o) == self.region for o in objects):
            return "other"  # a tensor of another place or size
        root = self.roles.root.get(slot, slot)
        if self.states and root not in self.states:
            return "root"  # a second entry of a state: what shows is somebody else's
        if definer == LOAD and not judge.method.tensor(slot).nbytes:
            return None
        if roots and root not in roots:
            return "root"
        if definer >= 0 and self.owners and self._spans_a_move(definer, root, position):
            return "moved"
        roots.setdefault(root, (definer, slot))
        return None

    def _spans_a_move(self, definer: int, root: int, position: int) -> bool:
        """Whether a result moves into the slot that owns these bytes after an unrelated definition and before the read.

        From the move on, a plan keeps the slot's bytes for the result, so the view can only be one of the result, which
        is elsewhere.
        """
        order = InstanceOrder(self.judge_.flow, [position])
        for m, step in enumerate(self.judge_.flow.code):
            if isinstance(step, Move) and step.target in self.owners and self.roles.root.get(step.target) != root:
                if order.before(definer, m) and order.before(m, position):
                    return True
        return False

    def _has_state_root(self) -> bool:
        """Whether a tensor on the same bytes is state: read or written in one call, kept for the next."""
        reaching = self.judge_.reaching
        for slot in reaching.live_in[0]:
            value = self.judge_.method.values[slot]
            if slot != self.view and isinstance(value, Tensor) and self.regions.region(slot) == self.region:
                return True
        # State that only this view reads: written by an instruction, and not written before the read on some path.
        return any(
            d >= 0 and self._is_write_back(d) for _, contents in self.reads for c in contents for _, _, d, _ in c
        )

    def _is_write_back(self, position: int) -> bool:
        effect = self.judge_.a.effects[position]
        return any(s in effect.shapes for s in effect.writes) or bool(effect.updates)

    def _report(
        self, position: int, problem: str, content: Content, roots: dict[int, tuple[int, int]], certain: bool
    ) -> None:
        judge = self.judge_
        key = (position, self.view)
        if key not in self.real or key in judge.hazardous:
            return
        if self.view in judge.a.effects[position].may_writes:
            judge.doubt_operand(position, self.view)
            return
        answer = judge.paths.to_position(position)
        if not answer.paths and answer.exhausted:
            return
        path = answer.paths[0] if answer.paths else None
        call = path.call if path else 1
        witness = judge.witness(None, path, None, self.view) if path else None
        use = judge.place(position, self.view, self.view, call)
        writers = [(d, s) for _, _, d, s in content if d >= 0]
        define: Place | None = None
        if roots:
            definer, slot = next(iter(roots.values()))
            define = judge.definition(definer, slot, slot, None) if definer != FILL else None
        base = next(iter(roots.values()), None)
        foreign = [
            d for d, s in writers if base is None or self.roles.root.get(s, s) != self.roles.root.get(base[1], base[1])
        ]
        clobbers = tuple(judge.writer(d, self.view, None) for d in dict.fromkeys(foreign))
        unwritten = problem == "fill" or self.on_moved or define is None
        judge.hazardous.add(key)
        judge.a.conflicts.append(
            Conflict(
                Kind.UNWRITTEN if unwritten else Kind.OVERWRITTEN,
                use,
                define,
                clobbers[0] if clobbers and not (unwritten and problem == "fill") else None,
                (define,) if define else (),
                clobbers,
                certain and path is not None and path.exact and judge._handed_on(position) is None,
                witness,
                view=True,
                moved_region=self.on_moved,
                approximations=() if certain else ("what a view without instruction is a view of",),
            )
        )

    def _stale(self) -> None:
        """Two reads in one instance of the view, with a new definition between them."""
        judge = self.judge_
        positions = [p for p, _ in self.reads]
        if len(positions) < 2:
            return
        reach = InstanceOrder(judge.flow, positions)
        for position, contents in self.reads:
            key = (position, self.view)
            if key not in self.real or key in judge.hazardous:
                continue
            for definer, slot in sorted({(d, s) for c in contents for _, _, d, s in c if d >= 0}):
                earlier = [p for p in positions if reach.before(p, definer) and reach.before(definer, position)]
                if not earlier:
                    continue
                use = judge.place(position, self.view, self.view, 1)
                clobber = judge.place(definer, slot, slot, 1)
                first = next((c for p, cs in self.reads if p == earlier[0] for c in sorted(cs)), None)
                define = None
                if first and first[0][2] != FILL:
                    define = judge.definition(first[0][2], first[0][3], first[0][3], None)
                judge.hazardous.add(key)
                judge.a.conflicts.append(
                    Conflict(
                        Kind.STALE,
                        use,
                        define,
                        clobber,
                        (define,) if define else (),
                        (clobber,),
                        False,
                        None,
                        view=True,
                        approximations=("what a view without instruction is a view of",),
                    )  # fmt: skip
                )
                break
