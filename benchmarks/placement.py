"""How small arenas become: the shipped plan, the plan of `hazard fix`, and the least that any plan needs.

    python -m benchmarks.placement [FILE ...]            prints a table of these programs and of the corpus
    python -m benchmarks.placement --models              exports the architectures of `benchmarks.architectures` as well
    python -m benchmarks.placement --write [FILE ...]    writes it to docs/placement.md, and the figures to
                                                         docs/placement.jsonl, which docs/evidence.md is made from

Times are CPU seconds on this machine, given as a ratio to the time that the check of the program takes. Exporting takes
long; with ``--rows FILE`` figures of architectures are kept in a file and taken from it the next time. Needs torch and
executorch, which export the cases of the corpus with `hazard.SafePlanning`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hazard
from corpus import cases
from hazard.api import check_program, chosen_rules, no_collection
from hazard.frontends import load, load_bytes
from hazard.program import InputError, Program
from hazard.repair.fix import Repair, repair_program
from hazard.repair.interference import demand
from hazard.repair.placement import place

if TYPE_CHECKING:
    from benchmarks.architectures import Architecture

DOCUMENT = Path(__file__).parent.parent / "docs" / "placement.md"
FIGURES = DOCUMENT.with_suffix(".jsonl")

INTRODUCTION = """\
# Arena sizes

Made by `python -m benchmarks.placement --write`, from the committed corpus (first part) and from exports of known
architectures with ExecuTorch 1.5.1 (second part; these programs are not in the repository). Their weights are random,
and most are small versions of themselves; `benchmarks/architectures.py` has them.

*shipped* is the size of all arenas as exported, *new* after `hazard fix`, *safe* as exported with
`hazard.SafePlanning()`, *bound* the largest set of tensors that all interfere with each other, which no plan of this
program can undercut, *apart* with no sharing at all; all in bytes. *times* is the CPU time of interference and
placement over that of one check of the program. Where a plan is refused, the rules that say why stand in its place.

`SafePlanning` may change the graph, where `hazard fix` must take the instructions as they are: copies of old state
that it puts in need bytes, and operators that it need not place in their operand's bytes, too.
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
    refused: str
    times: float
    safe: int | None = None
    safe_refused: str = ""


def measure(name: str, kind: str, program: Program) -> Row:
    """Plans one program anew and takes the time."""
    with no_collection():  # what is collected was made by exporting
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
        _rules_of(repair) if repair.refusals else "",
        (placed - checked) / max(checked - started, 1e-6),
    )


def _rules_of(repair: Repair) -> str:
    """The rules that keep a repair from being used: those that find something in it, else in what it was made of."""
    found = [f.code for f in repair.after.findings if f.severity != "note"]
    found = found or [f.code for f in repair.before.findings if f.severity != "note"]
    return ", ".join(sorted(set(found))) or repair.after.verdict


def corpus_rows() -> Iterable[Row]:
    """All programs of the corpus that have an arena."""
    from corpus import runner

    for case, path in cases.programs():
        row = measure(case.name, case.kind or "-", load(path))
        if row.bound:
            edge, config = runner.lower(runner.load_build(case.name)())
            yield _with_safe(row, edge, config)


def _with_safe(row: Row, edge: Any, config: Any) -> Row:
    """The row with the size that `SafePlanning` makes of an edge program, which is lost."""
    config.memory_planning_pass = hazard.SafePlanning(config.memory_planning_pass)
    try:
        data = bytes(edge.to_executorch(config).buffer)
    except hazard.HazardError as error:
        codes = {f.code for f in error.report.findings if f.severity != "note"}
        return dataclasses.replace(row, safe_refused=", ".join(sorted(codes)))
    sizes = [a.size for method in load_bytes(data).methods for a in method.arenas.values()]
    return dataclasses.replace(row, safe=sum(sizes))


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


def model_rows(kept: Path | None) -> Iterable[Row]:
    """Exports of all architectures that are installed; those that cannot be exported are said and left out."""
    from benchmarks.architectures import architectures

    known = {}
    if kept is not None and kept.exists():
        known = {row["name"]: Row(**row) for row in map(json.loads, kept.read_text().splitlines())}
    for architecture in architectures():
        for backend in architecture.backends:
            name = architecture.name if backend == "portable" else f"{architecture.name}, {backend}"
            row = known.get(name)
            if row is None:
                try:
                    row = _exported(name, architecture, backend)
                except Exception as error:  # whatever exporting raises
                    print(f"{name}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr, flush=True)
                    continue
                if kept is not None:
                    with kept.open("a") as file:
                        file.write(json.dumps(dataclasses.asdict(row)) + "\n")
            if row.bound:
                yield row


def _exported(name: str, architecture: Architecture, backend: str) -> Row:
    import copy

    from executorch.exir import ExecutorchBackendConfig

    from benchmarks.architectures import edge

    lowered = edge(architecture, backend)
    row = measure(name, "-", load_bytes(bytes(copy.deepcopy(lowered).to_executorch().buffer)))
    return _with_safe(row, lowered, ExecutorchBackendConfig())


def table(rows: Sequence[Row]) -> list[str]:
    """A Markdown table."""
    lines = [
        "| program | kind | instructions | shipped | new | safe | bound | new/bound | new/shipped | apart | times |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        new = r.refused or str(r.new)
        safe = r.safe_refused or ("" if r.safe is None else str(r.safe))
        over = "" if r.refused else f"{r.new / r.bound:.3f}"
        change = "" if r.refused or not r.shipped else f"{r.new / r.shipped:.2f}"
        lines.append(
            f"| {r.name} | {r.kind} | {r.instructions} | {r.shipped} | {new} "
            f"| {safe} | {r.bound} | {over} | {change} | {r.apart} | {r.times:.1f} |"
        )
    return lines


def summary(rows: Sequence[Row]) -> str:
    """The figures that count."""
    # A file may not show what its graph lost; the runtime has told the kinds of the corpus.
    right = [r for r in rows if r.verdict == "proved" and r.kind == "-" and not r.refused]
    cured = [r for r in rows if r.verdict == "hazard" and not r.refused and r.shipped]
    at_bound = sum(r.new <= 1.01 * r.bound for r in right)
    smaller = sum(r.new < r.shipped for r in right)
    grown = sum(r.new > r.shipped for r in right)
    text = (
        f"{len(right)} programs were right and proved as shipped: {at_bound} of them are now within 1 % of the bound "
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
    if refused := sum(bool(r.refused) for r in rows):
        text += f" {refused} were refused."
    planned = [r for r in right if r.safe is not None]
    if planned:
        fits = sum((r.safe or 0) <= 1.01 * r.bound for r in planned)
        more = sum((r.safe or 0) > r.shipped for r in planned)
        text += f" With `SafePlanning` {fits} of {len(planned)} that were right are within 1 % of the bound, "
        text += f"{more} larger than shipped."
    wrong = [r for r in rows if (r.verdict == "hazard" or r.kind != "-") and (r.safe is not None or r.safe_refused)]
    if wrong:
        text += f" Of {len(wrong)} that were not it cures {sum(r.safe is not None for r in wrong)}."
    return text


def kept_rows() -> list[Row]:
    """The figures of docs/placement.jsonl."""
    return [Row(**json.loads(line)) for line in FIGURES.read_text().splitlines()]


def architecture_rows(rows: Sequence[Row]) -> list[Row]:
    """Those that are no case of the corpus."""
    of_corpus = {case.name for case in cases.cases()}
    return [r for r in rows if r.name not in of_corpus]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--models", action="store_true", help="export the architectures, too")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="where figures of architectures are kept")
    parser.add_argument("--write", action="store_true", help="write docs/placement.md instead of printing")
    arguments = parser.parse_args()
    models = list(model_rows(arguments.rows)) if arguments.models else []
    rows = [*corpus_rows(), *models, *file_rows(arguments.files)]
    if arguments.write:
        FIGURES.write_text("".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows))
        DOCUMENT.write_text(page(rows))
    else:
        print(page(rows))
    return 0


def page(rows: Sequence[Row]) -> str:
    """docs/placement.md"""
    given = architecture_rows(rows)
    corpus = [r for r in rows if r not in given]
    lines = [INTRODUCTION, "## The corpus", "", summary(corpus), "", *table(corpus), ""]
    if given:
        lines += ["## Known architectures", "", summary(given), "", *table(given), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
