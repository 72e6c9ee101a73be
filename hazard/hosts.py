"""Hosts: who loads the methods of a program, shares memory among them, and hands tensors in and out.

A program says where its tensors lie inside numbered arenas; the host decides which methods get the same arena. Facts
about the released hosts:

* ``python-runtime``: ``executorch.runtime.Program.load_method`` of 1.4.1 and 1.5.1 gives all methods that are on the
  host CPU one set of arenas for every arena id, sized to the largest, zero-filled once; a method with a buffer on an
  accelerator gets arenas of its own. Outputs are copied out unless ``clone_outputs=False`` is asked for.
* ``module``: the C++ ``Module`` of ``extension/module`` gives each method its own arenas; outputs point into them.
* ``module-shared``: ``Module(..., share_memory_arenas=True)`` shares arena ids 1 and 2, sized to the largest, and gives
  fresh memory for ids above 2; it refuses programs with device buffers.

Loading a method copies its initial state into the arenas, whether or not another method has run before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hazard.program import InputError, Method, Program

LOADS: Final = ("eager", "lazy")


@dataclass(frozen=True, slots=True)
class Host:
    """One way of running a program.

    ``load``: "eager" loads all methods before the first call, "lazy" each at its first call. ``shared``: arena ids that
    all methods share, None for every id. ``cloned``: outputs are copied out of the arenas after every call.
    ``feedback``: the caller may hand an output back as an input without a copy. ``concurrent``: different methods may
    run at the same time. ``restaged``: the caller sets every input before every call. ``zero_filled``: fresh arenas
    hold zeros. ``devices``: whether methods with device buffers can be loaded. ``buffers``: the host itself gives every
    output that is not planned a buffer before each call, the same one each time; else only those that the caller sets
    have one.
    """

    name: str
    load: str = "lazy"
    shared: frozenset[int] | None = None
    cloned: bool = False
    feedback: bool = False
    concurrent: bool = False
    restaged: bool = True
    zero_filled: bool = True
    devices: bool = True
    buffers: bool = False

    @property
    def label(self) -> str:
        """Name and manner of loading, as findings give it."""
        return f"{self.name} ({self.load})"

    def shares(self, a: Method, b: Method, arena: int) -> bool:
        """Whether arena ``arena`` of two methods is the same memory."""
        if a.name == b.name:
            return True
        if self.shared is not None and arena not in self.shared:
            return False
        return not (_has_device(a) or _has_device(b))

    def runs(self, program: Program) -> bool:
        """Whether the host can load the program's methods at all."""
        return self.devices or not any(_has_device(m) for m in program.methods)


def _has_device(method: Method) -> bool:
    return any(a.device is not None for a in method.arenas.values())


def _released() -> tuple[Host, ...]:
    kinds = (
        Host("python-runtime", cloned=True, buffers=True),
        Host("module", shared=frozenset()),
        Host("module-shared", shared=frozenset({1, 2}), devices=False),
    )
    return tuple(replace(kind, load=load) for kind in kinds for load in LOADS)


#: Every released host with each manner of loading; the default of a check.
RELEASED: Final = _released()
NAMES: Final = tuple(dict.fromkeys(h.name for h in RELEASED))


def choose_hosts(
    names: str | Iterable[str] | None = None,
    *,
    load: str | None = None,
    feedback: bool = False,
    borrowed: bool | None = None,
    concurrent: bool = False,
    restaged: bool = True,
) -> tuple[Host, ...]:
    """The released hosts with the given names (None or ``all``: every one), narrowed and changed by the options.

    ``borrowed`` says whether outputs are handed out without a copy; None leaves it as the host does it.
    Raises InputError for an unknown name or manner of loading.
    """
    wanted = [names] if isinstance(names, str) else list(names or ["all"])
    known = (*NAMES, "all")
    for word in wanted:
        if word not in known:
            raise InputError(f"unknown host `{word}`; known are {', '.join(known)}")
    if load is not None and load not in LOADS:
        raise InputError(f"unknown manner of loading `{load}`; known are {', '.join(LOADS)}")
    chosen = []
    for host in RELEASED:
        if (host.name in wanted or "all" in wanted) and load in (None, host.load):
            cloned = host.cloned if borrowed is None else not borrowed
            # A caller that feeds outputs back holds them as they are.
            cloned = cloned and not feedback
            chosen.append(replace(host, cloned=cloned, feedback=feedback, concurrent=concurrent, restaged=restaged))
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a host: ``kind`` is load, stage, call, read or rebind; ``detail`` names what is read or rebound."""

    kind: str
    method: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.method}{' ' + self.detail if self.detail else ''}"


def tell(events: Iterable[Event]) -> str:
    """A sequence in one line: ``load a, call a, load b, call b, call a``."""
    return ", ".join(map(str, events))


def labels(hosts: Iterable[Host]) -> tuple[str, ...]:
    """How a finding names hosts: by name alone where both manners of loading are meant."""
    chosen = list(hosts)
    result = []
    for name in NAMES:
        loads = [h.load for h in chosen if h.name == name]
        if set(loads) == set(LOADS):
            result.append(name)
        else:
            result.extend(f"{name} ({load})" for load in LOADS if load in loads)
    others = [h.label for h in chosen if h.name not in NAMES]
    return (*result, *dict.fromkeys(others))


def event_properties(
    sequences: Mapping[Host, tuple[Event, ...]], right: Iterable[Host]
) -> tuple[tuple[str, object], ...]:
    """What a finding carries for machines: ``hosts``, ``right_hosts``, ``sequence`` and ``sequences`` by host."""
    chosen = min(sequences.values(), key=lambda events: len(events))
    return (
        ("hosts", labels(sequences)),
        ("right_hosts", labels(right)),
        ("sequence", tuple(map(str, chosen))),
        ("sequences", {h.label: tuple(map(str, s)) for h, s in sequences.items()}),
    )


def event_notes(sequences: Mapping[Host, tuple[Event, ...]], right: Iterable[Host]) -> tuple[str, ...]:
    """The same for people."""
    groups: dict[str, list[Host]] = {}
    for host, events in sorted(sequences.items(), key=lambda item: len(item[1])):
        groups.setdefault(tell(events), []).append(host)
    notes = [f"on {', '.join(labels(hosts))}: {told}" for told, hosts in groups.items()]
    if fine := labels(right):
        notes.append(f"right on {', '.join(fine)}")
    return tuple(notes)
