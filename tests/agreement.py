"""Compares the analysis with the oracle, read by read.

``python -m tests.agreement [--plan PLAN] [--seeds FIRST LAST] [FILE...]`` prints every disagreement on random programs,
or on files; it exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass

from hazard.analysis.check import MethodAnalysis, analyse
from hazard.analysis.conflicts import Conflict, Kind
from hazard.frontends import load
from hazard.program import Method, Program
from hazard.text import print_program
from tests.shadow import Observation, Result, run
from tests.strategies import PLANS, random_program

#: An instruction (None: the method's outputs) and the slot that it reads; None for results that overlap each other.
Read = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """``kind``: missed (the oracle saw it, the analysis has no finding there), proved (the oracle saw something, the
    verdict is proved), invented (a certain finding that no path shows)."""

    kind: str
    read: Read
    detail: str

    def __str__(self) -> str:
        where = "the outputs" if self.read[0] is None else f"[{self.read[0]}]"
        return f"{self.kind}: {where} %{self.read[1]}: {self.detail}"


def compare(method: Method, path_limit: int = 2048) -> list[Disagreement]:
    """What the two say differently. Where limits stopped the oracle, only what it did see counts."""
    result = run(method, path_limit=path_limit)
    analysis = analyse(method)
    found = [*_missed(result, analysis)]
    if not result.exhausted:
        found += _invented(result, analysis)
    return found


def _missed(result: Result, analysis: MethodAnalysis) -> list[Disagreement]:
    hazards = {_read_of(o): o for o in result.hazards if not _implied(o)}
    if hazards and analysis.verdict == "proved":
        read, observation = next(iter(hazards.items()))
        return [Disagreement("proved", read, str(observation))]
    if analysis.reasons:
        # Something is not known, and may be just this.
        return []
    told = {_use_of(c) for c in analysis.conflicts if c.kind is not Kind.UNINITIALIZED}
    return [Disagreement("missed", read, str(o)) for read, o in hazards.items() if read not in told]


def _invented(result: Result, analysis: MethodAnalysis) -> list[Disagreement]:
    seen = {_read_of(o) for o in result.observations}
    return [
        Disagreement("invented", _use_of(c), _tell(c))
        for c in analysis.conflicts
        if c.certain and c.kind is not Kind.UNINITIALIZED and _use_of(c) not in seen
    ]


def _read_of(o: Observation) -> Read:
    return o.instruction, None if o.kind == "output-overlap" else o.slot


def _use_of(c: Conflict) -> Read:
    both_written = c.kind is Kind.COLLISION and c.define is not None and c.define is c.clobber
    return c.use.instruction, None if both_written else c.use.slot


def _implied(o: Observation) -> bool:
    """Two results of one instruction overlap: that has been observed there, and explains all later reads of either."""
    a, b = o.expected, o.seen
    if a is None or a.kind != "instruction" or b.kind != "instruction":
        return False
    return (a.call, a.chain, a.instruction, a.occurrence) == (b.call, b.chain, b.instruction, b.occurrence)


def _tell(c: Conflict) -> str:
    places = {"defined": c.define, "overwritten": c.clobber}
    words = [c.kind.value]
    words += [f"{w} at [{p.instruction}] {p.operator} through %{p.slot}" for w, p in places.items() if p]
    if c.witness:
        words.append(", ".join(f"call {d.call} [{d.instruction}] {d.held}" for d in c.witness.decisions))
    return "; ".join(words)


def main(arguments: list[str]) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--plan", choices=PLANS, action="append")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 300), metavar=("FIRST", "LAST"))
    parser.add_argument("--show", action="store_true", help="print the programs as well")
    options = parser.parse_args(arguments)
    programs: list[tuple[str, Program]] = [(f, load(f)) for f in options.files]
    if not options.files:
        programs = [
            (f"{plan} {seed}", random_program(seed, plan).program)
            for plan in options.plan or PLANS
            for seed in range(*options.seeds)
        ]
    kinds: Counter[str] = Counter()
    for name, program in programs:
        for method in program.methods:
            found = compare(method)
            kinds.update(d.kind for d in found)
            if found and options.show:
                print(print_program(program), end="")
            for d in found:
                print(f"{name}: {method.name}: {d}")
    print(f"{len(programs)} programs; " + (", ".join(f"{n} {k}" for k, n in kinds.items()) or "all agree"))
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
