"""Checks every program of some folders: ``python -m tests.sweep FOLDER...``.

For collections of programs that are believed right. Prints one line for each program that is not simply proved, then
the totals; exits 1 if a finding has severity error, or if a file fails otherwise than as unusable input.
"""

from __future__ import annotations

import pathlib
import sys
import traceback
from collections import Counter

import hazard

#: Inputs that are no program on purpose.
CORRUPT = "_corrupt_"


def sweep(folders: list[str]) -> int:
    """Checks all programs of the folders; returns the exit code."""
    verdicts: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    failed = 0
    files = sorted(f for folder in folders for s in ("*.pte", "*.bpte") for f in pathlib.Path(folder).rglob(s))
    for file in files:
        try:
            report = hazard.check(file)
        except hazard.InputError as e:
            verdicts["unusable"] += 1
            if CORRUPT not in file.name:
                print(f"FAILED {file.name}: {e}")
                failed += 1
            continue
        except Exception:
            print(f"FAILED {file.name}: {traceback.format_exc()}")
            failed += 1
            continue
        for program in report.programs:
            verdicts.update(m.verdict for m in program.methods)
        findings.update(f"{f.code} {f.severity}" for f in report.findings)
        errors = [f for f in report.findings if f.severity == "error"]
        failed += bool(errors)
        reasons = [r for p in report.programs for m in p.methods for r in m.reasons]
        for finding in errors:
            print(f"FAILED {file.name}: {finding.method}: {finding.code} {finding.message}")
        for reason in reasons[:1]:
            print(f"unknown {file.name}: {reason}")
    methods, found = dict(sorted(verdicts.items())), dict(sorted(findings.items()))
    print(f"{len(files)} programs; methods: {methods}; findings: {found}")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(sweep(sys.argv[1:]))
