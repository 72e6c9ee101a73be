"""Random models against the real runtime.

    python -m tests.fuzz --seeds 0:1000 --budget 600 --out fuzz-results

Makes a model for each seed, lowers it with the installed ExecuTorch, plans it in several ways, checks each program, and
runs it in sequences of calls beside eager and beside a twin that never reuses memory. One line of ``results.jsonl`` for
each program; seeds that have one are not run again. ``models/`` holds each model's source (``python -m tests.fuzz.judge
FILE`` repeats one), ``programs/`` what was exported.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from select import select
from typing import Any

#: A fresh process after so many models: what torch remembers of each adds up.
MODELS_PER_PROCESS = 100

#: Seconds that one model may take, its share of the start of the process included.
PATIENCE = 180.0

ALARMING = ("missed", "false-alarm", "twin-fault")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", metavar="FIRST:END", help="half-open range (default 0:100)")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), metavar="SECONDS", help="start no model after that"
    )
    parser.add_argument("--out", type=Path, default=Path("fuzz-results"), help="folder of the results")
    parser.add_argument("--again", action="store_true", help="run seeds that have a result already")
    parser.add_argument("--held", action="store_true", help="hold every finding of the graphs against the runtime")
    arguments = parser.parse_args()
    first, _, end = arguments.seeds.partition(":")
    try:
        seeds = range(int(first), int(end) if end else int(first) + 1)
    except ValueError:
        parser.error(f"seeds are FIRST:END, not {arguments.seeds}")
    out: Path = arguments.out
    (out / "models").mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    known = set() if arguments.again else {r["seed"] for r in read(results)}
    stop = time.monotonic() + arguments.budget
    if results.exists() and not results.read_bytes().endswith(b"\n"):
        # A run was stopped while it wrote.
        with results.open("a") as file:
            file.write("\n")
    with results.open("a") as file:
        todo = [s for s in seeds if s not in known]
        for record in (r for records in _judged(todo, out, stop, arguments.held) for r in records):
            file.write(json.dumps(record) + "\n")
            file.flush()
            kinds = (record["kind"], record.get("graph_kind", ""))
            if set(kinds) & set(ALARMING) or record["status"] in ("crash", "timeout", "check-error", "twin-error"):
                name = f"{record['seed']}/{record['variant']}"
                print(f"seed {name}: {record['status']} {' / '.join(kinds)} {record['detail']}", flush=True)
    records = [r for r in latest(results) if r["seed"] in seeds]
    failed = 0
    for name, key in (("program files", "kind"), ("graphs", "graph_kind")):
        summary = collections.Counter(r.get(key) or r["status"] for r in records)
        print(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in summary.most_common()))
        failed += summary["missed"] + summary["false-alarm"]
    return 1 if failed else 0


def read(path: Path) -> list[dict[str, Any]]:
    """All results of a run, in order; a half-written last line is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def latest(path: Path) -> list[dict[str, Any]]:
    """The last result of each program."""
    return list({(r["seed"], r["variant"]): r for r in read(path)}.values())


def _judged(seeds: list[int], out: Path, stop: float, held: bool) -> Any:
    worker: subprocess.Popen[str] | None = None
    done = 0
    try:
        for seed in seeds:
            if time.monotonic() > stop:
                break
            if worker is None or done >= MODELS_PER_PROCESS:
                _end(worker)
                command = [sys.executable, "-m", "tests.fuzz.worker", str(out), *["--held"] * held]
                worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
                done = 0
            done += 1
            assert worker.stdin is not None
            assert worker.stdout is not None
            line = ""
            try:
                worker.stdin.write(f"{seed}\n")
                worker.stdin.flush()
                if select([worker.stdout], [], [], PATIENCE)[0]:
                    line = worker.stdout.readline()
            except OSError:
                pass
            if line:
                yield json.loads(line)
                continue
            code = worker.poll()
            status = "crash" if code is not None else "timeout"
            yield [{"seed": seed, "variant": 0, "status": status, "kind": "", "detail": str(code)}]
            _end(worker)
            worker = None
    finally:
        _end(worker)


def _end(worker: subprocess.Popen[str] | None) -> None:
    if worker is not None:
        worker.kill()
        worker.communicate()


if __name__ == "__main__":
    sys.exit(main())
