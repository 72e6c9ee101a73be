"""Random models planned with `hazard.SafePlanning`: ``python -m tests.fuzz.safely --seeds 0:150``.

Each is exported in all its variants of planning, run under the runtime beside eager, and either right in all its calls
or refused. Prints what is wrong, what is refused and why; exits with 1 where a program computes something else than
eager, or where the check of what was planned is not `proved`. Plans that ExecuTorch itself cannot make do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

import hazard
from corpus import runner
from hazard.pipeline import _copied
from tests.fuzz.generate import generate
from tests.fuzz.judge import build_module, plain_control_flow
from tests.fuzz.recipe import source
from tests.fuzz.worker import quiet

_WORDS = ["impossible", "right", "refused", "failed", "wrong"]


def outcome(module: Any, edge: Any, variant: int) -> tuple[str, str]:
    """(right, wrong, refused, failed or impossible; what about it)."""
    config = runner.planning(module.build(variant))
    safe = hazard.SafePlanning(config.memory_planning_pass)
    config.memory_planning_pass = safe
    try:
        data = bytes(_copied(edge).to_executorch(config).buffer)
    except Exception as error:
        word, detail = _refusal(error)
        try:
            _copied(edge).to_executorch(runner.planning(module.build(variant)))
        except Exception:
            return "impossible", detail
        return word, detail
    with plain_control_flow(module):
        seen = runner.observe(lambda: module.build(variant), data)
    if seen["outcome"] != "match" or safe.report.verdict != "proved":
        return "wrong", f"{seen}; the verdict is {safe.report.verdict}"
    return "right", ""


def _refusal(error: Exception) -> tuple[str, str]:
    if isinstance(error, hazard.HazardError):
        found = [f"{f.code} {f.message}" for f in error.report.findings if f.severity != "note"]
        return "refused", "; ".join(found)
    return "failed", f"{type(error).__name__}: {str(error).splitlines()[:1]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.safely", description=__doc__)
    parser.add_argument("--seeds", default="0:150", metavar="FIRST:LAST")
    first, last = map(int, parser.parse_args().seeds.split(":"))
    models: Counter[str] = Counter()
    plans: Counter[str] = Counter()
    answers = quiet()
    for seed in range(first, last):
        module = build_module(source(generate(seed)), f"safely_{seed:06}")
        try:
            edge, _ = runner.lower(module.build())
        except Exception:
            models["not exported"] += 1
            continue
        found = [outcome(module, edge, variant) for variant in range(len(module.VARIANTS))]
        for variant, (word, detail) in enumerate(found):
            plans[word] += 1
            if word not in ("right", "impossible"):
                print(f"seed {seed}, plan {variant}: {word}: {detail}", file=answers, flush=True)
        models[max((word for word, _ in found), key=_WORDS.index)] += 1
    print(f"models: {dict(models)}; plans: {dict(plans)}", file=answers)
    return int(bool(plans["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
