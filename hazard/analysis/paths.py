"""Which path leads to a read that sees overwritten bytes, and whether it can be executed.

The search walks the control-flow graph, further calls included, and follows one definition: which slots still mean
it, and who last wrote into its bytes. It keeps the truth of every predicate met on the way, drops it when a loop or a
call gives the predicate a new value, and never takes a branch that contradicts it. The walk is over a finite graph,
so a search that ends without reaching the read is a proof that no execution does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hazard.analysis.beliefs import Beliefs, Believing, SizeFacts
from hazard.analysis.effects import Effect
from hazard.analysis.predicates import Literal, Predicates
from hazard.analysis.reaching import APPROXIMATE, ELSEWHERE, EXACT, FILL, INTACT, LOAD, UNKNOWN, Fact, Reaching
from hazard.analysis.solver import Theory
from hazard.program import Alias, JumpFalse, Move, Tensor

#: States that one search may visit before it gives up; then the answer is "not excluded".
SEARCH_LIMIT: Final = 20_000
#: The same once a path has been found and only further pairs of definition and overwriter are looked for.
EXTRA_LIMIT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Token:
    """One definition under way: ``slots`` mean it, ``overwriter`` last wrote into the bytes of ``object``."""

    object: int
    definer: int
    slots: frozenset[int]
    overwriter: int
    quality: int
    call: int  # in which call it was defined
    overwritten_in: int = 0

    def key(self) -> tuple[Any, ...]:
        """All but the numbers of the calls."""
        return (self.object, self.definer, self.slots, self.overwriter, self.quality)


@dataclass(frozen=True, slots=True)
class Path:
    """A way to a hazard: the blocks in order with the outcome of the jump that ended each, and the token at the read.

    ``call`` is that of the read; ``lead`` calls, by whatever way, come before the first step. ``exact`` is False when a
    decision on the way is not a free choice of the inputs, or of the state that earlier calls have left.
    """

    steps: tuple[tuple[int, bool | None], ...]
    token: Token
    call: int
    exact: bool
    lead: int = 0


@dataclass(slots=True)
class Answer:
    """``paths`` found, cheapest first; ``exhausted``: every execution has been considered."""

    paths: list[Path] = field(default_factory=list)
    exhausted: bool = True


class Paths:
    """Path questions about one method."""

    def __init__(self, reaching: Reaching, predicates: Predicates, theory: Theory) -> None:
        self.reaching, self.predicates, self.theory = reaching, predicates, theory
        self.flow = reaching.flow
        self._distance: dict[frozenset[int], dict[int, int]] = {}
        self._writes_by_space: dict[int, list[tuple[int, int, int, int, int]]] = {}
        for (position, slot), objects in reaching.writes.items():
            for obj in objects:
                space, low, high = reaching.regions.region(obj)
                self._writes_by_space.setdefault(space, []).append((low, high, position, slot, obj))
        self._bindings: list[tuple[int, int, int]] = []  # position, source, target
        for position, step in enumerate(self.flow.code):
            if isinstance(step, Move | Alias):
                self._bindings.append((position, step.source, step.target))
            elif (points := reaching.effects[position].points) is not None:
                self._bindings.append((position, points[1], points[0]))
        self._back = {(latch, loop.header): i for i, loop in enumerate(self.flow.loops) for latch in loop.latches}
        self.believing = Believing(predicates, theory)
        self._restarts = reaching.restarts
        self._predecessors: dict[int, list[int]] = {}
        for b in self.flow.order:
            for target, _ in self.flow.blocks[b].successors:
                self._predecessors.setdefault(target, []).append(b)
        self._predecessors.setdefault(0, []).append(self.flow.exit)

    # --- the question -------------------------------------------------------------------------------------------------

    def to_read(self, position: int, slot: int, facts: set[Fact]) -> Answer:
        """Executions on which the read of ``slot`` at ``position`` sees bytes that it does not expect.

        ``facts`` are those recorded for the read. One path is returned for each pair of definition and overwriter.
        """
        pairs = {(f[1], f[2]) for f in facts if f[2] != INTACT and f[1] not in self.reaching.undefined}
        return _Search(self, position, slot, facts).run(len(pairs))

    def to_object(self, position: int, slot: int, obj: int, facts: set[Fact]) -> Answer:
        """Executions on which ``slot`` refers to the object of slot ``obj`` at ``position``."""
        return _Search(self, position, slot, facts, obj).run(1)

    def to_position(self, position: int) -> Answer:
        """Executions that reach a position at all."""
        return _Search(self, position, -1, set()).run(1)

    def relevant_writes(self, objects: set[int]) -> Iterator[tuple[int, int, int]]:
        """(position, slot, object) of every write into the bytes of any of the given objects."""
        regions = self.reaching.regions
        for obj in objects:
            space, low, high = regions.region(obj)
            for a, b, position, slot, written in self._writes_by_space.get(space, ()):
                if a < high and low < b:
                    yield position, slot, written

    def meaning(self, slot: int, obj: int) -> frozenset[int]:
        """The slots that mean a definition just made: the one written through, and presumed views of its bytes."""
        views = self.reaching.views_at(obj)
        return frozenset({slot, *views}) if views else frozenset({slot})

    def distance(self, targets: frozenset[int]) -> dict[int, int]:
        """Blocks to go to the nearest target block, call edge included."""
        known = self._distance.get(targets)
        if known is None:
            known = dict.fromkeys(targets, 0)
            layer = list(targets)
            while layer:
                following = []
                for b in layer:
                    for p in self._predecessors.get(b, ()):
                        if p not in known:
                            known[p] = known[b] + 1
                            following.append(p)
                layer = following
            self._distance[targets] = known
        return known


class _Search:
    """One best-first search for a path to one read."""

    def __init__(self, paths: Paths, position: int, slot: int, facts: set[Fact], obj: int | None = None) -> None:
        self.paths, self.position, self.slot, self.object = paths, position, slot, obj
        self.flow, self.reaching = paths.flow, paths.reaching
        self.target_block = self.flow.block_of[position]
        self.found: set[tuple[int, int]] = set()
        starts = self._starts(facts)
        self.starts = starts
        objects = {o for o, _ in starts}
        self.events: dict[int, dict[int, list[tuple[Any, ...]]]] = {}
        write_blocks: set[int] = set()
        for p, t, obj in paths.relevant_writes(objects):
            self._event(p, ("write", t, obj))
            write_blocks.add(self.flow.block_of[p])
        holders = self._holders(objects)
        for p, source, target in paths._bindings:
            if source in holders or target in holders:
                self._event(p, ("bind", source, target))
        for (p, t), objs in self.reaching.writes.items():
            if t in holders and not objs & objects:
                for obj in objs:
                    self._event(p, ("write", t, obj))
        self.events.setdefault(self.target_block, {}).setdefault(position, [])
        self.ordered = {b: sorted(events.items()) for b, events in self.events.items()}
        blocks = frozenset(self.flow.block_of[d] for _, d in starts if d >= 0) or frozenset({self.target_block})
        self.to_start = paths.distance(blocks)
        self.to_write = paths.distance(frozenset(write_blocks) or frozenset({self.target_block}))
        self.to_goal = paths.distance(frozenset({self.target_block}))

    def _event(self, position: int, event: tuple[Any, ...]) -> None:
        block = self.events.setdefault(self.flow.block_of[position], {})
        events = block.setdefault(position, [])
        if event not in events:
            events.append(event)

    def _starts(self, facts: set[Fact]) -> set[tuple[int, int]]:
        """Definitions that the read may expect, followed back through updates in place."""
        starts = {(f[0], f[1]) for f in facts}
        work = list(starts)
        while work:
            obj, definer = work.pop()
            if definer < 0:
                continue
            effect = self.reaching.effects[definer]
            for slot in (*effect.updates, *effect.appends, *effect.may_writes):
                earlier = self.reaching.reads.get((definer, slot), set())
                for fact in earlier or set(self.reaching.default(slot)):
                    if (fact[0], fact[1]) not in starts:
                        starts.add((fact[0], fact[1]))
                        work.append((fact[0], fact[1]))
        aliased = set()
        for obj, definer in starts:
            # An alias with bytes of its own carries the definition to them; the definition starts at its own object.
            if definer >= 0:
                effect = self.reaching.effects[definer]
                for slot in (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes):
                    for written in self.reaching.writes.get((definer, slot), ()):
                        if written != obj:
                            aliased.add((written, definer))
        for obj, definer in starts:
            if definer < 0:
                aliased |= self._loaded_sources(obj, definer)
        return starts | aliased

    def _loaded_sources(self, obj: int, definer: int) -> set[tuple[int, int]]:
        """The same for contents that no instruction has made: a buffer may mean another's, or a constant's."""
        found: set[tuple[int, int]] = set()
        work = [obj]
        while work:
            target = work.pop()
            for position, source, aliased in self.paths._bindings:
                if aliased != target or not isinstance(self.flow.code[position], Alias):
                    continue
                facts = self.reaching.reads.get((position, source)) or set(self.reaching.default(source))
                for fact in facts:
                    if fact[1] == definer and (fact[0], definer) not in found:
                        found.add((fact[0], definer))
                        work.append(fact[0])
        return found

    def _holders(self, objects: set[int]) -> set[int]:
        holders = set(objects)
        for obj in objects:
            holders.update(self.reaching.views_at(obj))
        for (p, t), objs in self.reaching.writes.items():
            if objs & objects and any((o, p) in self.starts for o in objs):
                holders.add(t)
        changed = True
        while changed:
            changed = False
            for _, source, target in self.paths._bindings:
                if source in holders and target not in holders:
                    holders.add(target)
                    changed = True
        return holders

    # --- walking ------------------------------------------------------------------------------------------------------

    def run(self, wanted: int) -> Answer:
        answer = Answer()
        start_tokens: list[Token | None] = [None]
        for obj, definer in sorted(self.starts):
            if definer in (LOAD, FILL):
                overwriter = self.reaching.default(obj)[0][2]
                start_tokens.append(Token(obj, definer, self.paths.meaning(obj, obj), overwriter, EXACT, 0))
        # node: (block, call, token, beliefs); parent links give the path back
        heap: list[tuple[int, int, int, tuple[Any, ...]]] = []
        parents: list[tuple[int, tuple[int, bool | None] | None]] = []
        seen: set[tuple[Any, ...]] = set()
        ticket = 0
        for token in start_tokens:
            estimate = self._estimate(0, token)
            if estimate is None:
                continue
            beliefs = self.paths.believing.empty
            seen.add((0, token and token.key(), beliefs))
            parents.append((-1, None))
            heap.append((estimate, ticket, 0, (0, 1, token, beliefs)))
            ticket += 1
        heapq.heapify(heap)
        cost_of = dict.fromkeys(range(ticket), 0)
        visited = 0
        while heap:
            _, identity, _, (b, call, token, beliefs) = heapq.heappop(heap)
            visited += 1
            if visited > (EXTRA_LIMIT if answer.paths else SEARCH_LIMIT):
                answer.exhausted = False
                return answer
            tokens, reached = self._through(b, token, call, beliefs.sizes)
            if self.slot < 0 and b == self.target_block:
                reached = [Token(-1, FILL, frozenset(), INTACT, EXACT, 1)]
            for found in reached:
                answer.paths.append(self._path(parents, identity, b, found, call))
                self.found.add((found.definer, found.overwriter))
                if len(answer.paths) >= wanted:
                    answer.exhausted = False
                    return answer
            for target, outcome, next_call, restarted in self._edges(b, call):
                extended = self._decide(b, target, outcome, beliefs, next_call != call)
                if extended is None:
                    continue
                for after in tokens:
                    if after is not None and restarted and after.slots & restarted:
                        after = _without(after, restarted)
                        if after is None:
                            continue
                    estimate = self._estimate(target, after)
                    if estimate is None:
                        continue
                    # Calls are counted for the report only: leaving them out of the key keeps the graph finite.
                    key = (target, after and after.key(), extended)
                    if key in seen:
                        continue
                    seen.add(key)
                    node = (target, next_call, after, extended)
                    parents.append((identity, (b, outcome)))
                    cost_of[ticket] = cost_of[identity] + 1
                    # Weighted: the first path found is short, not always the shortest.
                    heapq.heappush(heap, (cost_of[ticket] + 2 * estimate, ticket, 0, node))
                    ticket += 1
        return answer

    def _edges(self, b: int, call: int) -> Iterator[tuple[int, bool | None, int, frozenset[int]]]:
        for target, outcome in self.flow.blocks[b].successors:
            yield target, outcome, call, self.paths._restarts.get((b, target), frozenset())
        if b == self.flow.exit:
            yield 0, None, call + 1, frozenset()

    def _estimate(self, block: int, token: Token | None) -> int | None:
        if token is None:
            return self.to_start.get(block) if self.slot >= 0 else self.to_goal.get(block)
        if token.overwriter == INTACT:
            near = self.to_write.get(block)
            goal = self.to_goal.get(block)
            return goal if near is None else near if goal is None else max(near, 0)
        return self.to_goal.get(block)

    def _decide(self, b: int, target: int, outcome: bool | None, beliefs: Beliefs, new_call: bool) -> Beliefs | None:
        """The beliefs after taking an edge, or None if it contradicts what has been decided."""
        if new_call:
            return self.paths.believing.empty
        if outcome is not None and self.paths.believing.sure(self.flow.blocks[b].end - 1):
            decided = beliefs.decide(self.flow.blocks[b].end - 1, outcome)
            if decided is None:
                return None
            beliefs = decided
        loop = self.paths._back.get((b, target))
        return beliefs.without_loop(loop) if loop is not None else beliefs

    def _through(
        self, b: int, token: Token | None, call: int, facts: SizeFacts
    ) -> tuple[list[Token | None], list[Token]]:
        """Tokens after a block, and those with which the goal was reached inside it. ``facts`` hold of the sizes."""
        tokens: list[Token | None] = [token]
        reached: dict[tuple[int, int], Token] = {}
        for position, events in self.ordered.get(b, ()):
            if position == self.position:
                for t in tokens:
                    if t is not None and self._is_goal(t, call, facts):
                        reached.setdefault((t.definer, t.overwriter), t)
            if events:
                tokens = self._apply(position, events, tokens, call, facts)
        return tokens, list(reached.values())

    def _is_goal(self, token: Token, call: int, facts: SizeFacts) -> bool:
        if self.slot not in token.slots:
            return False
        if self.object is not None:
            regions = self.reaching.regions
            return regions.region(token.object) == regions.region(self.object)
        if (token.definer, token.overwriter) in self.found or token.definer in self.reaching.undefined:
            return False
        if token.overwriter < 0 or not facts or token.overwritten_in != call or token.call != call:
            return token.overwriter != INTACT
        # Sizes decided since the write may exclude that it hit these bytes.
        effect = self.reaching.effects[token.overwriter]
        written = (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes)
        objects = {o for s in written for o in self.reaching.writes.get((token.overwriter, s), ())}
        return any(self.reaching.regions.sizes_of_overlap(o, token.object, facts) is not None for o in objects)

    def _apply(
        self, position: int, events: list[tuple[Any, ...]], tokens: list[Token | None], call: int, facts: SizeFacts
    ) -> list[Token | None]:
        result: dict[Token | None, None] = {}
        effect = self.reaching.effects[position]
        for token in tokens:
            if token is None:
                result[None] = None
                for event in events:
                    if event[0] == "write" and (event[2], position) in self.starts:
                        quality = UNKNOWN if event[1] in effect.may_writes else EXACT
                        adopters = self.reaching.roles.adopters.get(position, ())
                        slots = self.paths.meaning(event[1], event[2]).union(adopters)
                        result[Token(event[2], position, slots, INTACT, quality, call)] = None
                continue
            current: list[Token] = [token]
            for event in events:
                if event[0] == "bind":
                    current = [t for c in current for t in self._bind(event[1], event[2], c, position)]
            writes = [e for e in events if e[0] == "write"]
            if writes:
                copies = self.reaching.copies_onto_itself(position)
                for c in current:
                    for t in self._write(position, effect, writes, c, call, copies, facts):
                        result[t] = None
            else:
                result.update(dict.fromkeys(current))
        return list(result)

    def _bind(self, source: int, target: int, token: Token, position: int) -> list[Token]:
        rest = token.slots - {target} if target != source else token.slots
        if source not in token.slots:
            return [_with(token, rest)] if rest else []
        if isinstance(self.flow.code[position], Alias):
            value = self.reaching.method.values[target]
            if isinstance(value, Tensor) and not value.is_name_only:
                regions = self.reaching.regions
                if regions.region(target) != regions.region(token.object) and value.nbytes:
                    moved = Token(target, token.definer, frozenset({target}), ELSEWHERE, token.quality, token.call)
                    return [moved, _with(token, rest)] if rest else [moved]
        return [_with(token, rest | {target})]

    def _write(
        self,
        position: int,
        effect: Effect,
        writes: list[tuple[Any, ...]],
        token: Token,
        call: int,
        same_bytes: bool,
        facts: SizeFacts,
    ) -> list[Token]:
        regions = self.reaching.regions
        slots = token.slots.difference(self.reaching.roles.adopters.get(position, ()))
        results: list[Token] = []
        hit = EXACT + 99
        sure = False
        for _, t, obj in writes:
            several = len(self.reaching.writes.get((position, t), ())) > 1
            if t in slots:
                if t in effect.writes:
                    slots = slots - {t}
                elif t in effect.updates or t in effect.appends:
                    results.append(
                        Token(
                            obj,
                            position,
                            frozenset({t}),
                            token.overwriter,
                            token.quality,
                            token.call,
                            token.overwritten_in,
                        )
                    )
                    slots = slots - {t}
                elif t in effect.may_writes:  # may be written: both it and the old value remain possible
                    results.append(Token(obj, position, frozenset({t}), INTACT, UNKNOWN, call))
            if not same_bytes and regions.overlap(obj, token.object):
                if facts and token.call == call and regions.sizes_of_overlap(obj, token.object, facts) is None:
                    continue
                if t in effect.may_writes:
                    quality = UNKNOWN
                elif several or not regions.exactly_overlap(obj, token.object):
                    quality = APPROXIMATE
                else:
                    quality = EXACT
                    sure = sure or regions.surely_overlap(obj, token.object)
                hit = min(hit, quality)
        if not slots:
            return results
        kept = _with(token, slots)
        if hit <= UNKNOWN and token.overwriter != ELSEWHERE:
            quality = max(hit, token.quality) if token.overwriter == INTACT else hit
            if hit == EXACT or token.overwriter == INTACT:
                results.append(Token(token.object, token.definer, slots, position, quality, token.call, call))
            if not sure:
                results.append(kept)
        else:
            results.append(kept)
        return results

    def _path(
        self, parents: list[tuple[int, tuple[int, bool | None] | None]], identity: int, b: int, token: Token, call: int
    ) -> Path:
        steps: list[tuple[int, bool | None]] = [(b, None)]
        while True:
            parent, step = parents[identity]
            if step is None:
                break
            steps.append(step)
            identity = parent
        steps.reverse()
        decided: list[tuple[int, Literal]] = []
        at = 1
        for block, outcome in steps:
            literal = None
            if outcome is not None and not self._counted(block):
                literal = self.paths.predicates.literals[self.flow.blocks[block].end - 1]
            elif block == self.flow.exit:
                at += 1
            if literal is not None:
                decided.append((at, literal))
        # What only state decides is the program's own in the first call: any first call may come before.
        lead = int(token.definer >= 0 and any(at < lit.free_from for at, lit in decided))
        if lead:
            token = replace(token, call=token.call + 1, overwritten_in=token.overwritten_in + 1)
        exact = token.quality == EXACT
        exact = exact and all(lit.exact and 0 < lit.free_from <= at + lead for at, lit in decided)
        return Path(tuple(steps), token, call + lead, exact, lead)

    def _counted(self, block: int) -> bool:
        """Whether the jump that ends a block tests a number: a trip count, which the replay works out."""
        jump = self.flow.code[self.flow.blocks[block].end - 1]
        return isinstance(jump, JumpFalse) and not self.reaching.method.is_tensor(jump.condition)


def _with(token: Token, slots: frozenset[int]) -> Token:
    if slots == token.slots:
        return token
    return Token(token.object, token.definer, slots, token.overwriter, token.quality, token.call, token.overwritten_in)


def _without(token: Token, slots: frozenset[int]) -> Token | None:
    rest = token.slots - slots
    return _with(token, rest) if rest else None
