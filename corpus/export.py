"""Exports the corpus with the installed ExecuTorch and writes down what its runtime does.

    python -m corpus.export [NAME ...]          exports, runs, rewrites programs and outcomes
    python -m corpus.export --check [NAME ...]  exports and says where the bytes differ from the committed ones

Without names: all cases. Only what belongs to the installed release is touched. Run the newest release first: an older
one keeps a program of its own only where it differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from typing import Any

from corpus import cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="compare with the committed programs, write nothing")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(cases.names())):
        parser.error(f"no such case: {', '.join(unknown)}")

    # Both are loud about things that are no concern of ours.
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    from corpus import runner

    if runner.RELEASE not in cases.RELEASES:
        parser.error(f"the corpus holds releases {', '.join(cases.RELEASES)}, not {runner.RELEASE}")
    differing = 0
    for name in arguments.names or cases.names():
        case = cases.Case(name)
        program, outcome = runner.try_export(runner.load_build(name))
        if arguments.check:
            said, same = _compare(case, runner.RELEASE, program)
            differing += not same
        else:
            said = json.dumps(outcome)
            _write(case, runner.RELEASE, program, outcome)
        print(f"{name}: {said}", flush=True)
    return 1 if differing else 0


def _compare(case: cases.Case, release: str, program: bytes | None) -> tuple[str, bool]:
    """What to say about a fresh export, and whether it is what is committed."""
    if not case.reproducible:
        return "not compared (every export may differ)", True
    path = case.program(release)
    if path is None:
        return ("not exported, as committed", True) if program is None else ("exported, no program is committed", False)
    if program is None:
        return "not exported any more", False
    committed = path.read_bytes()
    if program == committed:
        return "same", True
    first = next((i for i, (new, old) in enumerate(zip(program, committed, strict=False)) if new != old), None)
    return f"differs from {path.name}: {len(program)} bytes, not {len(committed)}, first at {first}", False


def _write(case: cases.Case, release: str, program: bytes | None, outcome: dict[str, Any]) -> None:
    _write_program(case, release, program)
    path = case.folder / "outcome.json"
    record: dict[str, Any] = {"kind": None, "cause": None}
    if path.exists():
        record |= json.loads(path.read_text())
    record["releases"] = dict(sorted({**record.get("releases", {}), release: outcome}.items()))
    path.write_text(_laid_out(record))


def _laid_out(record: dict[str, Any]) -> str:
    """One line for each release, so that a change of one of them shows as such."""
    head = {key: value for key, value in record.items() if key != "releases"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
    releases = [f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in record["releases"].items()]
    return "\n".join(["{", *lines, '  "releases": {', ",\n".join(releases), "  }", "}"]) + "\n"


def _write_program(case: cases.Case, release: str, program: bytes | None) -> None:
    """An older release gets a file only where its bytes differ."""
    own = case.folder / f"{release}.pte"
    current = case.folder / f"{cases.CURRENT_RELEASE}.pte"
    redundant = own != current and current.exists() and current.read_bytes() == program
    if program is None or redundant:
        own.unlink(missing_ok=True)
    else:
        own.write_bytes(program)


if __name__ == "__main__":
    sys.exit(main())
