"""Programs that are right although they share bytes: one text for each entry of the list in docs/design.md.

Each text is checked as it stands; most have a twin that moves one thing and must be flagged, so that no test passes
because nothing was looked at.
"""

from __future__ import annotations

import pytest

import hazard
from hazard.text import parse_program

RIGHT = {
    "zero-size tensors": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[0,4] @ 1+16
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %3
  chain
    aten::sin.out(%0, %1, %1)
    aten::empty_like.out(%0, %2, %2)
    aten::relu.out(%2, %2, %2)
    aten::cos.out(%1, %3, %3)
""",
    "constants and primitives as outputs": """
method forward
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] const 1
  %2 = int 7
  %3 = null
  inputs %0
  outputs %1 %2 %3
  chain
""",
    "a view whose consumer is the output": """
method forward
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+16
  inputs %0
  outputs %2
  chain
    aten::sin.out(%0, %1, %1)
""",
    "an input that is dead where its bytes are reused": """
method forward
  arena 1 : 32
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+0
  inputs %0
  outputs %2
  chain
    aten::sin.out(%0, %1, %1)
    aten::exp.out(%1, %2, %2)
""",
    "elementwise exactly over its operand": """
method forward
  arena 1 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+0
  inputs %0
  outputs %1
  chain
    aten::exp.out(%0, %1, %1)
""",
    "operand and result of one element": """
method forward
  arena 1 : 16
  %0 = tensor f32[1] @ 1+0
  %1 = tensor f32[1] @ 1+0
  inputs %0
  outputs %1
  chain
    aten::cumsum.out(%0, %2, %3, %1, %1)
""",
    "in place while the old value is dead": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor i64[1] const 1
  %3 = optional-tensors %2
  %4 = tensor f32[1] const 2
  %5 = bool false
  inputs %0
  outputs %1
  chain
    aten::sin.out(%0, %1, %1)
    aten::index_put_(%1, %3, %4, %5, %1)
""",
    "a view of a state that is read before the write-back": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1
  %2 = tensor f32[2,2] @ 1+16 init 1
  %3 = tensor f32[2,2] @ 1+32
  %4 = bool false
  inputs %0
  outputs %3
  chain
    aten::sin.out(%2, %3, %3)
    aten::copy_(%1, %0, %4, %1)
""",
    "branches that exclude each other": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor bool[1] @ 1+48
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+16
  %4 = tensor f32[4] @ 1+32
  %5 = bool false
  inputs %0 %1
  outputs %4
  chain
    0  jump-false %1 -> 4
    1  aten::sin.out(%0, %2, %2)
    2  move %4 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%0, %3, %3)
    5  move %4 <- %3
""",
    "a result that is used on the other path only": """
method forward
  arena 1 : 96
  %0 = tensor f32[4] @ 1+0
  %1 = tensor bool[1] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+48
  %5 = bool false
  inputs %0 %1
  outputs %3
  chain
    0  aten::sin.out(%0, %2, %2)
    1  jump-false %1 -> 5
    2  aten::exp.out(%0, %2, %2)
    3  aten::cos.out(%2, %3, %3)
    4  jump-false %5 -> 6
    5  aten::tan.out(%2, %3, %3)
""",
    "a move writes no bytes, and the parent's own bytes serve something else": """
method forward
  arena 1 : 96
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %2 %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::cos.out(%0, %3, %3)
    2  move %2 <- %1
""",
    "only the sizes of a clobbered tensor are read": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+16
  %3 = double 1.0
  %5 = tensor f32[4] @ 1+32
  inputs %0
  outputs %2 %5
  chain
    aten::sin.out(%0, %1, %1)
    aten::cos.out(%0, %2, %2)
    aten::full_like.out(%1, %3, %4, %5, %5)
""",
    "copy_ into a target whose old contents are gone": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+16
  %4 = bool false
  inputs %0
  outputs %1
  chain
    aten::sin.out(%0, %1, %1)
    aten::cos.out(%0, %2, %2)
    aten::copy_(%1, %0, %4, %1)
""",
    "the new state as an output on purpose": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1
  %2 = tensor f32[4] @ 1+32
  %4 = bool false
  inputs %0
  outputs %1
  chain
    aten::add.out(%1, %0, %5, %2, %2)
    aten::copy_(%1, %2, %4, %1)
""",
    "a write-back onto its own bytes": """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 init 1
  %2 = tensor f32[2,2] @ 1+16 init 1
  %3 = tensor f32[4] @ 1+32
  %4 = bool false
  inputs %0
  outputs %3
  chain
    aten::add.out(%1, %0, %5, %3, %3)
    aten::copy_(%1, %2, %4, %1)
    aten::add.out(%1, %0, %5, %3, %3)
""",
    "both branches write the same state": """
method forward
  arena 1 : 96
  %0 = tensor f32[4] @ 1+0
  %1 = tensor bool[1] @ 1+16
  %2 = tensor f32[4] @ 1+32 init 1
  %3 = tensor f32[4] @ 1+48
  %4 = bool false
  inputs %0 %1
  outputs %3
  chain
    0  aten::sin.out(%2, %3, %3)
    1  jump-false %1 -> 4
    2  aten::copy_(%2, %0, %4, %2)
    3  jump-false %4 -> 5
    4  aten::copy_(%2, %3, %4, %2)
""",
    "a loop whose body runs at least once": """
method forward
  arena 1 : 128
  %0 = tensor f32[3,2] @ 1+0
  %1 = tensor f32[3,2] @ 1+32
  %2 = int 0
  %3 = int 0
  %4 = tensor f32[2] @ 1+64
  %5 = tensor f32[2] @ 1+80
  %6 = int 0
  %7 = int 1
  %8 = bool false
  inputs %0
  outputs %1
  chain
    0  aten::sym_size.int(%0, %6, %3)
    1  aten::select_copy.int_out(%0, %6, %2, %4, %4)
    2  aten::sin.out(%4, %5, %5)
    3  executorch_prim::et_copy_index.tensor(%1, %5, %2)
    4  executorch_prim::add.Scalar(%2, %7, %2)
    5  executorch_prim::eq.Scalar(%2, %3, %8)
    6  jump-false %8 -> 1
    7  executorch_prim::sub.Scalar(%2, %3, %2)
""",
    "the row already read may be overwritten by a loop of one row": """
method forward
  arena 1 : 128
  %0 = tensor f32[1,2] @ 1+0
  %1 = tensor f32[1,2] @ 1+32
  %2 = int 0
  %3 = int 0
  %4 = tensor f32[2] @ 1+64
  %5 = tensor f32[2] @ 1+0
  %6 = int 0
  %7 = int 1
  %8 = bool false
  inputs %0
  outputs %1
  chain
    0  aten::sym_size.int(%0, %6, %3)
    1  aten::select_copy.int_out(%0, %6, %2, %4, %4)
    2  aten::sin.out(%4, %5, %5)
    3  executorch_prim::et_copy_index.tensor(%1, %5, %2)
    4  executorch_prim::add.Scalar(%2, %7, %2)
    5  executorch_prim::eq.Scalar(%2, %3, %8)
    6  jump-false %8 -> 1
    7  executorch_prim::sub.Scalar(%2, %3, %2)
""",
    "state that two methods share on purpose": """
method set
  arena 1 : 16
  arena 2 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 2+0 init 1 fqn "state"
  %2 = bool false
  inputs %0
  outputs %0
  chain
    aten::copy_(%1, %0, %2, %1)
method get
  arena 1 : 16
  arena 2 : 16
  %0 = tensor f32[4] @ 2+0 init 1 fqn "state"
  %1 = tensor f32[4] @ 1+0
  inputs
  outputs %1
  chain
    aten::sin.out(%0, %1, %1)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_have_no_error(name: str) -> None:
    options = {"ignore": ["HZ502"]} if "methods" in name else {}
    report = hazard.check(parse_program(RIGHT[name]), **options)
    assert [f for f in report.findings if f.severity != "note"] == []
    assert report.verdict == "proved"


# (name of the right program, text to change, its replacement, code of the rule that must fire then)
BROKEN = [
    ("zero-size tensors", "%2 = tensor f32[0,4]", "%2 = tensor f32[1,4]", "HZ103"),
    (
        "an input that is dead where its bytes are reused",
        "aten::exp.out(%1, %2, %2)",
        "aten::exp.out(%1, %2, %2)\n    aten::add.out(%0, %2, %9, %1, %1)",
        "HZ103",
    ),
    (
        "elementwise exactly over its operand",
        "aten::exp.out(%0, %1, %1)",
        "aten::cumsum.out(%0, %2, %3, %1, %1)",
        "HZ102",
    ),
    ("elementwise exactly over its operand", "%1 = tensor f32[4] @ 1+0", "%1 = tensor f32[2] @ 1+8", "HZ102"),
    ("operand and result of one element", "[1]", "[2]", "HZ102"),
    (
        "in place while the old value is dead",
        "aten::index_put_(%1, %3, %4, %5, %1)",
        "move %6 <- %1\n    aten::index_put_(%1, %3, %4, %5, %1)\n    aten::add.out(%6, %1, %7, %8, %8)\n",
        "HZ101",
    ),
    (
        "only the sizes of a clobbered tensor are read",
        "aten::full_like.out(%1, %3, %4, %5, %5)",
        "aten::mul.out(%1, %0, %5, %5)",
        "HZ103",
    ),
    (
        "a move writes no bytes, and the parent's own bytes serve something else",
        "2  move %2 <- %1",
        "2  move %2 <- %1\n    3  aten::exp.out(%0, %4, %4)\n",
        "HZ101",
    ),
    ("a loop whose body runs at least once", "%5 = tensor f32[2] @ 1+80", "%5 = tensor f32[2] @ 1+16", "HZ102"),
    (
        "the row already read may be overwritten by a loop of one row",
        "%5 = tensor f32[2] @ 1+0",
        "%5 = tensor f32[2] @ 1+36",
        "HZ102",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "code"), BROKEN, ids=[f"{b[0]}-{b[3]}" for b in BROKEN])
def test_broken_twins_are_flagged(name: str, old: str, new: str, code: str) -> None:
    text = RIGHT[name]
    assert old in text
    text = text.replace(old, new)
    if "%8, %8" in new:
        text = text.replace(
            "  inputs", "  %6 = tensor f32[4] @ 1+48\n  %8 = tensor f32[4] @ 1+32\n  %7 = int 1\n  inputs", 1
        )
    if "%4, %4" in new:
        text = text.replace("  inputs", "  %4 = tensor f32[4] @ 1+16\n  inputs", 1)
    report = hazard.check(parse_program(text))
    assert [f.code for f in report.findings if f.severity == "error"] == [code]


def test_rows_of_a_loop_that_were_read_may_be_overwritten_but_not_the_next() -> None:
    """The body writes over row 0, which the first iteration has read; with an offset of a row it hits the next one."""
    text = RIGHT["the row already read may be overwritten by a loop of one row"].replace(
        "f32[1,2] @ 1+0", "f32[3,2] @ 1+0"
    )
    text = text.replace("f32[1,2] @ 1+32", "f32[3,2] @ 1+32")
    assert not [f for f in hazard.check(parse_program(text)).findings if f.severity == "error"]
    hit = text.replace("%5 = tensor f32[2] @ 1+0", "%5 = tensor f32[2] @ 1+8")
    assert [f.code for f in hazard.check(parse_program(hit)).findings if f.severity == "error"] == ["HZ102"]


def test_a_run_time_view_of_one_row_is_one_iteration() -> None:
    """The view has the bytes of another tensor and sizes of its own, which say how often the loop runs."""
    text = """
method forward
  arena 1 : 128
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[ROWS,2] @ 1+32
  %2 = int 0
  %3 = int 0
  %4 = tensor f32[2] @ 1+64
  %5 = tensor f32[2] @ 1+0
  %6 = int 0
  %7 = int 1
  %8 = bool false
  %9 = tensor f32[ROWS,2]
  %10 = ints 7 11
  %11 = int 2
  inputs %0
  outputs %1
  chain
    0  executorch_prim::et_view.default(%0, %10, %9)
    1  aten::sym_size.int(%9, %6, %3)
    2  aten::select_copy.int_out(%9, %6, %2, %4, %4)
    3  aten::sin.out(%4, %5, %5)
    4  executorch_prim::et_copy_index.tensor(%1, %5, %2)
    5  executorch_prim::add.Scalar(%2, %7, %2)
    6  executorch_prim::eq.Scalar(%2, %3, %8)
    7  jump-false %8 -> 2
    8  executorch_prim::sub.Scalar(%2, %3, %2)
"""
    assert hazard.check(parse_program(text.replace("ROWS", "1"))).verdict == "proved"
    two = text.replace("ROWS", "2").replace("%0 = tensor f32[2]", "%0 = tensor f32[4]").replace("int 1\n", "int 2\n")
    two = two.replace("%5 = tensor f32[2] @ 1+0", "%5 = tensor f32[2] @ 1+8").replace("%2, %7, %2", "%2, %12, %2")
    two = two.replace("  inputs", "  %12 = int 1\n  inputs", 1)
    assert [f.code for f in hazard.check(parse_program(two)).findings if f.severity != "note"] == ["HZ102"]


def test_state_whose_value_the_program_lost_is_an_error() -> None:
    text = """
method forward
  meaning graph
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16 fqn "count" lost-value
  %2 = tensor f32[4] @ 1+32
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
"""
    lost = hazard.check(parse_program(text))
    assert [(f.code, f.severity) for f in lost.findings] == [("HZ202", "error")]
    kept = hazard.check(parse_program(text.replace(" lost-value", "")))
    assert [(f.code, f.severity) for f in kept.findings] == [("HZ202", "note")]


def test_a_result_over_its_own_operand_slot_is_read_and_may_collide() -> None:
    """The operand and the result are one slot: fine for an elementwise kernel, not for one that reads on."""
    text = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::exp.out(%1, %1, %1)
"""
    assert hazard.check(parse_program(text)).verdict == "proved"
    wrong = hazard.check(parse_program(text.replace("aten::exp.out(%1,", "aten::cumsum.out(%1, %2, %3,")))
    assert [f.code for f in wrong.findings] == ["HZ102"]


def test_a_delegate_with_a_number_among_its_results() -> None:
    """The number does not hide the tensor before it: the read of the clobbered result is seen."""
    text = """
method forward
  arena 1 : 64
  delegate 0 Backend
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = int 0
  %3 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  delegate 0 (%0, %1, %2)
    1  aten::exp.out(%0, %3, %3)
"""
    assert hazard.check(parse_program(text)).verdict == "proved"
    hit = hazard.check(parse_program(text.replace("%3 = tensor f32[4] @ 1+32", "%3 = tensor f32[4] @ 1+24")))
    assert [f.code for f in hit.findings] == ["HZ103"]


def test_a_state_of_no_bytes_within_a_tensor() -> None:
    """Its place is nobody's: what spans it takes nothing away."""
    program = parse_program(
        """
        method forward
          arena 1 : 64
          %0 = tensor f32[4] @ 1+0
          %1 = tensor f32[0] @ 1+40 init 1
          %2 = tensor f32[8] @ 1+32
          %3 = int 1
          inputs %0
          outputs %2
          chain
            0  aten::cat.out(%0, %0, %3, %2, %2)
            1  aten::add.out(%1, %1, %3, %1, %1)
        """
    )
    report = hazard.check(program)
    assert [f for f in report.findings if f.severity != "note"] == []
    assert report.verdict == "proved"
