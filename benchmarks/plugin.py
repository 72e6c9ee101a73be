"""What the pytest plugin costs a suite that makes no program, as ratios of CPU time.

    python -m benchmarks.plugin

A suite of 2,000 tests is run in turns without the plugin, with it, and with `--hazard`; so is a suite of one test, for
which starting pytest is all there is. Prints the least of five runs each, as a ratio to that without the plugin.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
WAYS = {"without the plugin": ("-p", "no:hazard"), "with the plugin": (), "with --hazard": ("--hazard",)}


def cpu(folder: Path, options: tuple[str, ...]) -> float:
    """Seconds of CPU of one run of pytest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for count in (1, 2_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            head = f"import pytest\n\n@pytest.mark.parametrize('i', range({count}))\n"
            body = head + "def test_number(i):\n    assert i >= 0\n"
            (folder / "test_numbers.py").write_text(body)
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                for way, options in WAYS.items():
                    times[way].append(cpu(folder, options))
            least = {way: min(found) for way, found in times.items()}
            base = least["without the plugin"]
            told = ", ".join(f"{way} {least[way] / base:.3f}" for way in WAYS if way != "without the plugin")
            print(f"{count} tests: {told}")


if __name__ == "__main__":
    main()
