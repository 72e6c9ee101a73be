"""Copies that findings advise, tried in the program. For files an exhaustive run on shadow memory agrees."""

from __future__ import annotations

from collections import Counter

import pytest

from corpus import cases, runner
from hazard.analysis.check import MethodAnalysis
from hazard.api import ProgramReport, check, check_program, chosen_rules
from hazard.frontends import load
from hazard.pipeline import plan_edge
from hazard.program import Kernel, Method, Program
from hazard.repair.copies import try_copy
from hazard.rule import Finding
from hazard.text import parse_program
from tests.shadow import run

pytestmark = pytest.mark.usefixtures("quiet")

ADVISED = ("HZ101", "HZ102", "HZ104", "HZ201", "HZ302", "HZ303", "HZ703")
WRONG = [c for c, _ in cases.programs() if c.kind in ("A", "A2", "B", "B2", "C2", "D", "E1", "I")]

Read = tuple[int | None, int]  # instruction, slot


def wrong_reads(method: Method) -> set[Read]:
    return {(o.instruction, o.slot) for o in run(method, path_limit=512).hazards}


def checked(program: Program) -> ProgramReport:
    return check_program(program, "<program>", None, chosen_rules(None, None))


def advised(report: ProgramReport) -> list[Finding]:
    return [f for f in report.findings if f.code in ADVISED and f.severity != "note"]


def told(report: ProgramReport) -> Counter[tuple[str, str]]:
    return Counter((f.code, f.message) for f in report.findings if f.severity != "note")


def tried(report: ProgramReport, finding: Finding) -> tuple[Method, int, tuple[int, int]]:
    """The method with the copy, the index of that, and the slots of what is copied and of the copy."""
    analyses: list[MethodAnalysis] = [m.analysis for m in report.methods]
    m = [x.name for x in report.program.methods].index(finding.method)
    trial = try_copy(report.program, analyses, m, finding)
    assert trial is not None, finding.message
    method = report.program.methods[m]
    assert trial.before == sum(a.size for a in method.arenas.values()) <= trial.after
    assert trial.after == sum(a.size for a in trial.method.arenas.values())
    (old,), (new,) = method.chains, trial.method.chains
    at = next(i for i, step in enumerate(new) if isinstance(step, Kernel) and step.args[-1] >= len(method.values))
    copied = new[at]
    assert isinstance(copied, Kernel)
    assert copied.operator == "aten::clone.out"
    assert [type(i) for i in (*new[:at], *new[at + 1 :])] == [type(i) for i in old]
    return trial.method, at, (copied.args[0], copied.args[-1])


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in WRONG])
def test_of_graphs(case: cases.Case) -> None:
    edge, config = runner.lower(runner.load_build(case.name)())
    report = checked(plan_edge(edge, config))
    for finding in advised(report):
        method, _, _ = tried(report, finding)
        left = told(checked(Program((method,))))
        assert left < told(report)
        assert left[finding.code, finding.message] < told(report)[finding.code, finding.message]


def test_of_files() -> None:
    """All but views of which the file does not tell what they are views of."""
    count: Counter[str] = Counter()
    for case in WRONG:
        path = case.program()
        assert path is not None
        report = checked(load(path))
        for finding in advised(report):
            if finding.code not in ("HZ101", "HZ102"):
                continue
            method, at, (value, copy) = tried(report, finding)
            before = wrong_reads(report.program.method(finding.method))
            after = {
                (i if i is None or i < at else i - 1, value if slot == copy else slot)
                for i, slot in wrong_reads(method)
            }  # fmt: skip
            assert finding.use is not None
            assert finding.use.slot is not None
            use = (finding.use.instruction, finding.use.slot)
            assert use in before
            assert after <= before - {use}
            count[finding.code] += 1
    assert count["HZ101"] > 30
    assert count["HZ102"] > 3


def test_a_copy_that_does_not_help_is_not_called_tried() -> None:
    # The result is lost within its branch, before it could be copied behind it.
    program = parse_program(
        """
        method forward
          arena 1 : 64
          %0 = tensor f32[4] @ 1+0
          %1 = tensor bool[1]
          %2 = tensor f32[4] @ 1+16
          %3 = tensor f32[4] @ 1+32
          %4 = tensor f32[4] @ 1+48
          %5 = tensor f32[4] @ 1+16
          %6 = tensor f32[4]
          %7 = bool false
          inputs %0 %1
          outputs %6
          chain
            0  jump-false %1 -> 5
            1  aten::mm.out(%0, %0, %2, %2)
            2  move %4 <- %2
            3  aten::mm.out(%0, %0, %5, %5)
            4  jump-false %7 -> 7
            5  aten::mm.out(%0, %0, %3, %3)
            6  move %4 <- %3
            7  aten::mm.out(%4, %4, %6, %6)
        """
    )
    report = check(program).programs[0]
    (finding,) = advised(report)
    assert finding.code == "HZ101"
    assert finding.clobber is not None
    assert finding.clobber.instruction == 3
    assert try_copy(program, [m.analysis for m in report.methods], 0, finding) is None
