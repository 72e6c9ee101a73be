"""Runs ExecuTorch's own tests of emission, planning and delegation, and checks every program that they make.

    python -m tests.upstream [TEST ...]

Without arguments: the tests that come with the installed package. Prints what was checked, every finding once, and what
went wrong in hazard itself; exits with 1 if anything did, with 2 if no program was checked: a wrong path, say.
ExecuTorch's tests may fail for reasons of their own.
"""

from __future__ import annotations

import copy
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hazard
from hazard.frontends.fx import program_from_graphs
from hazard.pipeline import program_of
from hazard.program import Program

TESTS = (
    "emit/test",
    "program/test",
    "backend/test",
    "tests/test_memory_planning.py",
    "tests/test_banked_memory_planning.py",
    "tests/test_reinplace_pass.py",
    "tests/test_remove_view_copy.py",
    "tests/test_passes.py",
    "tests/test_dynamic_shape_propagation.py",
    "tests/test_propagate_device_pass.py",
    "tests/test_prune_empty_tensors_pass.py",
    "tests/test_delegate.py",
    "tests/test_joint_graph.py",
    "tests/test_device_copy_ops.py",
    "tests/test_quantize_io_pass.py",
)


class Checking:
    """A pytest plugin that checks what planning leaves and what a manager has emitted."""

    def __init__(self) -> None:
        self.test = ""
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.told: dict[str, None] = {}
        self.faults: list[str] = []

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.test = item.name

    def pytest_configure(self) -> None:
        from executorch.exir.passes.memory_planning_pass import MemoryPlanningPass
        from executorch.exir.program._program import ExecutorchProgramManager

        plan, make = MemoryPlanningPass.run, ExecutorchProgramManager.__init__

        def run(planner: Any, graph_module: Any, graph_signature: Any = None) -> Any:
            result = plan(planner, graph_module, graph_signature)
            signature = copy.deepcopy(graph_signature)
            self.check("planned", lambda: program_from_graphs(result.graph_module, signature))
            return result

        def init(manager: Any, *arguments: Any, **options: Any) -> None:
            make(manager, *arguments, **options)
            self.check("emitted", lambda: program_of(manager))

        MemoryPlanningPass.run = run
        ExecutorchProgramManager.__init__ = init

    def check(self, stage: str, program: Callable[[], Program]) -> None:
        try:
            report = hazard.check(program())
        except Exception:
            self.faults.append(f"{self.test}, {stage}\n{traceback.format_exc()}")
            return
        self.verdicts[stage, report.verdict] += 1
        for finding in report.findings:
            if finding.severity != "note":
                self.told[f"{self.test}: {finding.severity}[{finding.code}] {finding.message}"] = None
        for method in report.programs[0].methods:
            for reason in method.reasons:
                self.told[f"{self.test}: unknown: {reason}"] = None


def main() -> int:
    import executorch.exir

    folder = Path(executorch.exir.__path__[0])
    tests = sys.argv[1:] or [str(folder / t) for t in TESTS if (folder / t).exists()]
    checking = Checking()
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "--continue-on-collection-errors"]
    code = pytest.main([*options, *tests], plugins=[checking])
    print()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        print(f"pytest ended with {pytest.ExitCode(code).name}", file=sys.stderr)
        return 2
    if not checking.verdicts and not checking.faults:
        print("no program was checked", file=sys.stderr)
        return 2
    for (stage, verdict), count in sorted(checking.verdicts.items()):
        print(f"{stage}: {count} {verdict}")
    print(*checking.told, sep="\n")
    print(*checking.faults, sep="\n")
    return 1 if checking.faults else 0


if __name__ == "__main__":
    sys.exit(main())
