"""How small arenas become: the shipped plan, the plan of `hazard fix`, and the least that any plan needs.

    python -m benchmarks.placement [FILE ...]            prints a table of these programs and of the corpus
    python -m benchmarks.placement --write [FILE ...]    writes it to docs/placement.md

Times are CPU seconds on this machine, given as a ratio to the time that the check of the program takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corpus import cases
from hazard.api import check_program, chosen_rules
from hazard.frontends import load
from hazard.program import InputError, Program
from hazard.repair.fix import Repair, repair_program
from hazard.repair.interference import demand
from hazard.repair.placement import place

DOCUMENT = Path(__file__).parent.parent / "docs" / "placement.md"

INTRODUCTION = """\
# Arena sizes

Made by `python -m benchmarks.placement --write`, from the committed corpus (first part) and from exports of known
architectures with ExecuTorch 1.5.1 (second part; these programs are not in the repository).

*shipped* is the size of all arenas as exported, *new* after `hazard fix`, *bound* the largest set of tensors that all
interfere with each other, which no plan can undercut, *apart* with no sharing at all; all in bytes. *times* is the CPU
time of interference and placement over that of one check of the program.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One program; sizes in bytes over all methods and arenas."""

    name: str
    kind: str
    instructions: int
    shipped: int
    new: int
    bound: int
    apart: int
    verdict: str
    refused: bool
    times: float


def measure(name: str, kind: str, program: Program) -> Row:
    """Plans one program anew and takes the time."""
    started = time.process_time()
    before = check_program(program, name, None, chosen_rules(None, None))
    checked = time.process_time()
    place(demand(program, [m.analysis for m in before.methods]))
    placed = time.process_time()
    repair: Repair = repair_program(program, name)
    return Row(
        name,
        kind,
        sum(len(chain) for method in program.methods for chain in method.chains),
        sum(a.shipped for a in repair.arenas),
        sum(a.size for a in repair.arenas),
        sum(a.bound for a in repair.arenas),
        sum(a.separate for a in repair.arenas),
        before.verdict,
        bool(repair.refusals),
        (placed - checked) / max(checked - started, 1e-6),
    )


def corpus_rows() -> Iterable[Row]:
    """All programs of the corpus that have an arena."""
    for case, path in cases.programs():
        row = measure(case.name, case.kind or "-", load(path))
        if row.bound:
            yield row


def file_rows(files: Iterable[str]) -> Iterable[Row]:
    """The given programs; those that cannot be read are said and left out."""
    for file in files:
        try:
            row = measure(Path(file).stem, "-", load(file))
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        if row.bound:
            yield row


def table(rows: list[Row]) -> list[str]:
    """A Markdown table."""
    lines = [
        "| program | kind | instructions | shipped | new | bound | new/bound | new/shipped | apart | times |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        new = "refused" if r.refused else str(r.new)
        over = "" if r.refused else f"{r.new / r.bound:.3f}"
        change = "" if r.refused or not r.shipped else f"{r.new / r.shipped:.2f}"
        lines.append(
            f"| {r.name} | {r.kind} | {r.instructions} | {r.shipped} | {new} | {r.bound} | {over} | {change} "
            f"| {r.apart} | {r.times:.1f} |"
        )
    return lines


def summary(rows: list[Row]) -> str:
    """The figures that count."""
    right = [r for r in rows if r.verdict == "proved" and not r.refused]
    cured = [r for r in rows if r.verdict == "hazard" and not r.refused and r.shipped]
    at_bound = sum(r.new <= 1.01 * r.bound for r in right)
    smaller = sum(r.new < r.shipped for r in right)
    grown = sum(r.new > r.shipped for r in right)
    text = (
        f"{len(right)} programs were proved as shipped: {at_bound} of them are now within 1 % of the bound "
        f"({smaller} became smaller, {grown} larger; shipped sizes were up to "
        f"{max((r.shipped / r.bound for r in right), default=1):.2f} times the bound)."
    )
    if cured:
        change = [r.new / r.shipped for r in cured]
        text += (
            f" {len(cured)} had hazards and were cured: their arenas are now {min(change):.2f} to {max(change):.2f} "
            f"times as large; with no sharing at all they would be {min(r.apart / r.shipped for r in cured):.2f} to "
            f"{max(r.apart / r.shipped for r in cured):.2f} times."
        )
    refused = sum(r.refused for r in rows)
    return text + (f" {refused} were refused." if refused else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--write", action="store_true", help="write docs/placement.md instead of printing")
    arguments = parser.parse_args()
    corpus, given = list(corpus_rows()), list(file_rows(arguments.files))
    lines = [INTRODUCTION, "## The corpus", "", summary(corpus), "", *table(corpus), ""]
    if given:
        lines += ["## Known architectures", "", summary(given), "", *table(given), ""]
    text = "\n".join(lines)
    if arguments.write:
        DOCUMENT.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
