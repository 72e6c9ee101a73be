"""Decides, for every read of a method, whether it sees what it expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hazard.analysis import operators
from hazard.analysis.beliefs import SizeFacts
from hazard.analysis.conflicts import Conflict, Decision, Kind, Place, Witness
from hazard.analysis.effects import Declaration, Effect
from hazard.analysis.flow import Flow, build_flow
from hazard.analysis.lineage import moves_behind
from hazard.analysis.paths import Answer, Path, Paths, Token
from hazard.analysis.places import operator_at, place_at
from hazard.analysis.predicates import Predicates
from hazard.analysis.reaching import (
    APPROXIMATE,
    ELSEWHERE,
    EXACT,
    FILL,
    INTACT,
    LOAD,
    UNKNOWN,
    Collision,
    Fact,
    Reaching,
)
from hazard.analysis.replay import Replay, Seen, explore, replay
from hazard.analysis.roles import Regions, Roles, instruction_effects, settle_roles
from hazard.analysis.scalars import Scalars, propagate
from hazard.analysis.sizes import Sizes, parsed
from hazard.analysis.solver import Theory
from hazard.program import DelegateCall, JumpFalse, Kernel, Method, Move, NumberList, Tensor, TensorList

#: Reads of one method whose paths are replayed; further findings rest on the search alone.
REPLAYS: Final = 400
#: Why an analysis without judgement has no verdict.
NOT_JUDGED: Final = "it was not judged"
#: Searches for further parties to findings that a run has already shown.
SEARCHES: Final = 40


@dataclass(slots=True)
class Counts:
    """Reads of a method by what is known of them."""

    proved: int = 0
    assumed: int = 0
    unknown: int = 0
    hazard: int = 0

    @property
    def total(self) -> int:
        return self.proved + self.assumed + self.unknown + self.hazard


@dataclass(slots=True)
class MethodAnalysis:
    """All that is known of one method. ``verdict`` is proved, hazard or unknown; ``reasons`` say why it is unknown.

    ``proofs`` says for every read that needed more than comparing intervals how it was decided.
    """

    method: Method
    flow: Flow
    effects: list[Effect]
    regions: Regions
    roles: Roles
    scalars: Scalars
    reaching: Reaching
    conflicts: list[Conflict] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    proofs: dict[tuple[int, int], str] = field(default_factory=dict)
    unknown_operators: dict[str, tuple[int, int]] = field(default_factory=dict)
    doubts: dict[int, tuple[int, int]] = field(default_factory=dict)  # instruction -> first read that it makes unknown

    @property
    def verdict(self) -> str:
        if any(c.kind is not Kind.UNINITIALIZED for c in self.conflicts):
            return "hazard"
        return "unknown" if self.reasons else "proved"


def analyse(
    method: Method,
    declared: Mapping[str, Declaration] | None = None,
    prepared: MethodAnalysis | None = None,
    judged: bool = True,
) -> MethodAnalysis:
    """Analyses one method on its own, over all paths, trip counts and sequences of calls.

    ``declared`` are effects of custom operators. ``prepared`` is what `prepare` made of the same method with its
    tensors in other places. Where it is not to be ``judged`` the facts are all that is found, and its verdict is
    unknown.
    """
    if prepared is not None:
        flow = replace(prepared.flow, method=method)
        effects, roles, scalars = prepared.effects, prepared.roles, prepared.scalars
        regions = Regions(method)
        reaching = prepared.reaching.moved_to(flow, regions)
        reaching.solve()
    else:
        declared = _with_schemas(method, declared)
        flow = build_flow(method)
        effects = instruction_effects(flow, declared)
        regions = Regions(method)
        outputs: dict[int, int] = {}
        while True:
            roles = settle_roles(flow, effects, regions, outputs)
            scalars = propagate(flow, effects, roles.renamed)
            reaching = Reaching(flow, effects, regions, roles, scalars)
            reaching.prepare()
            reaching.solve()
            found = _outputs_shown(reaching)
            if not found:
                break
            # An argument that can be no view is an output; that makes it a writer, which may settle others.
            outputs.update(found)
            effects = instruction_effects(flow, declared)
    analysis = MethodAnalysis(method, flow, effects, regions, roles, scalars, reaching)
    analysis.reasons.extend(method.doubts)
    if judged:
        _Judge(analysis).run()
    else:
        analysis.reasons.append(NOT_JUDGED)
    return analysis


def suspected(analysis: MethodAnalysis) -> dict[tuple[int, int], set[int]]:
    """(position, slot) of all reads that may see other bytes, on paths that need not be possible, with the positions of
    who writes these. Reads of presumed views are not among them."""
    reaching = analysis.reaching
    found: dict[tuple[int, int], set[int]] = {}
    for read, facts in reaching.reads.items():
        bad = {f[2] for f in facts if f[2] != INTACT and f[1] not in reaching.undefined}
        if bad:
            found[read] = bad
    for collision in reaching.collisions:
        found.setdefault((collision.position, collision.victim), set()).add(collision.position)
    return found


def prepare(method: Method, declared: Mapping[str, Declaration] | None = None) -> MethodAnalysis | None:
    """What can be said of a method before its tensors have places; nothing is judged, so that its verdict is unknown.

    None where that takes places: in files, where they tell what is a view of what.
    """
    if method.meaning != "graph":
        return None
    flow = build_flow(method)
    effects = instruction_effects(flow, _with_schemas(method, declared))
    regions = Regions(method)
    roles = settle_roles(flow, effects, regions)
    if roles.guesses:
        return None
    scalars = propagate(flow, effects, roles.renamed)
    reaching = Reaching(flow, effects, regions, roles, scalars)
    reaching.prepare()
    return MethodAnalysis(method, flow, effects, regions, roles, scalars, reaching, reasons=[NOT_JUDGED])


def _with_schemas(method: Method, declared: Mapping[str, Declaration] | None) -> dict[str, Declaration]:
    schemas = {o: Declaration(updates=p) for o, p in method.changes if o not in operators.CUSTOM_UPDATES}
    return {**schemas, **(declared or {})}


def _outputs_shown(reaching: Reaching) -> dict[int, int]:
    """Delegate calls that have more outputs than was sure: an argument whose bytes are those of no single tensor when
    the call is made cannot be a view without instruction that the delegate reads."""
    found = {}
    for guess in reaching.roles.guesses:
        step = reaching.flow.code[guess.position]
        assert isinstance(step, DelegateCall)
        for count in range(guess.most, guess.sure, -1):
            slots = reaching.method.tensors_of(step.args[-count])
            if any(_is_no_view(reaching, guess.position, s) for s in slots):
                found[guess.position] = count
                break
    return found


def _is_no_view(reaching: Reaching, position: int, slot: int) -> bool:
    regions = reaching.regions
    contents = reaching.contents.get((position, slot))
    if contents is None:
        return False
    for content in contents:
        definer, through = content[0][2:]
        if len(content) > 1 or definer == FILL:
            return True
        objects = {through} if definer == LOAD else reaching.writes.get((definer, through), {through})
        if not any(regions.region(o) == regions.region(slot) for o in objects):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Shown:
    seen: Seen
    run: Replay


class _Judge:
    def __init__(self, analysis: MethodAnalysis) -> None:
        self.a = analysis
        self.reaching = analysis.reaching
        self.flow, self.method, self.regions = analysis.flow, analysis.method, analysis.regions
        self.judged: set[tuple[int, int]] = set()
        self.hazardous: set[tuple[int, int]] = set()
        self.uncertain: set[tuple[int, int]] = set()
        self.replays = 0
        self.searches = 0
        self._assumed: set[str] = set()
        self._paths: Paths | None = None
        self._predicates: Predicates | None = None
        self._runs: list[Replay] | None = None
        self._shown: dict[tuple[int, int], list[_Shown]] | None = None
        self.theory = Theory({name: (low, high) for name, low, high in analysis.method.symbols})

    @property
    def predicates(self) -> Predicates:
        if self._predicates is None:
            self._predicates = Predicates(self.reaching)
        return self._predicates

    @property
    def paths(self) -> Paths:
        if self._paths is None:
            self._paths = Paths(self.reaching, self.predicates, self.theory)
        return self._paths

    def run(self) -> None:
        reads = self._reads()
        for position, slot in reads:
            if slot in self.a.roles.views:
                continue
            facts = self.reaching.reads.get((position, slot))
            if facts:
                self._judge_read(position, slot, facts)
        self._judge_collisions()
        from hazard.analysis.views import judge_views

        assumed = judge_views(self)
        self._unknown_effects()
        counts = self.a.counts
        for key in reads:
            if key in self.hazardous:
                counts.hazard += 1
            elif key in self.uncertain:
                counts.unknown += 1
            elif key in assumed:
                counts.assumed += 1
            else:
                counts.proved += 1

    def _reads(self) -> list[tuple[int, int]]:
        """(position, slot) of every read of tensor contents that can be executed, in program order."""
        result: list[tuple[int, int]] = []
        for b in sorted(self.flow.order):
            block = self.flow.blocks[b]
            for position in range(block.start, block.end):
                result.extend((position, slot) for slot in self.a.effects[position].reads)
                handed = self._handed_on(position)
                if handed is not None:
                    result.append((position, handed))
        return result

    def _handed_on(self, position: int) -> int | None:
        """A presumed view that a move, or a view made at run time, hands on: what is read later is read here."""
        step, points = self.flow.code[position], self.a.effects[position].points
        source = step.source if isinstance(step, Move) else points[1] if points else None
        return source if source in self.a.roles.views and not self.reaching.dead_after(position) else None

    # --- ordinary reads -----------------------------------------------------------------------------------------------

    def _judge_read(self, position: int, slot: int, facts: set[Fact]) -> None:
        bad = {f for f in facts if f[2] != INTACT and f[1] not in self.reaching.undefined}
        fill = [f for f in facts if f[1] == FILL and f[2] == INTACT]
        if fill:
            self._uninitialized(position, slot, fill[0][0])
        if not bad:
            return
        if slot in self.a.effects[position].may_writes:
            self.doubt_operand(position, slot)
            return
        if all(f[3] == UNKNOWN for f in bad):
            self._unknown_read(position, slot, bad)
            return
        shown = self.shown.get((position, slot))
        if shown:
            self._report_shown(position, slot, bad, shown)
            return
        answer = self.paths.to_read(position, slot, facts)
        if not answer.paths:
            if answer.exhausted:
                self.a.proofs[position, slot] = "path" if not self.theory.questions else "solver"
                return
            self.uncertain.add((position, slot))
            self._reason(f"{self.describe(position)}: too many paths to decide what %{slot} holds")
            return
        if all(p.token.quality == UNKNOWN for p in answer.paths):
            self._unknown_read(position, slot, bad)
            return
        self._report_read(position, slot, bad, answer)

    @property
    def shown(self) -> dict[tuple[int, int], list[_Shown]]:
        """What a few runs along different ways showed of each read, the shortest story of each pair first."""
        if self._shown is None:
            self._shown = {}
            if self._runs is None:
                self._runs = explore(self.reaching, self.paths.believing)
            for run in self._runs:
                told: set[tuple[int, int, int, int, int]] = set()
                for seen in run.mismatches:
                    key = (seen.position, seen.slot, seen.expected[1], seen.seen[1], seen.call)
                    if seen.expected != seen.seen and key not in told and self._at_some_sizes(seen, run):
                        told.add(key)
                        self._shown.setdefault((seen.position, seen.slot), []).append(_Shown(seen, run))
            for found in self._shown.values():
                found.sort(key=lambda s: s.seen.call)
        return self._shown

    def _at_some_sizes(self, seen: Seen, run: Replay) -> bool:
        """Whether a run goes this way, and the write hits these bytes, at some sizes; runs take the largest."""
        writer = seen.seen[1]
        if self.regions.symbolic is None or writer < 0 or seen.seen[0] != seen.call or seen.expected[0] != seen.call:
            return True
        objects = self.reaching.writes.get((writer, seen.seen[2]), ())
        facts = self._size_facts(run.decisions[: seen.decided], seen.call)
        return any(self.regions.sizes_of_overlap(o, seen.object, facts) is not None for o in objects)

    def _size_facts(self, decisions: Iterable[tuple[int, int, bool]], call: int) -> SizeFacts:
        """What the decisions of one call, as (call, jump, outcome), say of sizes."""
        facts = []
        for when, jump, held in decisions:
            literal = self.predicates.literals.get(jump) if when == call else None
            if literal is not None and literal.formula[0] == "size" and (about := parsed(literal.formula[1])):
                facts.append((about, held == literal.positive))
        return tuple(facts)

    def _report_shown(self, position: int, slot: int, bad: set[Fact], shown: list[_Shown]) -> None:
        # A write that happens to leave the same value (the same operator on the same operands) is a poor example.
        first = min(shown, key=lambda s: (self._same_value(s.seen), not self._all_free(s), s.seen.call))
        seen, run = first.seen, first.run
        pairs = {(s.seen.expected[1], s.seen.seen[1]) for s in shown}
        wanted = {(f[1], f[2]) for f in bad}
        if wanted - pairs:
            if not self.paths.believing.at:
                pairs |= wanted  # no two jumps contradict each other: every path can be executed
            elif self.searches < SEARCHES:
                self.searches += 1
                answer = self.paths.to_read(position, slot, self.reaching.reads[position, slot])
                pairs |= {(p.token.definer, p.token.overwriter) for p in answer.paths}
        exact = self._all_free(first)
        overlap = self._surely_hit(seen)
        definer, overwriter = seen.expected[1], seen.seen[1]
        if (definer, overwriter) not in wanted and (definer, ELSEWHERE) in wanted:
            overwriter = ELSEWHERE  # the bytes were never those of the value, whoever wrote them last
        token = Token(
            seen.object,
            definer,
            frozenset(),
            overwriter,
            EXACT if overlap else APPROXIMATE,
            seen.expected[0],
            seen.seen[0],
        )
        path = Path((), token, seen.call, exact and overlap)
        self._add_conflict(position, slot, path, run, seen, pairs, certain=exact and overlap)

    def _same_value(self, seen: Seen) -> bool:
        """Whether what was written is what was expected, as far as value numbers tell."""
        (_, definer, through), (_, overwriter, by) = seen.expected, seen.seen
        if min(definer, overwriter) < 0 or seen.expected[0] != seen.seen[0]:
            return False
        made = self.reaching.writes.get((definer, through), set())
        put = self.reaching.writes.get((overwriter, by), set())
        return len(made) == len(put) == 1 and self.predicates.equal((min(made), definer), (min(put), overwriter))

    def _all_free(self, shown: _Shown) -> bool:
        """Whether inputs, or state that an earlier call has left, decide all jumps of the calls that matter."""
        since = self._first_call(shown.seen)
        decisions = shown.run.decisions[: shown.seen.decided]
        return all(self._free(call, jump) for call, jump, _ in decisions if call >= since)

    @staticmethod
    def _first_call(seen: Seen) -> int:
        """The call in which the story of a mismatch begins; earlier ones may go any way."""
        return max(1, min(seen.expected[0], seen.seen[0] or seen.call))

    def _free(self, call: int, jump: int) -> bool:
        """Whether the predicate of a jump can be either in a call; numbers have been worked out."""
        literal = self.predicates.literals.get(jump)
        step = self.flow.code[jump]
        counted = isinstance(step, JumpFalse) and not self.method.is_tensor(step.condition)
        return literal is None or counted or (literal.exact and 0 < literal.free_from <= call)

    def _surely_hit(self, seen: Seen) -> bool:
        writer = seen.seen[1]
        if writer < 0:
            return True
        objects = self.reaching.writes.get((writer, seen.seen[2]), set())
        return any(self.regions.exactly_overlap(o, seen.object) for o in objects)

    def _report_read(self, position: int, slot: int, bad: set[Fact], answer: Answer) -> None:
        chosen, run, seen = self._choose(answer, position, slot)
        certain = chosen.exact and run is not None and run.complete and run.followed and seen is not None
        if run is None and chosen.exact:
            certain = True  # the search alone; it is exact for this token
        pairs = {(p.token.definer, p.token.overwriter) for p in answer.paths}
        if not answer.exhausted:
            pairs |= {(f[1], f[2]) for f in bad}
        self._add_conflict(position, slot, chosen, run, seen, pairs, certain)

    def _add_conflict(
        self,
        position: int,
        slot: int,
        chosen: Path,
        run: Replay | None,
        seen: Seen | None,
        pairs: set[tuple[int, int]],
        certain: bool,
    ) -> None:
        token = chosen.token
        kind = Kind.ELSEWHERE if token.overwriter == ELSEWHERE else Kind.OVERWRITTEN
        call = chosen.call
        definer, overwriter = token.definer, token.overwriter
        defined_in: int | None = token.call if token.definer >= 0 else None
        overwritten_in = token.overwritten_in
        if seen is not None:
            definer, defined_in = seen.expected[1], seen.expected[0] or None
            if kind is Kind.OVERWRITTEN:
                overwriter, overwritten_in = seen.seen[1], seen.seen[0]
        object_ = token.object
        escaped = self._is_moved(slot) and not self._own_definition(slot, definer)
        # What was loaded and then bound to other bytes is named by where it was loaded.
        made = seen.expected[2] if seen is not None and definer == LOAD else object_
        define = self.definition(definer, made, slot, defined_in)
        clobber = self.writer(overwriter, object_, overwritten_in) if overwriter >= 0 else None
        if overwriter == LOAD and (loaded := self.reaching.loaded_over(object_)) is not None:
            clobber = self.definition(LOAD, loaded, loaded, None)
        defines = {d for d, _ in pairs} | {definer}
        clobbers = {w for _, w in pairs if w >= 0} | ({overwriter} if overwriter >= 0 else set())
        if clobbers:
            clobbers |= self._copies_over(object_, defines, position)
        hits = self._objects_written(overwriter) if overwriter >= 0 else ()
        witness = self.witness(run, chosen, seen, object_, hits)
        approximations = self._approximations(position, slot, chosen, run, seen)
        if definer == FILL and overwriter in self.a.roles.bases.get(slot, frozenset()):
            certain = False
            approximations = (*approximations, "whether the slot is state, or a view of what was written")
        self.hazardous.add((position, slot))
        self.a.conflicts.append(
            Conflict(
                kind,
                self.place(position, slot, object_, call),
                define,
                clobber,
                tuple(p for d in sorted(defines) if (p := self.definition(d, object_, slot, None))),
                tuple(self.writer(w, object_, None) for w in sorted(clobbers)),
                certain,
                witness,
                escaped=escaped,
                persistent=self.is_state(slot, definer, defined_in, call),
                again=self._again(position, overwriter, overwritten_in, call),
                approximations=approximations,
            )
        )

    def _copies_over(self, obj: int, defines: set[int], use: int) -> set[int]:
        """Copies of the value onto its own bytes between its definition and the read.

        Alone they change nothing; a plan that keeps the value must know of them, since its bytes are written all the
        same.
        """
        found = set()
        for position, _, _ in self.paths.relevant_writes({obj}):
            if self.a.effects[position].undefined or not self.reaching.copies_onto_itself(position):
                continue
            after = any(d >= 0 and d != position and self._can_follow(d, position) for d in defines)
            if after and self._can_follow(position, use):
                found.add(position)
        return found

    def _can_follow(self, first: int, then: int) -> bool:
        """Whether a position can be executed after another within one call."""
        a, b = self.flow.block_of[first], self.flow.block_of[then]
        return (a == b and first < then) or b in self.flow.reachable(a)

    def _choose(self, answer: Answer, position: int, slot: int) -> tuple[Path, Replay | None, Seen | None]:
        """The first path whose replay shows the fault, else the first path."""
        paths = [p for p in answer.paths if p.token.quality != UNKNOWN]
        paths.sort(key=lambda p: (p.call, not p.exact, len(p.steps)))
        fallback: Replay | None = None
        for path in paths[:6]:
            if self.replays >= REPLAYS:
                return paths[0], None, None
            self.replays += 1
            run = replay(self.reaching, self.paths.believing, path, position)
            fallback = fallback or run
            for m in run.mismatches:
                if m.position == position and m.slot == slot and m.call == path.call and m.expected != m.seen:
                    return path, run, m
        return paths[0], fallback, None

    def _own_definition(self, slot: int, definer: int) -> bool:
        if definer < 0:
            return True
        effect = self.a.effects[definer]
        return slot in (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes)

    def _again(self, position: int, overwriter: int, overwritten_in: int, call: int) -> bool:
        """Whether the read comes first in program order and a loop brings it back after the write."""
        return overwriter >= position and overwritten_in == call and overwriter >= 0

    def _is_moved(self, slot: int) -> bool:
        """Whether a slot can refer to another tensor because of a move; graphs bind names for other reasons, too."""
        if slot not in self.a.roles.moved:
            return False
        return self.method.meaning != "graph" or bool(moves_behind(self.method, slot))

    def is_state(self, slot: int, definer: int, defined_in: int | None, call: int) -> bool:
        value = self.method.values[slot]
        if not isinstance(value, Tensor):
            return False
        if self.method.meaning == "graph":
            # A name may stand for state; whatever an earlier call has left is state.
            return definer in (LOAD, FILL) or (defined_in is not None and defined_in < call)
        if slot in self.a.roles.moved:
            return False
        if definer in (LOAD, FILL):
            return value.initial is not None or value.fqn is not None or definer == FILL
        return defined_in is not None and defined_in < call

    def _approximations(
        self, position: int, slot: int, path: Path, run: Replay | None, seen: Seen | None
    ) -> tuple[str, ...]:
        notes = []
        if path.token.quality == APPROXIMATE:
            notes.append("sizes that are known at run time only")
        if not path.exact and path.token.quality == EXACT:
            notes.append("a predicate on the way depends on constants only")
        if run is not None and seen is None:
            partial = self.a.effects[position].partial
            notes.append("the instruction reads a part of the operand" if partial else "trip counts on the way")
        if path.token.quality == UNKNOWN:
            notes.append("an instruction whose effect is a guess")
        return tuple(notes)

    # --- uninitialised state ------------------------------------------------------------------------------------------

    def _uninitialized(self, position: int, slot: int, obj: int) -> None:
        value = self.method.values[obj]
        if not isinstance(value, Tensor) or value.planned is None or value.nbytes == 0:
            return
        if any(c.kind is Kind.UNINITIALIZED and c.define and c.define.slot == obj for c in self.a.conflicts):
            return
        use = self.place(position, slot, obj, 1)
        define = self.place(0, obj, obj, None, operator="nothing")
        self.a.conflicts.append(
            Conflict(Kind.UNINITIALIZED, use, define, None, (define,), (), True, None, persistent=True)
        )

    # --- collisions ---------------------------------------------------------------------------------------------------

    def _judge_collisions(self) -> None:
        """One conflict for each operand: the first that is certain, else the first."""
        groups: dict[tuple[int, int], list[Collision]] = {}
        for c in sorted(self.reaching.collisions, key=lambda c: (c.position, c.victim, c.writer, c.victim_object)):
            groups.setdefault((c.position, c.victim), []).append(c)
        for key, group in groups.items():
            found = [conflict for c in group if (conflict := self._judge_collision(c)) is not None]
            if found:
                first = next((c for c in found if c.certain), found[0])
                clobbers = tuple(dict.fromkeys(p for c in found for p in c.all_clobbers))
                defines = tuple(dict.fromkeys(p for c in found for p in c.all_defines))
                self.hazardous.add(key)
                self.a.conflicts.append(replace(first, all_clobbers=clobbers, all_defines=defines))

    def _judge_collision(self, c: Collision) -> Conflict | None:
        key = (c.position, c.victim)
        if c.quality == UNKNOWN:
            self.uncertain.add(key)
            self._reason(f"{self.describe(c.position)}: its effect on %{c.victim} is not known")
            self.a.doubts.setdefault(c.position, key)
            return None
        facts = self.reaching.reads.get(key, set())
        objects = {f[0] for f in facts}
        writer_objects = self.reaching.writes.get((c.position, c.writer), set())
        rows = c.writer in self.a.effects[c.position].appends
        if rows and len(objects) <= 1 and len(writer_objects) == 1 and self._rows_miss(c):
            self.a.proofs[key] = "rows"
            return None
        if len(objects) > 1:
            answer = self.paths.to_object(c.position, c.victim, c.victim_object, facts)
        else:
            answer = self.paths.to_position(c.position)
        if not answer.paths:
            if answer.exhausted:
                self.a.proofs[key] = "path"
            else:
                self.uncertain.add(key)
                self._reason(f"{self.describe(c.position)}: too many paths to decide whether its operands overlap")
            return None
        path = answer.paths[0]
        run, seen = None, None
        if self.replays < REPLAYS:
            self.replays += 1
            run = replay(self.reaching, self.paths.believing, path, c.position)
            seen = next((m for m in run.mismatches if m.position == c.position and m.slot == c.victim), None)
        exact = (c.quality == EXACT or (rows and seen is not None)) and path.exact and (len(writer_objects) == 1)
        certain = exact and (run is None or (seen is not None and run.complete and run.followed))
        definer, victim = min((f[1] for f in facts), default=FILL), c.victim_object
        if path.token.object in objects:
            # Of several objects on the same bytes, the story is that of the one which the path leads to.
            definer, victim = path.token.definer, path.token.object
        clobber = self.place(c.position, c.writer, c.writer_object, path.call)
        define = clobber if c.both_written else self.definition(definer, victim, c.victim, path.token.call)
        approximations = () if certain else ("which row is written",) if rows else ("sizes known at run time only",)
        return Conflict(
            Kind.COLLISION,
            self.place(c.position, c.victim, victim, path.call),
            define,
            clobber,
            (define,) if define else (),
            (clobber,),
            certain,
            self.witness(run, path, seen, victim, (c.writer_object,)),
            escaped=self._is_moved(c.victim),
            approximations=approximations if c.quality != EXACT else (),
        )

    def _rows_miss(self, c: Collision) -> bool:
        """Whether no row that a loop appends touches its operand: the runs know every row, and none of them met it."""
        if self._runs is None:
            self._runs = explore(self.reaching, self.paths.believing)
        known = all(r.complete and not r.unknown_rows for r in self._runs)
        return known and not any(
            m.position == c.position and m.slot == c.victim for r in self._runs for m in r.mismatches
        )

    # --- what is not known --------------------------------------------------------------------------------------------

    def doubt_operand(self, position: int, slot: int) -> None:
        """A read by an instruction that may as well write the operand."""
        self.uncertain.add((position, slot))
        self.a.doubts.setdefault(position, (position, slot))
        self._reason(f"{self.describe(position)}: whether it reads %{slot} is not known")

    def _unknown_read(self, position: int, slot: int, bad: set[Fact]) -> None:
        self.uncertain.add((position, slot))
        for fact in sorted(bad):
            if fact[2] >= 0 and not self.a.effects[fact[2]].known:
                self.a.doubts.setdefault(fact[2], (position, slot))
                by, reader = self.describe(fact[2]), self.describe(position)
                self._reason(f"{by}: its effect is not known, and %{slot} is read at {reader}")

    def _unknown_effects(self) -> None:
        for position, effect in enumerate(self.a.effects):
            step = self.flow.code[position]
            if isinstance(step, Move) and isinstance(self.method.values[step.source], TensorList | NumberList):
                self._reason(f"{self.describe(position)}: what a moved list refers to is not followed")
            if effect.known:
                continue
            if isinstance(step, Kernel):
                chain, index = self.site(position)
                self.a.unknown_operators.setdefault(step.operator, (chain, index if index is not None else -1))
        for guess in self.a.roles.guesses:
            step = self.flow.code[guess.position]
            if isinstance(step, DelegateCall) and guess.most != guess.sure:
                index = self.site(guess.position)[1]
                self._assume(f"delegate-outputs [{index}]: {guess.sure} to {guess.most} of its last arguments")

    def _reason(self, text: str) -> None:
        if text not in self.a.reasons:
            self.a.reasons.append(text)

    def _assume(self, text: str) -> None:
        if text not in self._assumed:
            self._assumed.add(text)
            self.a.assumptions.append(text)

    # --- telling it ---------------------------------------------------------------------------------------------------

    def site(self, position: int) -> tuple[int, int | None]:
        site = self.flow.sites[position]
        return site if site is not None else (0, None)

    def describe(self, position: int) -> str:
        """``[12] aten::clone.out``."""
        index = self.site(position)[1]
        name = operator_at(self.flow, position)
        return f"[{index}] {name}" if index is not None else name

    def place(
        self, position: int, slot: int | None, obj: int | None, call: int | None, operator: str | None = None
    ) -> Place:
        return place_at(self.flow, position, slot, obj, call, operator)

    def definition(self, definer: int, obj: int, slot: int, call: int | None) -> Place | None:
        """Where the value that a read of ``slot`` expects was made."""
        if definer in (LOAD, FILL):
            word = "initial state" if definer == LOAD else "nothing"
            return Place(
                -1, 0, None, None, word, obj, *self._bytes(obj), None, self._name(obj), self.method.tensor(obj).fqn
            )
        through = self._written_slot(definer, obj)
        if through is None:
            return self.place(definer, slot, obj, call)
        written = self.reaching.writes.get((definer, through), ())
        # What is expected at other bytes was still made at its own.
        return self.place(definer, through, obj if obj in written or not written else min(written), call)

    def _bytes(self, obj: int) -> tuple[int | None, int, int]:
        value = self.method.tensor(obj)
        return (value.planned.arena, value.planned.offset, value.nbytes) if value.planned else (None, 0, value.nbytes)

    def _name(self, slot: int) -> str | None:
        value = self.method.values[slot]
        return value.name if isinstance(value, Tensor) else None

    def _written_slot(self, position: int, obj: int) -> int | None:
        effect = self.a.effects[position]
        slots = (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes)
        for slot in slots:
            if obj in self.reaching.writes.get((position, slot), ()):
                return slot
        return slots[0] if slots else None

    def writer(self, position: int, victim: int, call: int | None) -> Place:
        """The write at ``position`` that hits the bytes of ``victim``."""
        effect = self.a.effects[position]
        for slot in (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes):
            for obj in sorted(self.reaching.writes.get((position, slot), ())):
                if self.regions.overlap(obj, victim):
                    return self.place(position, slot, obj, call)
        return self.place(position, None, None, call)

    def _objects_written(self, position: int) -> tuple[int, ...]:
        effect = self.a.effects[position]
        slots = (*effect.writes, *effect.updates, *effect.appends, *effect.may_writes)
        return tuple(sorted({o for s in slots for o in self.reaching.writes.get((position, s), ())}))

    def witness(
        self, run: Replay | None, path: Path, seen: Seen | None, obj: int, hits: Iterable[int] = ()
    ) -> Witness:
        """``hits`` are the objects that the write concerned may go to."""
        decisions: list[tuple[int, int, bool]]
        if run is not None and run.followed:
            decisions = run.decisions
            if seen is not None:
                since = self._first_call(seen)
                decisions = [d for d in decisions[: seen.decided] if d[0] >= since]
        else:
            decisions, call = [], 1 + path.lead
            for block, outcome in path.steps:
                if outcome is not None:
                    decisions.append((call, self.flow.blocks[block].end - 1, outcome))
                elif block == self.flow.exit:
                    call += 1
        told = []
        for call, position, held in decisions:
            step = self.flow.code[position]
            assert isinstance(step, JumpFalse)
            told.append(Decision(call, self.site(position)[1] or 0, step.condition, held, step.origin))
        space, low, high = self.regions.region(obj)
        if seen is not None:
            space, low, high = self.regions.space[seen.object], seen.low, seen.high
        sizes: Sizes = ()
        if self.regions.symbolic is not None:
            facts = self._size_facts(decisions, path.call)
            found = (self.regions.sizes_of_overlap(o, obj, facts) for o in hits)
            sizes = next((s for s in found if s), ())
        return Witness(path.call, tuple(told), space if space > 0 else None, low, high, seen is not None, sizes)
