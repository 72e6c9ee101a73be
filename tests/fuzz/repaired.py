"""Random models with new plans: ``python -m tests.fuzz.repaired --seeds 0:150``.

Each is exported in all its variants of planning, twice: *planned* with `hazard.SafePlanning`, and as ExecuTorch plans
it, then *fixed* as `hazard fix` does it. Either way the program runs under the runtime beside eager, and a fixed one
beside its twin (`hazard.confirm.twin`) too: what is wrong in its instructions it goes on computing. Prints what is
wrong, what is refused and why; exits with 1 where a program is wrong, or where it is let through and the check does not
call it proved. With ``--results FILE`` every plan is a line of JSON there, which ``tests.evidence`` counts; seeds that
have lines are not run again. Plans that ExecuTorch itself cannot make do not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hazard
from corpus import runner
from hazard.api import ProgramReport
from hazard.confirm.twin import make_twin
from hazard.frontends import load_bytes
from hazard.hosts import choose_hosts
from hazard.pipeline import _copied
from hazard.repair.fix import repair_program
from hazard.repair.write import rewrite_bytes
from tests.fuzz.generate import generate
from tests.fuzz.judge import Outcome, build_module, run_beside
from tests.fuzz.recipe import source
from tests.fuzz.worker import quiet


def planned(module: Any, edge: Any, variant: int) -> tuple[str, str]:
    """(right, wrong, refused or failed; what about it) of a program that `hazard.SafePlanning` has planned."""
    config = runner.planning(module.build(variant))
    safe = hazard.SafePlanning(config.memory_planning_pass, load=_loaded(module, variant))
    config.memory_planning_pass = safe
    try:
        data = bytes(_copied(edge).to_executorch(config).buffer)
    except hazard.HazardError as error:
        return "refused", _codes(error.report.programs[0])
    except Exception as error:
        return "failed", f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    ran = _ran(module, variant, data)
    if ran.against_eager or ran.status != "ok" or safe.report.verdict != "proved":
        return "wrong", ran.against_eager or ran.detail or f"the verdict is {safe.report.verdict}"
    return "right", ""


def fixed(module: Any, data: bytes, variant: int) -> tuple[str, str]:
    """(right, wrong, refused or as written; what about it) of a program file with a new plan."""
    hosts = choose_hosts(None, load=_loaded(module, variant))
    repair = repair_program(load_bytes(data), hosts=hosts)
    if repair.refusals:
        return "refused", _codes(repair.after) or _codes(repair.before)
    ran = _ran(module, variant, rewrite_bytes(data, repair.plan))
    if ran.against_twin or ran.status != "ok" or repair.after.verdict != "proved":
        return "wrong", ran.against_twin or ran.detail or f"the verdict is {repair.after.verdict}"
    return ("as written", ran.against_eager) if ran.against_eager else ("right", "")


def _loaded(module: Any, variant: int) -> str | None:
    return "eager" if module.build(variant).options.get("preload") else None


def _ran(module: Any, variant: int, data: bytes) -> Outcome:
    analyses = [m.analysis for m in hazard.check(data).programs[0].methods]
    ran = Outcome(variant=variant, data=data)
    run_beside(ran, module, [make_twin(data, analyses).data])
    return ran


def _codes(report: ProgramReport) -> str:
    return ", ".join(sorted({f.code for f in report.findings if f.severity != "note"}))


def results(seed: int) -> Iterator[dict[str, Any]]:
    """Two records for each plan of a model that ExecuTorch can make; ``shipped`` is what became of its own plan."""
    module = build_module(source(generate(seed)), f"repaired_{seed:06}")
    try:
        edge, _ = runner.lower(module.build())
    except Exception:
        return
    for variant in range(len(module.VARIANTS)):
        try:
            data = bytes(_copied(edge).to_executorch(runner.planning(module.build(variant))).buffer)
        except Exception:
            continue
        ran = _ran(module, variant, data)
        shipped = "wrong" if ran.against_eager or ran.against_twin or ran.status != "ok" else "right"
        ways = {"planned": planned(module, edge, variant), "fixed": fixed(module, data, variant)}
        for way, (outcome, detail) in ways.items():
            yield {
                "release": runner.RELEASE, "seed": seed, "variant": variant, "shipped": shipped, "way": way,
                "outcome": outcome, "detail": detail,
            }  # fmt: skip
    sys.modules.pop(module.__name__, None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.repaired", description=__doc__)
    parser.add_argument("--seeds", default="0:150", metavar="FIRST:LAST")
    parser.add_argument("--results", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split(":"))
    kept = arguments.results
    known = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    done = {json.loads(line)["seed"] for line in known}
    count: Counter[tuple[str, str]] = Counter()
    answers = quiet()
    for seed in (s for s in range(first, last) if s not in done):
        records = list(results(seed))
        count.update((record["way"], record["outcome"]) for record in records)
        for record in records:
            if record["outcome"] != "right":
                print(*record.values(), file=answers, flush=True)
        if kept is not None:
            with kept.open("a") as file:
                file.write("".join(json.dumps(record) + "\n" for record in records))
    print("; ".join(f"{way} {outcome}: {n}" for (way, outcome), n in sorted(count.items())), file=answers)
    return int(any(outcome == "wrong" for _, outcome in count))


if __name__ == "__main__":
    sys.exit(main())
