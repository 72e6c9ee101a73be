"""Soundness and precision, measured: what the analysis says of programs, and what the runtime does with them.

    python -m tests.evidence --seeds 0:200 --also .venv141/bin/python --work evidence-work

For the installed ExecuTorch release, and for that of every further interpreter given by ``--also``: random models
(`tests.fuzz`, several plans of each) and the whole corpus are exported, checked and run; every finding of a program
file is held against the runtime (`hazard.confirm`), and where that shows nothing against the exhaustive run on shadow
memory (`tests.shadow`). Writes ``docs/evidence.jsonl``, one line for each program, and ``docs/evidence.md``, made from
nothing but these lines. Everything can be stopped and goes on where it was; ``--report`` only writes the document.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import placement
from tests.fuzz.held import OUTSIDE, PATHS, calls_of, hold

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "evidence.jsonl"
REPAIRS = ROOT / "docs" / "repairs.jsonl"  # of tests.fuzz.repaired
DOCUMENT = ROOT / "docs" / "evidence.md"

Record = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:200", metavar="FIRST:END", help="random models, six plans of each")
    parser.add_argument("--also", action="append", default=[], metavar="PYTHON[@FIRST:END]",
                        help="an interpreter of another release, with seeds of its own; may be repeated")  # fmt: skip
    parser.add_argument("--work", type=Path, default=Path("evidence-work"), help="folder for models and results")
    parser.add_argument("--report", action="store_true", help="write the document from the results that are there")
    parser.add_argument("--collect", choices=["fuzz", "corpus"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.collect:
        collect(arguments.collect, arguments.work)
        return 0
    if not arguments.report:
        also = [(python, seeds or arguments.seeds) for python, _, seeds in (a.partition("@") for a in arguments.also)]
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(_measure, *run, arguments.work) for run in [(sys.executable, arguments.seeds), *also]]
            for run in runs:
                run.result()
    found = [r for path in sorted(arguments.work.glob("*/evidence-*.jsonl")) for r in _read(path)]
    records = list({(r["release"], r["source"], r["name"]): r for r in found}.values())
    if not records and RESULTS.exists():
        records = _read(RESULTS)
    _write(RESULTS, "".join(json.dumps(r) + "\n" for r in records))
    note = arguments.work / "note.txt"
    _write(DOCUMENT, document(records, note.read_text() if note.exists() else ""))
    return 0


def _measure(python: str, seeds: str, work: Path) -> None:
    """All results of one release."""
    folder = work / _release_of(python)
    _call(python, "-m", "tests.fuzz", "--seeds", seeds, "--out", str(folder), "--held", allowed=(0, 1))
    for what in ("corpus", "fuzz"):
        _call(python, "-m", "tests.evidence", "--collect", what, "--work", str(folder))


def _release_of(python: str) -> str:
    code = "from importlib import metadata; print(metadata.version('executorch'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _call(*command: str, allowed: tuple[int, ...] = (0,)) -> None:
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code not in allowed:
        raise SystemExit(f"{' '.join(command)} ended with {code}")


def _read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.replace(path)


# --- collecting -------------------------------------------------------------------------------------------------------


def collect(what: str, folder: Path) -> None:
    """Appends a record of every program that has none yet to ``evidence-WHAT.jsonl`` in the folder."""
    import logging
    import warnings

    import torch

    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    path = folder / f"evidence-{what}.jsonl"
    known = {r["name"] for r in _read(path)} if path.exists() else set()
    with path.open("a") as file:
        for record in (_fuzz_records(folder, known) if what == "fuzz" else _corpus_records(known)):
            file.write(json.dumps(record) + "\n")
            file.flush()


def _fuzz_records(folder: Path, known: set[str]) -> Iterator[Record]:
    from tests.fuzz.__main__ import latest
    from tests.fuzz.judge import build_module

    for r in latest(folder / "results.jsonl"):
        name = f"seed {r['seed']}, plan {r['variant']}"
        if name in known:
            continue
        record: Record = {
            "release": r.get("release") or folder.name, "source": "fuzz", "name": name, "status": r["status"],
            "wrong": _wrong(r.get("against_twin", ""), r.get("against_eager", ""), r["detail"]),
        }  # fmt: skip
        program = folder / "programs" / f"seed_{r['seed']:06}_{r['variant']}.pte"
        if r["status"] == "ok" and not program.exists():
            continue
        if r["status"] == "ok":
            module = build_module((folder / "models" / f"seed_{r['seed']:06}.py").read_text(), f"seed_{r['seed']}")
            record["file"] = _file_side(program.read_bytes(), module.build(r["variant"]))
            sys.modules.pop(module.__name__, None)
            record["graph"] = {
                "verdict": r["graph_verdict"], "assumptions": r["graph_assumptions"], "reasons": r["graph_reasons"],
                "findings": r["held"], "shadow": r["graph_kind"] == "shadow-confirmed",
            }  # fmt: skip
        yield record


def _wrong(against_twin: str, against_eager: str, detail: str) -> str:
    """What a program is wrong against: twin, eager, both, or nothing (an empty text).

    Where eager agrees with the program and not with the twin (``detail``), the twin is at fault.
    """
    if against_twin and not (detail and not against_eager and "(pattern" not in against_twin):
        return "both" if against_eager else "twin"
    return "eager" if against_eager else ""


def _corpus_records(known: set[str]) -> Iterator[Record]:
    from corpus import cases, runner

    for case, program in cases.programs(runner.RELEASE):
        if case.name in known:
            continue
        outcome = case.outcome(runner.RELEASE)["outcome"]
        record: Record = {
            "release": runner.RELEASE, "source": "corpus", "name": case.name, "kind": case.kind,
            "status": "run-error" if outcome == "RUN_ERROR" else "ok",
            "wrong": "eager" if outcome == "MISMATCH" else "",
        }  # fmt: skip
        build = runner.load_build(case.name)
        record["file"] = _file_side(program.read_bytes(), build())
        if record["file"].pop("differs") and record["wrong"]:
            record["wrong"] = "both"
        record["graph"] = _graph_side(build())
        yield record


def _file_side(data: bytes, experiment: Any) -> Record:
    """The check of a program file, and what came of each of its findings."""
    result, findings = hold(data, calls_of(experiment))
    (program,) = result.report.programs
    return {
        "verdict": result.report.verdict,
        "assumptions": sorted({a for m in program.methods for a in m.assumptions}),
        "reasons": sorted({r for m in program.methods for r in m.reasons}),
        "findings": findings,
        "missed": len(result.missed),
        "differs": bool(result.confirmed or result.missed),
    }


def _graph_side(experiment: Any) -> Record:
    import hazard
    from corpus import runner
    from hazard.pipeline import lowered
    from tests import shadow

    try:
        edge, config = runner.lower(experiment)
        made = lowered(edge, config=config)
        report = hazard.check(made.program)
    except Exception as error:
        return {"verdict": f"not exported: {type(error).__name__}", "assumptions": [], "reasons": [], "findings": []}
    methods = report.programs[0].methods
    faults = [f for f in report.findings if f.severity != "note"]
    seen = [shadow.run(m.analysis.method, 2, PATHS) for m in methods] if faults else []
    lost = any(f.code == "HZ202" for f in faults) and any(
        o.kind == "uninitialized-state" for result in seen for o in result.observations
    )
    return {
        "verdict": report.verdict,
        "assumptions": sorted({a for m in methods for a in m.assumptions}),
        "reasons": sorted({r for m in methods for r in m.reasons}),
        "findings": hold(made, calls_of(experiment))[1] if faults else [],
        "shadow": lost or any(result.hazards for result in seen),
    }


# --- the document -----------------------------------------------------------------------------------------------------


def document(records: list[Record], note: str = "") -> str:
    """The report, from the records alone; ``note`` says what is particular about this measurement."""
    groups = sorted({(r["release"], r["source"]) for r in records}, key=lambda g: (g[1], g[0]), reverse=True)
    columns = [(f"{source}, {release}", [r for r in records if (r["release"], r["source"]) == (release, source)])
               for release, source in groups]  # fmt: skip
    parts = [_HEAD, *([note] if note else [])]
    parts.append(_table("Programs", columns, [
        ("programs", lambda r: True),
        ("not exported (refused by ExecuTorch)", lambda r: r["status"] == "export-error"),
        ("refused or failed at run time", lambda r: r["status"] == "run-error"),
        ("other (crash, timeout, error of the tools)", lambda r: r["status"] not in _KNOWN),
        ("judged", _judged),
        ("wrong", lambda r: _judged(r) and r["wrong"]),
        ("of these, wrong against the twin too", lambda r: _judged(r) and r["wrong"] in ("both", "twin")),
    ]))  # fmt: skip
    parts.append(_SOUND)
    parts.append(_table("Soundness", columns, [
        ("wrong programs", lambda r: _judged(r) and r["wrong"]),
        ("flagged from the graph", lambda r: _judged(r) and r["wrong"] and _flagged(r["graph"])),
        ("**not flagged from the graph**", lambda r: _judged(r) and r["wrong"] and not _flagged(r["graph"])),
        ("**said proved from the graph, without assumption**",
         lambda r: _judged(r) and r["wrong"] and _proved(r["graph"])),
        ("wrong against the twin", lambda r: _judged(r) and r["wrong"] in ("both", "twin")),
        ("flagged from the file", lambda r: _judged(r) and r["wrong"] in ("both", "twin") and _flagged(r["file"])),
        ("**not flagged from the file**",
         lambda r: _judged(r) and r["wrong"] in ("both", "twin") and not _flagged(r["file"])),
        ("**said proved from the file, without assumption**",
         lambda r: _judged(r) and r["wrong"] in ("both", "twin") and _proved(r["file"])),
        ("wrong against eager only, flagged from the file",
         lambda r: _judged(r) and r["wrong"] == "eager" and _flagged(r["file"])),
        ("wrong against eager only, not flagged from the file",
         lambda r: _judged(r) and r["wrong"] == "eager" and not _flagged(r["file"])),
    ]))  # fmt: skip
    parts.append(_PRECISE)
    parts.append(_findings("Findings of graphs", "graph", columns))
    parts.append(_findings("Findings of program files", "file", columns))
    parts.append(_table("Right programs that are flagged", columns, [
        ("right programs", lambda r: _judged(r) and not r["wrong"]),
        ("flagged as errors from the graph", lambda r: _right(r, "graph", "error")),
        ("of these, a wrong read in the exhaustive run",
         lambda r: _right(r, "graph", "error") and r["graph"]["shadow"]),
        ("of these, what no run of one method can show",
         lambda r: _right(r, "graph", "error") and not r["graph"]["shadow"] and _only_outside(r["graph"])),
        ("**of these, neither**",
         lambda r: _right(r, "graph", "error") and not r["graph"]["shadow"] and not _only_outside(r["graph"])),
        ("flagged as errors from the file", lambda r: _right(r, "file", "error")),
        ("**of these, nothing confirmed**", lambda r: _right(r, "file", "error") and _unconfirmed(r["file"])),
    ]))  # fmt: skip
    parts.append(_verdicts(columns))
    parts.append(_repairs(_read(REPAIRS)))
    parts.append(_arenas())
    parts.append(_exceptions(records))
    return "\n\n".join(p.strip() for p in parts) + "\n"


_KNOWN = ("ok", "export-error", "run-error")


def _judged(r: Record) -> bool:
    return r["status"] == "ok" and "file" in r and not r["graph"]["verdict"].startswith("not exported")


def _faults(side: Record) -> list[list[str]]:
    return [f for f in side["findings"] if f[1] != "note"]


def _flagged(side: Record) -> bool:
    return bool(_faults(side))


def _proved(side: Record) -> bool:
    return bool(side["verdict"] == "proved" and not side["assumptions"] and not side["reasons"])


def _right(r: Record, side: str, severity: str) -> bool:
    return _judged(r) and not r["wrong"] and any(f[1] == severity for f in r[side]["findings"])


def _only_outside(side: Record) -> bool:
    return all(f[0].startswith(OUTSIDE) for f in side["findings"] if f[1] == "error")


def _unconfirmed(side: Record) -> bool:
    return all(f[3] == "nothing" for f in side["findings"] if f[1] == "error")


def _table(title: str, columns: list[tuple[str, list[Record]]], rows: list[tuple[str, Any]]) -> str:
    lines = [f"## {title}", "", _row(["", *(name for name, _ in columns)]), _row(["---"] * (len(columns) + 1))]
    for name, test in rows:
        lines.append(_row([name, *(str(sum(bool(test(r)) for r in records)) for _, records in columns)]))
    return "\n".join(lines)


def _repairs(records: list[Record]) -> str:
    """Random models with new plans, which have records of their own."""
    columns = [
        (f"{title}, {shipped} as shipped", [r for r in records if (r["way"], r["shipped"]) == (way, shipped)])
        for way, title in (("planned", "`SafePlanning`"), ("fixed", "`hazard fix`"))
        for shipped in ("wrong", "right")
    ]
    table = _table("Random models with new plans", columns, [
        ("programs", lambda r: True),
        ("right", lambda r: r["outcome"] == "right"),
        ("**wrong**", lambda r: r["outcome"] == "wrong"),
        ("planning failed", lambda r: r["outcome"] == "failed"),
        ("as its instructions are written", lambda r: r["outcome"] == "as written"),
        ("refused", lambda r: r["outcome"] == "refused"),
        *((f"of these, {codes}", lambda r, codes=codes: (r["outcome"], r["detail"]) == ("refused", codes))
          for codes in sorted({r["detail"] for r in records if r["outcome"] == "refused"})),
    ])  # fmt: skip
    seeds = sorted({r["seed"] for r in records})
    return f"{table}\n{_REPAIRED.format(first=seeds[0], last=seeds[-1], releases=', '.join(_releases(records)))}"


def _releases(records: list[Record]) -> list[str]:
    return sorted({r["release"] for r in records})


def _arenas() -> str:
    rows = placement.architecture_rows(placement.kept_rows())
    return "\n".join(["## Arena sizes", "", placement.summary(rows), _ARENAS, *placement.table(rows)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _findings(title: str, side: str, columns: list[tuple[str, list[Record]]]) -> str:
    """Findings by code and certainty, over all columns."""
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for _, records in columns:
        for r in filter(_judged, records):
            for code, _severity, certainty, how in _faults(r[side]):
                counts[code, certainty][how] += 1
    ways = ["runtime", "exhaustive run", "not to be shown this way", "nothing"]
    lines = [f"## {title}", "", _row(["rule", "certainty", "findings", *ways, "confirmed"])]
    lines.append(_row(["---"] * 8))
    total: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for (code, certainty), count in sorted(counts.items()):
        total[certainty] += count
        lines.append(_finding_row(code, certainty, count, ways))
    lines += [_finding_row("**all**", certainty, count, ways) for certainty, count in sorted(total.items())]
    return "\n".join(lines)


def _finding_row(code: str, certainty: str, count: collections.Counter[str], ways: list[str]) -> str:
    shown = count["runtime"] + count["exhaustive run"]
    possible = count.total() - count["not to be shown this way"]
    share = f"{100 * shown / possible:.1f} %" if possible else "-"
    return _row([code, certainty, str(count.total()), *(str(count[w]) for w in ways), share])


def _verdicts(columns: list[tuple[str, list[Record]]]) -> str:
    lines = ["## Verdicts", "", _row(["", *(name for name, _ in columns)]), _row(["---"] * (len(columns) + 1))]
    for side in ("graph", "file"):
        for verdict in ("proved", "hazard", "unknown"):
            numbers = []
            for _, records in columns:
                those = [r for r in records if _judged(r) and r[side]["verdict"] == verdict]
                assumed = sum(bool(r[side]["assumptions"]) for r in those)
                extra = f" ({assumed} with an assumption)" if verdict == "proved" and assumed else ""
                numbers.append(f"{len(those)}{extra}")
            lines.append(_row([f"{side}: {verdict}", *numbers]))
    reasons: collections.Counter[str] = collections.Counter()
    for _, records in columns:
        for r in filter(_judged, records):
            for side in ("graph", "file"):
                reasons.update(f"{side}: {_plain(reason)}" for reason in r[side]["reasons"])
    why = "Why something is unknown, and how often:" if reasons else "No verdict names a reason to be unknown."
    lines += ["", why, ""]
    lines += [f"- {count} x {reason}" for reason, count in reasons.most_common(20)]
    return "\n".join(lines)


def _plain(reason: str) -> str:
    return re.sub(r"%?\b\d+\b", "N", reason)


def _exceptions(records: list[Record]) -> str:
    """Every program behind a number that should be zero."""
    tests = [
        ("wrong, not flagged from the graph", lambda r: r["wrong"] and not _flagged(r["graph"])),
        ("wrong against the twin, not flagged from the file",
         lambda r: r["wrong"] in ("both", "twin") and not _flagged(r["file"])),
        ("right, an error from the graph that nothing confirms",
         lambda r: _right(r, "graph", "error") and not r["graph"]["shadow"] and not _only_outside(r["graph"])),
        ("right, errors from the file of which nothing is confirmed",
         lambda r: _right(r, "file", "error") and _unconfirmed(r["file"])),
    ]  # fmt: skip
    lines = ["## Exceptions", ""]
    for title, test in tests:
        found = [r for r in records if _judged(r) and test(r)]
        names = ", ".join(f"{r['name']} ({r['release']})" for r in found[:40])
        lines.append(f"- {title}: {names or 'none'}")
    other = [r for r in records if r["status"] not in _KNOWN]
    names = ", ".join(f"{r['name']} ({r['release']}, {r['status']})" for r in other[:40])
    lines.append(f"- neither judged nor refused by ExecuTorch: {names or 'none'}")
    return "\n".join(lines)


_HEAD = """
# Evidence

Measured, not argued: what `hazard` says of programs beside what ExecuTorch's runtime does with them. Made by
`python -m tests.evidence` (its head says how to repeat it); `evidence.jsonl` holds one line for each program, and every
number below is counted from these lines. [ExecuTorch's own tests](executorch-tests.md) have a page of
their own, and so have [the arena sizes](placement.md) of the corpus.

A program is *wrong* when, in any of its sequences of calls, a result differs from eager PyTorch (tolerance 1e-5, on
small whole numbers), or bit by bit from its *twin*: the same instructions on the same values, but every tensor on bytes
of its own. What is wrong in the instructions themselves (lost or reordered write-backs, old state handed out) the twin
computes in the same way; a program file alone cannot show it, the planned graph can.
"""

_SOUND = """
The rows in bold should be zero: nothing wrong goes unseen, and nothing wrong is called proved. What is wrong against
eager only, a program file cannot show but in part; the graph must.
"""

_PRECISE = """
For each finding: *runtime*, a twin in which only this finding's tensors still share bytes differs from the full twin,
on calls on which the program differs too; or, for what is wrong in the twin as well, both differ from eager at an
output that the finding's value can reach. *Exhaustive run*, a run of all paths on shadow memory sees a wrong byte at
this read (one method at a time, dynamic tensors at their largest size); *not to be shown this way*, it is about other
methods, callers' buffers, hosts that give each method arenas of its own, or state on which no output depends;
*nothing*, none of these. Program files are held against their twins only, graphs against eager as well.
"""

_REPAIRED = """
Seeds {first} to {last} under {releases}, in all their plans, each exported with `hazard.SafePlanning` and, as
ExecuTorch plans it, repaired as `hazard fix` does it (`python -m tests.fuzz.repaired`; `repairs.jsonl` has a line for
each). *Right* is what computes the same as eager in all its calls and is called proved; *as its instructions are
written*, what computes the same as its twin, but not as eager: no plan can mend that, no file can show it, and
`SafePlanning` puts it right in the graph. Where a model is meant for a host that loads all methods first, that has been
promised.
"""

_ARENAS = """
Known architectures, exported with ExecuTorch 1.5.1 (`benchmarks/architectures.py`), and programs that were at hand, in
bytes over all arenas; [the page on placement](placement.md) explains the columns and has the corpus.
"""


if __name__ == "__main__":
    sys.exit(main())
