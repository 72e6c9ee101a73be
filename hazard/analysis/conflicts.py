"""Reads that see something else than they expect, as the analysis hands them to the rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hazard.program import Origin


class Kind(Enum):
    """What went wrong with a read."""

    OVERWRITTEN = "overwritten"  # expected bytes were written by somebody else
    COLLISION = "collision"  # operands of one instruction share bytes
    ELSEWHERE = "elsewhere"  # the bytes that are read were never those of the value
    UNWRITTEN = "unwritten"  # nobody has written the bytes
    UNINITIALIZED = "uninitialized"  # state that has no initial contents
    STALE = "stale"  # the value behind a presumed view has changed between two reads


@dataclass(frozen=True, slots=True)
class Place:
    """One event of a story. ``instruction`` is the index within the emitted chain, None for what is not in one: inputs,
    state, outputs, and a graph's mere names for values.

    ``slot`` is the value concerned, ``name`` its name in the model if known; ``arena`` is None outside of arenas;
    ``offset`` and ``nbytes`` are in bytes; ``call`` counts from 1, None where the event precedes all calls. ``method``
    is given where the event may lie in another method than the finding's.
    """

    position: int
    chain: int
    instruction: int | None
    call: int | None
    operator: str
    slot: int | None
    arena: int | None
    offset: int
    nbytes: int
    origin: Origin | None = None
    name: str | None = None
    fqn: str | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A jump on the way: in which call, at which instruction, on which slot, and whether the predicate held."""

    call: int
    instruction: int
    slot: int
    held: bool
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """An execution that shows the fault: ``calls`` of the method, the decisions of its jumps in order, and the bytes.

    ``replayed``: a run on shadow memory along this path saw exactly this.
    """

    calls: int
    decisions: tuple[Decision, ...]
    arena: int | None
    low: int
    high: int
    replayed: bool
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """One read of one value, with the shortest story found and all other parties to it.

    ``escaped``: the value came to the read through a move. ``persistent``: it is state, kept from an earlier call.
    ``again``: the overwriting instruction lies in a loop with the read and meets it in a later iteration.
    ``unknown``: rests on an instruction whose effect is a guess.
    """

    kind: Kind
    use: Place
    define: Place | None
    clobber: Place | None
    all_defines: tuple[Place, ...]
    all_clobbers: tuple[Place, ...]
    certain: bool
    witness: Witness | None
    escaped: bool = False
    persistent: bool = False
    again: bool = False
    view: bool = False
    moved_region: bool = False
    approximations: tuple[str, ...] = ()
