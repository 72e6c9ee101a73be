"""Byte-level reaching definitions through slots, moves and overwritten bytes.

A *fact* says of a slot at a point: it refers to the tensor object of slot ``object``, which is expected to hold what
definition ``definer`` wrote, and the last write into those bytes by anybody else was ``overwriter``. Facts of one slot
are alternatives by path. Each fact moves through the program independently of the others, so the solution over all
paths of the control-flow graph, loops and further calls included, is a plain fixed point; whether an alternative lies
on a path that can be executed is asked afterwards (`hazard.analysis.paths`).

Positions are those of `hazard.analysis.flow`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hazard.analysis.effects import Effect
from hazard.analysis.flow import Flow
from hazard.analysis.operators import COPY_FIRST, PLAIN_COPIES, base_name
from hazard.analysis.roles import Regions, Roles
from hazard.analysis.scalars import Scalars
from hazard.program import Alias, Dynamism, JumpFalse, Kernel, Method, Move, NumberList, Tensor

#: Definers that are no position: loading of initial contents, and bytes that nobody has written.
LOAD: Final = -2
FILL: Final = -3
#: Overwriters that are no position: nobody, and "the bytes were never those of the definition".
INTACT: Final = -1
ELSEWHERE: Final = -4

#: How exactly a fact is known.
EXACT: Final = 0
APPROXIMATE: Final = 1  # sizes or the target of a write are over-approximated
UNKNOWN: Final = 2  # an effect is a guess

Fact = tuple[int, int, int, int]  # object, definer, overwriter, quality
Fragment = tuple[int, int, int, int]  # first byte, end, definer, slot written through
Content = tuple[Fragment, ...]
State = dict[int, tuple[Fact, ...]]
Contents = dict[int, tuple[Content, ...]]

#: More alternatives than this for the contents of a presumed view make the view unknown.
MAX_CONTENTS: Final = 64
#: With more live slots than this, those that a write may hit are looked up instead of compared one by one.
SCAN_LIMIT: Final = 48


@dataclass(frozen=True, slots=True)
class Collision:
    """Two operands of one instruction that share bytes: ``victim`` is read or also written, ``writer`` is written."""

    position: int
    victim: int
    writer: int
    victim_object: int
    writer_object: int
    quality: int
    both_written: bool


class Reaching:
    """The solution. ``reads`` and ``contents`` map (position, slot) to what reaches the read."""

    def __init__(self, flow: Flow, effects: list[Effect], regions: Regions, roles: Roles, scalars: Scalars) -> None:
        self.flow, self.effects, self.regions, self.roles, self.scalars = flow, effects, regions, roles, scalars
        self.method: Method = flow.method
        self.reads: dict[tuple[int, int], set[Fact]] = {}
        self.contents: dict[tuple[int, int], set[Content]] = {}
        self.collisions: set[Collision] = set()
        self.writes: dict[tuple[int, int], set[int]] = {}
        self.overflowed: set[int] = set()
        self.restarts: dict[tuple[int, int], frozenset[int]] = {}
        self.undefined = {p for p, e in enumerate(effects) if e.undefined}
        self._moved = sorted(roles.moved)
        self._loads = [s for s, v in enumerate(self.method.values) if isinstance(v, Tensor) and v.initial is not None]
        self._default: dict[int, tuple[Fact, ...]] = {}
        self._uses: list[tuple[int, ...]] = []
        self._kills: list[tuple[int, ...]] = []
        self.live_in: dict[int, set[int]] = {}
        self._dies: dict[int, tuple[int, ...]] = {}
        self._shown: dict[int, list[int]] = {}  # position -> presumed views of the bytes written there, if live after
        self._is_tracked = [self._tracked(s) for s in range(len(self.method.values))]
        self._views_at: dict[tuple[int, int, int], list[int]] = {}
        for p in roles.views:
            self._views_at.setdefault(regions.region(p), []).append(p)

    # --- liveness -----------------------------------------------------------------------------------------------------

    def uses(self, position: int) -> tuple[int, ...]:
        """Slots whose meaning a position uses; asked after `prepare`."""
        return self._uses[position]

    def kills(self, position: int) -> tuple[int, ...]:
        """Slots whose meaning a position replaces; asked after `prepare`."""
        return self._kills[position]

    def _tracked(self, slot: int) -> bool:
        value = self.method.values[slot]
        if isinstance(value, Tensor):
            return not value.is_constant or slot in self.roles.moved
        return slot in self.scalars.written

    def _position_sets(self, position: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(slots whose meaning is used, slots whose meaning is replaced) at a position."""
        step, effect = self.flow.code[position], self.effects[position]
        uses = list(effect.reads)
        kills: list[int] = []
        moved = self.roles.moved
        tracked = self._is_tracked
        if isinstance(step, Kernel):
            values, written = self.method.values, effect.scalars
            for a in step.args:
                value = values[a]
                if isinstance(value, Tensor):
                    continue
                if isinstance(value, NumberList) and value.kind == "ints":
                    uses.extend(int(i) for i in value.items if 0 <= i < len(values))
                elif tracked[a] and (a not in written or a in step.args[:-1]):
                    uses.append(a)
        elif isinstance(step, Move | Alias):
            uses.append(step.source)
            kills.append(step.target)
        elif isinstance(step, JumpFalse):
            uses.append(step.condition)
        if effect.points:
            kills.append(effect.points[0])
            uses.append(effect.points[1])
        for slot in effect.writes:
            (uses if slot in moved else kills).append(slot)
            if slot not in moved and self._views_at:
                value = self.method.values[slot]
                if isinstance(value, Tensor) and value.dynamism is Dynamism.STATIC:
                    kills.extend(self._views_at.get(self.regions.region(slot), ()))
        if moved:
            uses.extend(
                s for s in (*effect.updates, *effect.appends, *effect.may_writes, *effect.frees) if s in moved
            )
        kills.extend(effect.scalars)
        kills.extend(self.roles.adopters.get(position, ()))
        return tuple([s for s in dict.fromkeys(uses) if tracked[s]]), tuple(
            [s for s in dict.fromkeys(kills) if tracked[s]]
        )

    def _liveness(self) -> None:
        flow = self.flow
        for position in range(len(flow.code)):
            uses, kills = self._position_sets(position)
            self._uses.append(uses)
            self._kills.append(kills)
        exposed: dict[int, set[int]] = {}
        killed: dict[int, set[int]] = {}
        for b in flow.order:
            block = flow.blocks[b]
            use: set[int] = set()
            kill: set[int] = set()
            for position in range(block.start, block.end):
                use.update([s for s in self._uses[position] if s not in kill])
                kill.update(self._kills[position])
            exposed[b], killed[b] = use, kill
            self.live_in[b] = set(use)
        changed = True
        while changed:
            changed = False
            for b in reversed(flow.order):
                live = self._live_out(b)
                new = exposed[b] | (live - killed[b])
                if len(new) != len(self.live_in[b]):
                    self.live_in[b] = new
                    changed = True
        for b in flow.order:
            live = self._live_out(b)
            block, views = flow.blocks[b], self.roles.views
            for position in range(block.end - 1, block.start - 1, -1):
                uses, kills = self._uses[position], self._kills[position]
                dead = [s for s in (*uses, *kills) if s not in live]
                if dead:
                    # Views of the bytes that are written here are not entered into the state unless they are live.
                    self._dies[position] = tuple([s for s in dead if s not in views or s in uses])
                if views and (shown := [s for s in kills if s in views and s in live]):
                    self._shown[position] = shown
                live.difference_update(kills)
                live.update(uses)

    def _live_out(self, b: int) -> set[int]:
        live: set[int] = set()
        for target, _ in self.flow.blocks[b].successors:
            live |= self.live_in[target]
        if b == self.flow.exit:
            live |= self.live_in[0]
        return live

    # --- the fixed point ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Finds what does not depend on where tensors are: liveness and ``restarts``."""
        self._liveness()
        self.restarts = self._restarts()

    def moved_to(self, flow: Flow, regions: Regions) -> Reaching:
        """The same question with the tensors in other places, prepared; for methods without presumed views."""
        moved = Reaching(flow, self.effects, regions, self.roles, self.scalars)
        moved._uses, moved._kills = self._uses, self._kills
        moved.live_in, moved._dies, moved._shown = self.live_in, self._dies, self._shown
        moved.restarts = self.restarts
        return moved

    def solve(self) -> None:
        """Iterates to the fixed point and fills ``reads``, ``contents``, ``writes`` and ``collisions``."""
        flow = self.flow
        rank = {b: i for i, b in enumerate(flow.order)}
        restarts = self.restarts
        state, contents = self._initial()
        before: dict[int, tuple[State, Contents]] = {0: (state, contents)}
        work = [0]
        queued = {0}
        while work:
            b = flow.order[heapq.heappop(work)]
            queued.discard(b)
            state, contents = dict(before[b][0]), dict(before[b][1])
            block = flow.blocks[b]
            for position in range(block.start, block.end):
                self._step(position, state, contents)
            targets = [t for t, _ in block.successors]
            if b == flow.exit:
                targets.append(0)
            for target in targets:
                dropped = restarts.get((b, target), frozenset())
                live = self.live_in[target]
                if self._merge(before, target, state, contents, live, dropped) and target not in queued:
                    heapq.heappush(work, rank[target])
                    queued.add(target)

    def _initial(self) -> tuple[State, Contents]:
        state: State = {}
        contents: Contents = {}
        for slot in self.live_in[0]:
            if slot in self.roles.views:
                contents[slot] = (self._initial_content(slot),)
            else:
                state[slot] = self.default(slot)
        return state, contents

    def _initial_content(self, view: int) -> Content:
        regions = self.regions
        content: Content = ((regions.low[view], regions.high[view], FILL, view),)
        for slot, value in enumerate(self.method.values):
            if slot in self.roles.views:
                continue  # a second entry of the same state
            if isinstance(value, Tensor) and value.initial is not None and regions.overlap(slot, view):
                content = _overwrite(content, regions.low[slot], regions.high[slot], LOAD, slot)
        return content

    def default(self, slot: int) -> tuple[Fact, ...]:
        """What holds of a slot that no instruction has touched."""
        if slot not in self._default:
            value = self.method.values[slot]
            loaded = not isinstance(value, Tensor) or value.is_constant or value.initial is not None
            over = LOAD if self.loaded_over(slot) is not None else INTACT
            self._default[slot] = ((slot, LOAD if loaded else FILL, over, EXACT),)
        return self._default[slot]

    def loaded_over(self, slot: int) -> int | None:
        """A slot whose initial contents are loaded over the bytes of ``slot``, after its own; None if there is none.

        Contents are loaded in the order of the values table. Entries of one state (same bytes, same contents) agree.
        """
        mine = self.method.values[slot]
        if not self._loads or not isinstance(mine, Tensor) or mine.planned is None:
            return None
        for other in self._loads:
            theirs = self.method.values[other]
            assert isinstance(theirs, Tensor)
            same = mine.initial == theirs.initial and self.regions.region(slot) == self.regions.region(other)
            if (
                other != slot
                and not same
                and self.regions.overlap(slot, other)
                and (mine.initial is None or other > slot)
            ):
                return other
        return None

    def _restarts(self) -> dict[tuple[int, int], frozenset[int]]:
        """Edges into a loop on which the rows that the loop appends begin anew, with their slots.

        The runtime gives the result of ``et_copy_index`` the size of the rows written so far, and the row counter is
        zero when the loop is entered (shown by `hazard.analysis.scalars`).
        """
        flow = self.flow
        result: dict[tuple[int, int], set[int]] = {}
        for position, effect in enumerate(self.effects):
            if not effect.appends or effect.row is None:
                continue
            for index in flow.loops_of.get(flow.block_of[position], ()):
                loop = flow.loops[index]
                if not self._counted_in(effect.row, loop.body):
                    continue
                for source in flow.blocks[loop.header].predecessors:
                    if source in loop.body:
                        continue
                    state = self.scalars.out.get(source, {})
                    if self.scalars.number(state, effect.row) == 0:
                        result.setdefault((source, loop.header), set()).update(effect.appends)
        return {edge: frozenset(slots) for edge, slots in result.items()}

    def _counted_in(self, counter: int, body: frozenset[int]) -> bool:
        blocks = self.flow.blocks
        return any(counter in self.effects[p].scalars for b in body for p in range(blocks[b].start, blocks[b].end))

    def _merge(
        self,
        before: dict[int, tuple[State, Contents]],
        target: int,
        state: State,
        contents: Contents,
        live: set[int],
        dropped: frozenset[int],
    ) -> bool:
        if target not in before:
            before[target] = (
                {s: f for s, f in state.items() if s in live and s not in dropped},
                {s: c for s, c in contents.items() if s in live},
            )
            return True
        old_state, old_contents = before[target]
        changed = False
        for slot, facts in state.items():
            if slot not in live or slot in dropped:
                continue
            old = old_state.get(slot)
            if old is None:
                old_state[slot] = facts
                changed = True
            elif old is not facts and not set(facts) <= set(old):
                old_state[slot] = tuple(dict.fromkeys((*old, *facts)))
                changed = True
        for slot, alternatives in contents.items():
            if slot not in live:
                continue
            known = old_contents.get(slot)
            if known is None:
                old_contents[slot] = alternatives
                changed = True
            elif known is not alternatives and not set(alternatives) <= set(known):
                merged = tuple(dict.fromkeys((*known, *alternatives)))
                if len(merged) > MAX_CONTENTS:
                    self.overflowed.add(slot)
                    continue
                old_contents[slot] = merged
                changed = True
        return changed

    # --- one position -------------------------------------------------------------------------------------------------

    def _facts(self, state: State, slot: int) -> tuple[Fact, ...]:
        return state.get(slot) or self.default(slot)

    def _step(self, position: int, state: State, contents: Contents) -> None:
        effect = self.effects[position]
        step = self.flow.code[position]
        for slot in self._uses[position]:
            self._record(position, slot, state, contents)
        if effect.writes or effect.updates or effect.appends or effect.may_writes or effect.frees:
            self._write(position, effect, state, contents)
        elif isinstance(step, Move):
            if self._tracked(step.target):
                state[step.target] = self._meaning_of(state, contents, step.source)
        elif isinstance(step, Alias):
            state[step.target] = self.rebind(step.target, self._meaning_of(state, contents, step.source))
        elif effect.points:
            state[effect.points[0]] = self._meaning_of(state, contents, effect.points[1])
        for slot in effect.scalars:
            if slot in self.scalars.written:
                state[slot] = ((slot, position, INTACT, EXACT),)
        for slot in self._dies.get(position, ()):
            state.pop(slot, None)
            contents.pop(slot, None)

    def _record(self, position: int, slot: int, state: State, contents: Contents) -> None:
        if slot in self.roles.views:
            known = contents.get(slot)
            if known is None:
                known = (self._initial_content(slot),)
            self.contents.setdefault((position, slot), set()).update(known)
        else:
            self.reads.setdefault((position, slot), set()).update(self._facts(state, slot))

    def _meaning_of(self, state: State, contents: Contents, slot: int) -> tuple[Fact, ...]:
        if slot not in self.roles.views:
            return self._facts(state, slot)
        found = contents.get(slot, ())
        return tuple({(slot, c[-1][2], INTACT, EXACT if len(c) == 1 else APPROXIMATE): None for c in found})

    def rebind(self, target: int, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        """The facts of ``target`` once it means what has the given facts, with its own bytes if it has any."""
        value = self.method.values[target]
        if not isinstance(value, Tensor) or value.is_name_only:
            return tuple(facts)
        here = self.regions.region(target)
        result: dict[Fact, None] = {}
        for obj, definer, overwriter, quality in facts:
            space, low, high = self.regions.region(obj)
            if (space, low, high) == here or value.nbytes == 0:
                result[(target, definer, overwriter, quality)] = None
            else:
                result[(target, definer, ELSEWHERE, quality)] = None
        return tuple(result)

    def _write(self, position: int, effect: Effect, state: State, contents: Contents) -> None:
        targets: list[tuple[int, tuple[int, ...], str]] = []
        simple = not (effect.updates or effect.appends or effect.may_writes or effect.frees or contents)
        if simple and len(effect.writes) == 1 and not self._views_at and position not in self.roles.adopters:
            # Nearly every instruction: one result, and nothing that the rest of this function is about.
            (slot,) = effect.writes
            objects = tuple(dict.fromkeys([f[0] for f in self._facts(state, slot)]))
            self.writes.setdefault((position, slot), set()).update(objects)
            self._collide(position, effect, [(slot, objects, "write")], state)
            if not (effect.undefined or self._copies_onto_itself(position, effect, state)):
                self._clobber(position, slot, objects, "write", {slot}, state)
            state[slot] = tuple([(o, position, INTACT, EXACT) for o in objects])
            return
        for kind, slots in (
            ("write", effect.writes),
            ("update", effect.updates),
            ("append", effect.appends),
            ("may", effect.may_writes),
            ("free", effect.frees),
        ):
            for slot in slots:
                objects = tuple(dict.fromkeys(f[0] for f in self._facts(state, slot)))
                targets.append((slot, objects, kind))
                self.writes.setdefault((position, slot), set()).update(objects)
        self._collide(position, effect, targets, state)
        # A copy onto its own bytes changes nothing, and a result without defined contents is not written.
        same_bytes = effect.undefined or self._copies_onto_itself(position, effect, state)
        inherited = {t: self._facts(state, t) for t, _, kind in targets if kind in ("update", "may")}
        inherited.update({t: state.get(t, ()) for t, _, kind in targets if kind == "append"})
        if not same_bytes:
            redefined = {t for t, _, kind in targets if kind == "write"}
            redefined.update(self.roles.adopters.get(position, ()))
            for slot, objects, kind in targets:
                self._clobber(position, slot, objects, kind, redefined, state)
                if contents:
                    self._overlay(position, slot, objects, kind, contents)
        for slot in self.roles.adopters.get(position, ()):
            state[slot] = ((slot, position, INTACT, EXACT),)
        for slot, objects, kind in targets:
            if kind == "write":
                state[slot] = tuple((o, position, INTACT, EXACT) for o in objects)
                if not same_bytes and self._views_at:
                    self._show(position, slot, objects, contents)
            elif kind == "update":
                state[slot] = tuple(dict.fromkeys((o, position, w, q) for o, _, w, q in inherited[slot]))
            elif kind == "append":
                facts = dict.fromkeys((o, position, w, q) for o, _, w, q in inherited[slot])
                state[slot] = tuple(facts) or ((slot, position, INTACT, EXACT),)
            elif kind == "may":
                own = tuple((o, position, INTACT, UNKNOWN) for o in objects)
                state[slot] = tuple(dict.fromkeys((*inherited[slot], *own)))

    def _clobber(
        self, position: int, writer: int, objects: tuple[int, ...], kind: str, redefined: set[int], state: State
    ) -> None:
        regions = self.regions
        space, low, high = regions.space, regions.low, regions.high
        weak = kind == "may" or len(objects) > 1
        for obj in objects:
            area, first, end = space[obj], low[obj], high[obj]
            if first == end:
                continue
            candidates: Iterable[int] = state
            if len(state) > SCAN_LIMIT:
                candidates = [s for s in regions.overlapping(obj) if s in state and s not in self.roles.moved]
                candidates.extend(s for s in self._moved if s in state)
            hit = []
            for s in candidates:
                if s in redefined or (s == writer and kind != "free"):
                    continue
                for fact in state[s]:
                    o = fact[0]
                    if space[o] == area and low[o] < end and first < high[o]:
                        hit.append(s)
                        break
            for slot in hit:
                result: dict[Fact, None] = {}
                for fact in state[slot]:
                    victim, definer, overwriter, quality = fact
                    if overwriter == ELSEWHERE or not regions.overlap(victim, obj):
                        result[fact] = None
                        continue
                    sure = regions.surely_overlap(victim, obj)
                    if kind == "may":
                        how = UNKNOWN
                    elif weak or not (sure or regions.exactly_overlap(victim, obj)):
                        how = APPROXIMATE
                    else:
                        how = EXACT
                    if weak or not sure:
                        result[fact] = None
                    result[(victim, definer, position, max(how, quality) if overwriter == INTACT else how)] = None
                state[slot] = tuple(result)

    def _overlay(self, position: int, writer: int, objects: tuple[int, ...], kind: str, contents: Contents) -> None:
        regions = self.regions
        value = self.method.values[writer]
        weak = (
            kind != "write"
            or len(objects) > 1
            or not isinstance(value, Tensor)
            or value.dynamism is not Dynamism.STATIC
        )
        for obj in objects:
            candidates: Iterable[int] = contents
            if len(contents) > SCAN_LIMIT:
                candidates = [v for v in regions.overlapping(obj) if v in contents]
            for view in [v for v in candidates if regions.overlap(v, obj)]:
                result: dict[Content, None] = {}
                for content in contents[view]:
                    if weak and kind not in ("update", "append"):
                        result[content] = None
                    result[_overwrite(content, regions.low[obj], regions.high[obj], position, writer)] = None
                if len(result) > MAX_CONTENTS:
                    self.overflowed.add(view)
                    continue
                contents[view] = tuple(result)

    def _show(self, position: int, writer: int, objects: tuple[int, ...], contents: Contents) -> None:
        """Presumed views on exactly the bytes of a whole write see just that write."""
        if len(objects) != 1:
            return
        obj = objects[0]
        value = self.method.values[writer]
        if isinstance(value, Tensor) and value.dynamism is Dynamism.STATIC:
            area = self.regions.region(obj)
            # A write through a slot that may refer to other bytes ends no view's life, so those alive are in the state.
            moved = writer in self.roles.moved
            candidates = self._views_at.get(area, ()) if moved else self._shown.get(position, ())
            for view in candidates:
                if view not in contents if moved else self.regions.region(view) != area:
                    continue
                contents[view] = (((area[1], area[2], position, writer),),)

    def dead_after(self, position: int) -> bool:
        """Whether nothing reads the target of the move or run-time view at a position before it is replaced."""
        step, points = self.flow.code[position], self.effects[position].points
        target = step.target if isinstance(step, Move) else points[0] if points else None
        return target is not None and target in self._dies.get(position, ())

    def views_at(self, obj: int) -> list[int]:
        """Presumed views on exactly the bytes of the object of slot ``obj``."""
        return self._views_at.get(self.regions.region(obj), [])

    def copies_onto_itself(self, position: int) -> bool:
        """Whether a position leaves the bytes of its result as they were, whichever path led there.

        Asked after `solve`. True for a copy of bytes onto themselves and for a result without defined contents.
        """
        effect = self.effects[position]
        if effect.undefined:
            return True
        if not effect.writes or len(effect.reads) != 1:
            return False
        reads = self.reads.get((position, effect.reads[0]), set(self.default(effect.reads[0])))
        state: State = {effect.reads[0]: tuple(reads)}
        target = effect.writes[0]
        state[target] = tuple((o, FILL, INTACT, EXACT) for o in sorted(self.writes.get((position, target), {target})))
        return self._copies_onto_itself(position, effect, state)

    def _copies_onto_itself(self, position: int, effect: Effect, state: State) -> bool:
        """Whether this is a copy whose source bytes are its target bytes on every path."""
        step = self.flow.code[position]
        if not isinstance(step, Kernel) or len(effect.reads) != 1 or len(effect.writes) != 1:
            return False
        target, source = effect.writes[0], effect.reads[0]
        if base_name(step.operator) not in PLAIN_COPIES or not self.same_elements(target, source):
            return False
        there = {self.regions.region(f[0]) for f in self._facts(state, target)}
        here = {self.regions.region(f[0]) for f in self._facts(state, source)}
        return len(there) == 1 and there == here

    def same_elements(self, target: int, source: int) -> bool:
        a, b = self.method.tensor(target), self.method.tensor(source)
        return a.dtype == b.dtype and a.nbytes == b.nbytes and (a.layout or ()) == (b.layout or ())

    def _collide(
        self, position: int, effect: Effect, targets: list[tuple[int, tuple[int, ...], str]], state: State
    ) -> None:
        regions = self.regions
        if effect.undefined:
            return
        for index, (writer, objects, kind) in enumerate(targets):
            for obj in objects:
                for reader in effect.reads:
                    if reader == writer and kind != "write":
                        continue  # an update of the operand itself is what the kernel is for
                    for victim in dict.fromkeys(f[0] for f in self._facts(state, reader)):
                        if regions.overlap(victim, obj) and not self._harmless(position, effect, victim, obj):
                            self._collision(position, reader, writer, victim, obj, kind, False)
                for other, other_objects, other_kind in targets[:index]:
                    for victim in other_objects:
                        if regions.overlap(victim, obj) and (other != writer):
                            worst = "may" if "may" in (kind, other_kind) else kind
                            self._collision(position, other, writer, victim, obj, worst, True)

    def _harmless(self, position: int, effect: Effect, victim: int, obj: int) -> bool:
        a, b = self.method.tensor(victim), self.method.tensor(obj)
        if self._reads_all_first(position, effect, obj):
            return True
        same = self.regions.region(victim) == self.regions.region(obj)
        return effect.elementwise and same and a.itemsize == b.itemsize and (a.layout or ()) == (b.layout or ())

    def _reads_all_first(self, position: int, effect: Effect, obj: int) -> bool:
        """Whether a kernel has read its operands, of one element each, before it writes its only result, of one."""
        step = self.flow.code[position]
        if not isinstance(step, Kernel) or not effect.known or len(effect.writes) + len(effect.updates) != 1:
            return False
        if base_name(step.operator) in COPY_FIRST:
            return False
        tensors = [self.method.tensor(s) for s in (*effect.reads, obj)]
        return all(t.nbytes == t.itemsize and t.dynamism is Dynamism.STATIC for t in tensors)

    def _collision(
        self, position: int, victim: int, writer: int, victim_object: int, obj: int, kind: str, both: bool
    ) -> None:
        exact = self.regions.exactly_overlap(victim_object, obj)
        quality = UNKNOWN if kind == "may" else EXACT if exact and kind != "append" else APPROXIMATE
        self.collisions.add(Collision(position, victim, writer, victim_object, obj, quality, both))


def _overwrite(content: Content, low: int, high: int, definer: int, slot: int) -> Content:
    """The content once bytes ``low`` to ``high`` have been written; neighbours of one writer are joined."""
    start, end = content[0][0], content[-1][1]
    low, high = max(low, start), min(high, end)
    if low >= high:
        return content
    pieces: list[Fragment] = []
    for a, b, d, s in content:
        if a < low:
            pieces.append((a, min(b, low), d, s))
        if b > high:
            pieces.append((max(a, high), b, d, s))
    pieces.append((low, high, definer, slot))
    pieces.sort()
    joined = [pieces[0]]
    for piece in pieces[1:]:
        last = joined[-1]
        if last[1] == piece[0] and last[2:] == piece[2:]:
            joined[-1] = (last[0], piece[1], *last[2:])
        else:
            joined.append(piece)
    return tuple(joined)
