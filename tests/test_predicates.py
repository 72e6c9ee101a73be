"""Which paths can be executed: the same predicate, its negation, unrelated and ordered ones, and clobbered ones."""

from __future__ import annotations

import pytest

import hazard
from hazard.text import parse_program

#: Cond 1 puts its result into bytes that the true branch of cond 2 overwrites; it is read in the true branch of cond 2
#: only, or after both. `{p}` and `{q}` are the predicates of the two.
TWO_CONDS = """
method forward
  arena 1 : 256
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[1] @ 1+16
  %2 = tensor f32[1] @ 1+32
  %3 = tensor bool[1] @ 1+48
  %4 = tensor bool[1] @ 1+64
  %5 = tensor f32[4] @ 1+96
  %6 = tensor f32[4] @ 1+112
  %7 = tensor f32[4] @ 1+224
  %8 = tensor f32[4] @ 1+96
  %9 = tensor f32[4] @ 1+144
  %10 = bool false
  %11 = double 0.0
  %12 = double 1.0
  %13 = tensor i64[1] @ 1+176
  %14 = tensor i64[1] @ 1+192
  inputs %0 %1 %2 %13 %14
  outputs %9 %7
  chain
    0  {p}
    1  {q}
    2  jump-false %3 -> 6
    3  aten::sin.out(%0, %5, %5)
    4  move %7 <- %5
    5  jump-false %10 -> 8
    6  aten::cos.out(%0, %6, %6)
    7  move %7 <- %6
    8  jump-false %4 -> 12
    9  aten::tan.out(%0, %8, %8)
    10 aten::exp.out(%8, %9, %9)
    11 jump-false %10 -> 13
    12 aten::exp.out(%0, %9, %9)
"""

SAME = ("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::gt.Scalar_out(%1, %11, %4, %4)")

#: (first predicate, second predicate, whether both can hold, which is when the result is overwritten)
PAIRS = [
    (*SAME, True),
    ("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::logical_not.out(%3, %4, %4)", False),
    ("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::le.Scalar_out(%1, %11, %4, %4)", False),
    ("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::lt.Scalar_out(%1, %11, %4, %4)", False),
    ("aten::gt.Scalar_out(%1, %12, %3, %3)", "aten::gt.Scalar_out(%1, %11, %4, %4)", True),
    ("aten::gt.Scalar_out(%1, %12, %3, %3)", "aten::lt.Scalar_out(%1, %11, %4, %4)", False),
    ("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::gt.Scalar_out(%2, %11, %4, %4)", True),
    ("aten::gt.Tensor_out(%1, %2, %3, %3)", "aten::gt.Tensor_out(%2, %1, %4, %4)", False),
    ("aten::gt.Tensor_out(%1, %2, %3, %3)", "aten::ne.Tensor_out(%2, %1, %4, %4)", True),
    ("aten::eq.Tensor_out(%1, %2, %3, %3)", "aten::ne.Tensor_out(%1, %2, %4, %4)", False),
    ("aten::lt.Tensor_out(%1, %2, %3, %3)", "aten::ge.Tensor_out(%1, %2, %4, %4)", False),
    ("aten::gt.Scalar_out(%13, %15, %3, %3)", "aten::lt.Scalar_out(%13, %16, %4, %4)", False),
    ("aten::gt.Scalar_out(%1, %15, %3, %3)", "aten::lt.Scalar_out(%1, %16, %4, %4)", True),
    ("aten::rand.out(%17, %3, %3)", "aten::logical_not.out(%3, %4, %4)", False),
]


def _program(p: str, q: str) -> str:
    text = TWO_CONDS.format(p=p, q=q)
    return text.replace("  inputs", "  %15 = int 0\n  %16 = int 1\n  inputs", 1)


@pytest.mark.parametrize(("p", "q", "together"), PAIRS)
def test_conds_are_flagged_on_exactly_the_feasible_paths(p: str, q: str, together: bool) -> None:
    report = hazard.check(parse_program(_program(p, q)))
    assert [f.code for f in report.findings] == (["HZ101"] if together else [])
    for finding in report.findings:
        assert finding.certainty == "certain"
        assert finding.witness is not None
        assert [(d.instruction, d.held) for d in finding.witness.decisions] == [(2, True), (8, True)]


def test_the_negation_of_several_elements_excludes_nothing() -> None:
    """All elements true, and all elements of the negation true, are not complements; but both together need none."""
    text = _program(*PAIRS[1][:2]).replace("%3 = tensor bool[1]", "%3 = tensor bool[2]")
    text = text.replace("%4 = tensor bool[1]", "%4 = tensor bool[2]").replace(
        "%1 = tensor f32[1]", "%1 = tensor f32[2]"
    )
    report = hazard.check(parse_program(text))
    assert [f.code for f in report.findings] == ["HZ101"]


def test_a_clobbered_predicate_prunes_nothing() -> None:
    """%4 is not(%3), but its byte is overwritten before the second jump reads it."""
    text = _program(*PAIRS[1][:2]).replace("%5 = tensor f32[4] @ 1+96", "%5 = tensor f32[4] @ 1+64")
    text = text.replace("%8 = tensor f32[4] @ 1+96", "%8 = tensor f32[4] @ 1+64")
    report = hazard.check(parse_program(text))
    flagged = {(f.code, f.use.instruction if f.use else None) for f in report.findings}
    assert flagged == {("HZ103", 8), ("HZ101", None)}


def test_a_predicate_that_is_computed_anew_is_another() -> None:
    text = _program("aten::gt.Scalar_out(%1, %11, %3, %3)", "aten::logical_not.out(%3, %4, %4)").replace(
        "    2  jump-false", "    2  aten::gt.Scalar_out(%2, %11, %3, %3)\n    3  jump-false"
    )
    renumbered = [
        ("3  aten::sin", "4  aten::sin"),
        ("4  move", "5  move"),
        ("5  jump-false %10 -> 8", "6  jump-false %10 -> 9"),
        ("6  aten::cos", "7  aten::cos"),
        ("7  move", "8  move"),
        ("8  jump-false %4 -> 12", "9  jump-false %4 -> 13"),
        ("    9  aten::tan", "    10  aten::tan"),
        ("10 aten::exp", "11 aten::exp"),
        ("11 jump-false %10 -> 13", "12 jump-false %10 -> 14"),
        ("12 aten::exp", "13 aten::exp"),
        ("jump-false %3 -> 6", "jump-false %3 -> 7"),
    ]
    for old, new in renumbered:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    report = hazard.check(parse_program(text))
    assert [f.code for f in report.findings] == ["HZ101"]


def test_z3_is_asked_only_about_predicates_that_relate_numbers() -> None:
    import subprocess
    import sys

    script = (
        "import sys, hazard; from hazard.text import parse_program;"
        "hazard.check(parse_program(sys.argv[1])); print('z3' in sys.modules)"
    )
    for pair, expected in [(PAIRS[5], "False"), (PAIRS[7], "True")]:
        run = subprocess.run(
            [sys.executable, "-c", script, _program(*pair[:2])], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected


#: State is the predicate of two conds; the first one's true branch rewrites it.
STATE = """
method forward
  arena 1 : 256
  %0 = tensor f32[4] @ 1+0
  %1 = tensor bool[1] @ 1+16 init 1
  %2 = tensor bool[1] @ 1+32
  %3 = tensor f32[4] @ 1+48
  %4 = tensor f32[4] @ 1+224
  %5 = tensor f32[4] @ 1+48
  %6 = tensor f32[4] @ 1+80
  %7 = bool false
  inputs %0 %2
  outputs %6 %4
  chain
    0  jump-false %1 -> 5
    1  aten::sin.out(%0, %3, %3)
    2  move %4 <- %3
    3  {write}
    4  jump-false %7 -> 7
    5  aten::cos.out(%0, %8, %8)
    6  move %4 <- %8
    7  jump-false %1 -> 11
    8  aten::exp.out(%0, %6, %6)
    9  aten::tan.out(%0, %8, %8)
    10 jump-false %7 -> 12
    11 aten::exp.out(%0, %5, %5)
"""


@pytest.mark.parametrize(
    ("write", "flagged"), [("aten::copy_(%1, %2, %7, %1)", True), ("aten::exp.out(%0, %9, %9)", False)]
)
def test_state_that_a_branch_rewrites_is_another_predicate(write: str, flagged: bool) -> None:
    """The result of the true branch is overwritten where the second jump finds the state false."""
    values = "  %8 = tensor f32[4] @ 1+112\n  %9 = tensor f32[4] @ 1+128\n  inputs"
    report = hazard.check(parse_program(STATE.format(write=write).replace("  inputs", values, 1)))
    clobbers = {p.instruction for f in report.findings for p in f.all_clobbers}
    assert (11 in clobbers) is flagged
