"""What the oracle must and must not observe, each on a program of a few lines.

The programs follow ExecuTorch's conventions: an out argument is repeated as the result, `%9` and the like above the
tensors are constants of the operators.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from corpus import cases
from hazard.frontends import load
from hazard.text import parse_program, print_program
from tests.shadow import FILL, Bytes, Result, Terms, Write, agree, run
from tests.strategies import PLANS, Sample, programs, random_program

NUMBERS = """
  %90 = int 0
  %91 = int 1
  %92 = bool false
  %93 = null
  %94 = int 2
"""


def shadow(body: str, **limits: int) -> Result:
    return run(parse_program(f"method forward\n  arena 1 : 256\n{NUMBERS}{body}").methods[0], **limits)


def found(body: str, **limits: int) -> set[tuple[str, int | None, int]]:
    """(kind, instruction, slot) of each observation; every path must have been run."""
    result = shadow(body, **limits)
    assert not result.exhausted
    return {(o.kind, o.instruction, o.slot) for o in result.observations}


# --- straight lines ---------------------------------------------------------------------------------------------------

CHAIN = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+{offset}
  %3 = tensor f32[4] @ 1+48
  inputs %0
  outputs %3
  chain
    0  aten::exp.out(%0, %1, %1)
    1  aten::sin.out(%0, %2, %2)
    2  aten::mul.out(%1, %2, %3, %3)
"""


@pytest.mark.parametrize(
    ("offset", "clobbered"), [(0, False), (1, True), (15, True), (16, True), (31, True), (32, False)]
)
def test_a_value_is_clobbered_exactly_when_a_byte_of_it_is_overwritten(offset: int, clobbered: bool) -> None:
    assert (("clobbered", 2, 1) in found(CHAIN.format(offset=offset))) == clobbered


def test_the_bytes_and_the_writers_are_named() -> None:
    (o,) = shadow(CHAIN.format(offset=24)).observations
    assert (o.low, o.high, o.space) == (24, 32, ("arena", 1))
    assert o.expected is not None
    assert (o.expected.instruction, o.seen.instruction) == (0, 1)
    assert (o.call, o.path) == (1, ())


def test_a_dead_value_may_be_overwritten() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+16
  inputs %0
  outputs %3
  chain
    aten::exp.out(%0, %1, %1)
    aten::sin.out(%1, %2, %2)
    aten::neg.out(%2, %3, %3)
"""
    assert found(text) == set()


def test_a_result_that_no_one_uses_may_be_overwritten() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+16
  inputs %0
  outputs %2
  chain
    aten::exp.out(%0, %1, %1)
    aten::sin.out(%0, %2, %2)
"""
    assert found(text) == set()


def test_tensors_of_size_zero_meet_nobody() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[0] @ 1+4
  %2 = tensor f32[0] @ 1+4
  inputs %0
  outputs %0 %1
  chain
    aten::exp.out(%1, %2, %2)
    aten::relu.out(%2, %1, %1)
"""
    assert found(text) == set()


def test_constants_and_numbers_may_be_outputs() -> None:
    text = """
  %0 = tensor f32[4] const 7
  %1 = tensor f32[4] const 7
  inputs
  outputs %0 %1 %91 %93
  chain
"""
    assert found(text) == set()


def test_a_dead_input_may_be_staged_over() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+8
  %2 = tensor f32[4] @ 1+32
  inputs %0 %1
  outputs %2
  chain
    aten::exp.out(%1, %2, %2)
"""
    assert found(text) == set()


def test_staging_overwrites_an_earlier_input_that_is_read() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+8
  %2 = tensor f32[4] @ 1+32
  inputs %0 %1
  outputs %2
  chain
    aten::exp.out(%0, %2, %2)
"""
    assert found(text) == {("clobbered", 0, 0)}


def test_buffers_of_the_caller_overlap_nothing() -> None:
    text = """
  %0 = tensor f32[4]
  %1 = tensor f32[4]
  %2 = tensor f32[4] @ 1+0
  inputs %0
  outputs %1
  chain
    aten::exp.out(%0, %2, %2)
    aten::sin.out(%0, %1, %1)
    aten::add.out(%1, %2, %91, %1, %1)
"""
    assert found(text) == set()


# --- inside one instruction -------------------------------------------------------------------------------------------

ONE = """
  %0 = tensor {operand} @ 1+0
  %1 = tensor {result} @ 1+{offset}
  %2 = tensor f32[4] @ 1+64
  inputs %0 %2
  outputs %1
  chain
    {call}
"""


@pytest.mark.parametrize(
    ("operand", "result", "offset", "call", "overlaps"),
    [
        ("f32[4]", "f32[4]", 0, "aten::exp.out(%0, %1, %1)", False),
        ("f32[4]", "f32[4]", 4, "aten::exp.out(%0, %1, %1)", True),
        ("f32[4]", "f32[4]", 16, "aten::exp.out(%0, %1, %1)", False),
        ("f32[4]", "f32[4]", 0, "aten::cumsum.out(%0, %90, %93, %1, %1)", True),
        ("f32[2,2]", "f32[2,2]", 0, "aten::mm.out(%0, %0, %1, %1)", True),
        ("f32[2,2]", "f32[2,2] layout 1,0", 0, "aten::neg.out(%0, %1, %1)", True),
        ("f32[4]", "f16[4]", 0, "dim_order_ops::_to_dim_order_copy.out(%0, %92, %93, %1, %1)", True),
        ("f32[1]", "f64[1]", 0, "dim_order_ops::_to_dim_order_copy.out(%0, %92, %93, %1, %1)", False),
        ("f32[1]", "f32[4]", 0, "aten::add.out(%0, %2, %91, %1, %1)", True),
        ("f32[4]", "f32[4]", 0, "aten::full_like.out(%0, %91, %93, %1, %1)", False),
        ("f32[4]", "f32[4]", 4, "aten::full_like.out(%0, %91, %93, %1, %1)", False),
        ("f32[4]", "f32[4]", 4, "aten::copy.out(%0, %2, %92, %1, %1)", False),
    ],
)
def test_a_kernel_may_write_over_an_operand_only_element_by_element(
    operand: str, result: str, offset: int, call: str, overlaps: bool
) -> None:
    text = ONE.format(operand=operand, result=result, offset=offset, call=call)
    assert found(text) == ({("operand-overlap", 0, 0)} if overlaps else set())


@pytest.mark.parametrize(
    ("call", "overlaps"),
    [
        ("aten::sum.IntList_out(%0, %93, %92, %93, %1, %1)", False),
        ("aten::gt.Scalar_out(%0, %90, %2, %2)", False),
        ("aten::add.out(%0, %3, %91, %1, %1)", False),
        ("aten::dot.out(%0, %4, %1, %1)", True),
        ("aten::native_layer_norm.out(%0, %93, %93, %93, %93, %1, %5, %6, %7)", True),
        ("delegate 0 (%0 -> %1)", True),
    ],
)
def test_one_element_may_be_overwritten_by_the_one_result_that_it_gives(call: str, overlaps: bool) -> None:
    # A kernel with other data, or more results, may read its operand again after it has begun to write.
    text = f"""
  delegate 0 Backend
  %0 = tensor f32[1] @ 1+0
  %1 = tensor f32[1] @ 1+2
  %2 = tensor bool[1] @ 1+3
  %3 = tensor f32[1] @ 1+16
  %4 = tensor f32[4] @ 1+32
  %5 = tensor f32[1] @ 1+48
  %6 = tensor f32[1] @ 1+52
  %7 = tensors %1 %5 %6
  inputs %0 %3 %4
  outputs
  chain
    {call}
"""
    assert found(text) == ({("operand-overlap", 0, 0)} if overlaps else set())


@pytest.mark.parametrize(("offset", "overlaps"), [(32, True), (36, True), (40, False)])
def test_results_of_one_kernel_must_not_overlap(offset: int, overlaps: bool) -> None:
    text = f"""
  %0 = tensor f32[2,2] @ 1+0
  %1 = tensor f32[2] @ 1+32
  %2 = tensor i64[2] @ 1+{offset}
  %3 = tensors %1 %2
  inputs %0
  outputs
  chain
    aten::max.dim_max(%0, %91, %92, %1, %2, %3)
"""
    assert found(text) == ({("output-overlap", 0, 2)} if overlaps else set())


def test_a_list_of_results_is_written_item_by_item() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[2] @ 1+16
  %2 = tensor f32[2] @ 1+24
  %3 = ints 94 94
  %4 = tensors %1 %2
  %5 = tensors %1 %2
  %6 = tensor f32[4] @ 1+32
  %7 = tensor f32[1] @ 1+20
  inputs %0
  outputs %6
  chain
    aten::split_with_sizes_copy.out(%0, %3, %90, %4, %5)
    aten::full.out(%3, %91, %7, %7)
    aten::cat.out(%4, %90, %6, %6)
"""
    assert found(text) == {("clobbered", 2, 1)}


def test_in_place_kernels_keep_their_own_self() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+16
  %2 = tensor f32[1] @ 1+24
  %3 = optional-tensors %1
  inputs %0 %1 %2
  outputs %0
  chain
    aten::relu_(%0, %0)
    aten::index_put_(%0, %3, %2, %92, %0)
    aten::add_.Tensor(%0, %0, %91, %0)
"""
    assert found(text) == set()


def test_an_in_place_kernel_reads_its_self() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+28
  inputs %0
  outputs
  chain
    0  aten::exp.out(%0, %1, %1)
    1  aten::sin.out(%0, %2, %2)
    2  aten::relu_(%1, %1)
"""
    assert found(text) == {("clobbered", 2, 1)}


def test_a_copy_onto_itself_leaves_the_source_as_it_is() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+{offset} init 1
  inputs %0
  outputs %0 %1
  chain
    aten::copy_(%1, %0, %92, %1)
"""
    assert found(text.format(offset=0)) == set()
    assert found(text.format(offset=4)) == {("operand-overlap", 0, 0), ("clobbered", None, 0)}


def test_index_put_must_not_take_its_values_from_itself() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[4] @ 1+16
  %3 = optional-tensors %1
  inputs %0 %1
  outputs %0
  chain
    aten::index_put_(%0, %3, %0, %92, %0)
"""
    assert found(text) == {("operand-overlap", 0, 0)}


def test_a_write_back_onto_its_own_bytes_is_fine() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0 init 1
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+0
  inputs %1
  outputs %1
  chain
    aten::add.out(%0, %1, %91, %2, %2)
    aten::copy_(%0, %2, %92, %0)
"""
    assert found(text) == set()


# --- partial writes ---------------------------------------------------------------------------------------------------

PARTIAL = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+32
  %2 = tensor f32[1] @ 1+40
  %3 = optional-tensors %1
  %4 = tensor f32[4] @ 1+64
  %5 = tensor f32[2] @ 1+{offset}
  inputs %0 %1 %2
  outputs %4
  chain
    0  aten::neg.out(%0, %0, %0)
    1  aten::exp.out(%2, %5, %5)
    2  aten::index_put_(%0, %3, %2, %92, %0)
    3  aten::sin.out(%{reader}, %4, %4)
"""


def test_a_partial_write_inherits_what_was_there() -> None:
    assert found(PARTIAL.format(offset=16, reader=0)) == set()
    observations = shadow(PARTIAL.format(offset=0, reader=0)).observations
    assert {(o.kind, o.role, o.instruction) for o in observations} == {
        ("clobbered", "update", 2),
        ("clobbered", "operand", 3),
    }


def test_what_a_partial_write_keeps_is_no_hazard_before_somebody_reads_it() -> None:
    result = shadow(PARTIAL.format(offset=0, reader=2))
    assert {(o.kind, o.role) for o in result.observations} == {("clobbered", "update")}
    assert result.hazards == []


def test_a_partial_write_may_hit_any_byte() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor i64[1] @ 1+32
  %2 = tensor f32[1] @ 1+40
  %3 = optional-tensors %1
  %4 = tensor f32[4] @ 1+64
  %5 = tensor f32[1] @ 1+12
  inputs %0 %1 %2 %5
  outputs %4
  chain
    aten::exp.out(%1, %0, %0)
    aten::exp.out(%2, %5, %5)
    aten::exp.out(%1, %0, %0)
    aten::index_put_(%0, %3, %2, %92, %0)
    aten::sin.out(%5, %4, %4)
"""
    assert found(text) == {("clobbered", 4, 5)}


def test_empty_means_nothing_and_writes_nothing() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+16
  %3 = ints 94 94
  inputs %0
  outputs %2 %0
  chain
    aten::empty.out(%3, %93, %1, %1)
    aten::exp.out(%1, %2, %2)
"""
    assert found(text) == set()


# --- moves ------------------------------------------------------------------------------------------------------------


def test_a_move_writes_no_byte_and_leaves_its_slots_own_bytes_free() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+32
  %4 = tensor f32[4] @ 1+48
  inputs %0
  outputs %4
  chain
    aten::exp.out(%0, %1, %1)
    aten::sin.out(%0, %3, %3)
    move %2 <- %1
    aten::add.out(%2, %3, %91, %4, %4)
"""
    assert found(text) == set()


def test_a_moved_result_lives_in_the_bytes_of_its_source() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+16
  inputs %0
  outputs %2
  chain
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
    aten::sin.out(%0, %3, %3)
"""
    assert found(text) == {("clobbered", None, 2)}


def test_a_move_takes_the_value_of_that_moment() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  inputs %0
  outputs %1 %2
  chain
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
    aten::sin.out(%0, %1, %1)
"""
    assert found(text) == {("clobbered", None, 2)}


def test_a_list_follows_the_moves_of_its_items() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensors %2 %0
  %4 = tensor f32[8] @ 1+64
  %5 = tensor f32[4] @ 1+16
  inputs %0
  outputs %4
  chain
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
    aten::sin.out(%0, %5, %5)
    aten::cat.out(%3, %90, %4, %4)
"""
    assert found(text) == {("clobbered", 3, 2)}


def test_a_slot_stays_moved_in_the_next_call() -> None:
    # In the second call nothing moves %2 before it is read, so it still refers to the bytes of %1.
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32 fqn "s"
  %3 = tensor f32[4] @ 1+48
  inputs %0
  outputs %3
  chain
    aten::add.out(%2, %0, %91, %3, %3)
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
"""
    observations = shadow(text).observations
    assert {(o.kind, o.call, o.instruction, o.low) for o in observations} == {("uninitialized-state", 1, 0, 32)}


# --- branches ---------------------------------------------------------------------------------------------------------


def two_conds(second: str, *, early: str = "") -> str:
    """Two conds whose results are returned; the temporaries of both lie at the start of the arena."""
    return f"""
  %0 = tensor f32[2] @ 1+64
  %1 = tensor f32[1] @ 1+96
  %2 = tensor bool[1] @ 1+112
  %3 = tensor bool[1] @ 1+128
  %4 = tensor bool[1] @ 1+144
  %5 = tensor f32[1] @ 1+192
  %10 = tensor f32[2] @ 1+160
  %11 = tensor f32[2] @ 1+0
  %12 = tensor f32[2] @ 1+8
  %20 = tensor f32[2] @ 1+168
  %21 = tensor f32[2] @ 1+8
  %22 = tensor f32[2] @ 1+0
  inputs %0 %1 %4 %5
  outputs %10 %20
  chain
     0  aten::gt.Scalar_out(%1, %90, %2, %2)
     1  {second}
     2  jump-false %2 -> 6
     3  aten::exp.out(%0, %11, %11)
     4  move %10 <- %11
     5  jump-false %92 -> 8
     6  aten::neg.out(%0, %12, %12)
     7  move %10 <- %12
     8  jump-false %3 -> 12
     9  aten::sin.out(%0, %21, %21)
    10  move %20 <- %21
    11  jump-false %92 -> 14
    12  aten::cos.out(%0, %22, %22)
    13  move %20 <- %22
"""


TRUE_FALSE = (True, False)
FALSE_TRUE = (False, True)


@pytest.mark.parametrize(
    ("second", "wrong"),
    [
        ("aten::gt.Scalar_out(%1, %90, %3, %3)", set()),
        ("aten::logical_not.out(%2, %3, %3)", {TRUE_FALSE, FALSE_TRUE}),
        ("aten::lt.Scalar_out(%1, %90, %3, %3)", {TRUE_FALSE, FALSE_TRUE}),  # also both false, and right then
        ("aten::gt.Scalar_out(%1, %91, %3, %3)", {TRUE_FALSE}),
        ("aten::ge.Scalar_out(%1, %90, %3, %3)", {FALSE_TRUE}),
        ("aten::gt.Scalar_out(%5, %90, %3, %3)", {TRUE_FALSE, FALSE_TRUE}),
        ("aten::logical_and.out(%2, %4, %3, %3)", {TRUE_FALSE}),
        ("aten::logical_or.out(%2, %4, %3, %3)", {FALSE_TRUE}),
        ("aten::logical_xor.out(%2, %4, %3, %3)", {TRUE_FALSE, FALSE_TRUE}),
        ("aten::alias_copy.out(%2, %3, %3)", set()),
    ],
)
def test_branches_that_cannot_go_together_are_not_run(second: str, wrong: set[tuple[bool, bool]]) -> None:
    # The results meet when one cond takes its first branch and the other its second.
    observations = shadow(two_conds(second), calls=1).observations
    assert {(o.kind, o.slot) for o in observations} == ({("clobbered", 10)} if wrong else set())
    assert {tuple(taken for _, _, _, taken in o.path) for o in observations} == wrong


def test_the_predicates_of_two_calls_are_unrelated() -> None:
    assert shadow(two_conds("aten::logical_not.out(%2, %3, %3)"), calls=1).paths == 2
    assert shadow(two_conds("aten::logical_not.out(%2, %3, %3)"), calls=2).paths == 4
    assert shadow(two_conds("aten::gt.Scalar_out(%5, %90, %3, %3)"), calls=2).paths == 16


def test_a_predicate_of_several_elements_and_its_negation_can_both_be_false() -> None:
    text = two_conds("aten::logical_not.out(%2, %3, %3)")
    for slot in (2, 3):
        text = text.replace(f"%{slot} = tensor bool[1]", f"%{slot} = tensor bool[2]")
    text = text.replace("%1 = tensor f32[1]", "%1 = tensor f32[2]")
    assert shadow(text, calls=1).paths == 4


def test_an_empty_predicate_is_true() -> None:
    text = two_conds("aten::logical_not.out(%2, %3, %3)").replace("%2 = tensor bool[1]", "%2 = tensor bool[0]")
    observations = shadow(text.replace("%1 = tensor f32[1]", "%1 = tensor f32[0]"), calls=1).observations
    assert {tuple(t for *_, t in o.path) for o in observations} == {(False,)}


def test_a_clobbered_predicate_says_nothing_about_the_second_branch() -> None:
    text = two_conds("aten::alias_copy.out(%2, %3, %3)").replace(
        "%11 = tensor f32[2] @ 1+0", "%11 = tensor f32[2] @ 1+128"
    )
    text = text.replace("%12 = tensor f32[2] @ 1+8", "%12 = tensor f32[2] @ 1+128")
    text = text.replace("%21 = tensor f32[2] @ 1+8", "%21 = tensor f32[2] @ 1+128")
    result = shadow(text, calls=1)
    assert result.paths == 4
    assert {(o.instruction, o.role, o.slot) for o in result.observations} == {(8, "predicate", 3), (None, "output", 10)}
    assert {tuple(t for *_, t in o.path) for o in result.observations if o.role == "output"} == {
        (True, True),
        (False, True),
    }


def test_a_clobbered_operand_of_a_predicate_leaves_what_the_others_say() -> None:
    # %3 = %2 and %4; when %4 is false, so is %3, whatever has become of %2.
    text = """
  %0 = tensor f32[2] @ 1+0
  %2 = tensor bool[1] @ 1+16
  %3 = tensor bool[1] @ 1+24
  %4 = tensor bool[1] @ 1+32
  %5 = tensor f32[2] @ 1+16
  %6 = tensor f32[2] @ 1+40
  inputs %0 %2 %4
  outputs %6
  chain
     0  aten::exp.out(%0, %5, %5)
     1  aten::logical_and.out(%2, %4, %3, %3)
     2  aten::exp.out(%0, %6, %6)
     3  jump-false %4 -> 5
     4  jump-false %2 -> 5
     5  jump-false %3 -> 7
     6  aten::sin.out(%0, %6, %6)
"""
    result = shadow(text, calls=1)
    assert {(o.instruction, o.slot) for o in result.observations} == {(1, 2), (4, 2)}
    assert result.paths == 5  # false, any, false; or true, any, any


def test_a_result_that_is_unused_on_a_path_may_be_overwritten_there() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor bool[1] @ 1+8
  %2 = tensor f32[2] @ 1+16
  %3 = tensor f32[2] @ 1+16
  %4 = tensor f32[2] @ 1+32
  inputs %0 %1
  outputs %4
  chain
     0  aten::exp.out(%0, %2, %2)
     1  jump-false %1 -> 5
     2  aten::sin.out(%0, %3, %3)
     3  aten::neg.out(%3, %4, %4)
     4  jump-false %92 -> 6
     5  aten::neg.out(%2, %4, %4)
"""
    assert found(text) == set()


# --- loops ------------------------------------------------------------------------------------------------------------

MAP = """
  %0 = tensor f32[3,2] @ 1+64
  %1 = tensor f32[3,2] @ 1+96 dynamic
  %2 = int 0
  %3 = int 0
  %4 = tensor f32[2] @ 1+0
  %5 = tensor f32[2] @ 1+{body}
  %6 = bool false
  %7 = tensor f32[2] @ 1+128
  inputs %0 %7
  outputs %1 %7
  chain
     0  aten::sym_size.int(%0, %90, %3)
     1  aten::select_copy.int_out(%0, %90, %2, %4, %4)
     2  aten::exp.out(%4, %5, %5)
     3  executorch_prim::et_copy_index.tensor(%1, %5, %2)
     4  executorch_prim::add.Scalar(%2, %91, %2)
     5  executorch_prim::eq.Scalar(%2, %3, %6)
     6  jump-false %6 -> 1
     7  executorch_prim::sub.Scalar(%2, %3, %2)
"""


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (8, set()),
        (64, {("clobbered", 1, 0)}),  # the next iteration still reads the operand
        (96, {("clobbered", None, 1)}),  # row 0 is overwritten by the body of iteration 1
        (104, {("clobbered", None, 1)}),
        (112, set()),  # in the last iteration, the row is written after the body's own use of its bytes
        (128, {("clobbered", None, 7)}),
    ],
)
def test_a_counted_loop_runs_all_its_iterations(body: int, kinds: set[tuple[str, int | None, int]]) -> None:
    result = shadow(MAP.format(body=body))
    assert result.paths == 1
    assert {(o.kind, o.instruction, o.slot) for o in result.observations} == kinds


def test_a_loop_that_tests_at_its_end_runs_its_body_once_at_least() -> None:
    # %3 is defined in the body only.
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor bool[1] @ 1+16
  %3 = tensor f32[2] @ 1+32
  inputs %0 %1
  outputs %3
  chain
     0  aten::exp.out(%0, %3, %3)
     1  jump-false %1 -> 0
"""
    result = shadow(text)
    assert result.observations == []


def test_an_unknown_trip_count_is_bounded_and_said_to_be() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor bool[1] @ 1+16
  %3 = tensor f32[2] @ 1+32
  %8 = ints 94
  inputs %0
  outputs %3
  chain
     0  aten::randn.out(%8, %0, %0)
     1  aten::any.out(%0, %1, %1)
     2  aten::exp.out(%0, %3, %3)
     3  jump-false %1 -> 0
"""
    result = shadow(text, calls=1, loop_limit=3)
    assert (result.paths, result.exhausted) == (4, True)


def test_the_first_row_begins_the_value_anew() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[3,2] @ 1+64 dynamic
  %2 = tensor f32[2] @ 1+72
  inputs %0
  outputs %1
  chain
     0  executorch_prim::et_copy_index.tensor(%1, %0, %90)
     1  executorch_prim::et_copy_index.tensor(%1, %0, %91)
     2  aten::exp.out(%0, %2, %2)
     {last}
"""
    again = "3  executorch_prim::et_copy_index.tensor(%1, %0, %90)"
    assert found(text.format(last="")) == {("clobbered", None, 1)}
    assert found(text.format(last=again)) == set()


def test_a_scan_carry_that_is_copied_is_right() -> None:
    text = """
  %0 = tensor f32[3,2] @ 1+64
  %1 = tensor f32[2] @ 1+96
  %2 = tensor f32[2] @ 1+0
  %3 = tensor f32[2] @ 1+8
  %4 = int 0
  %5 = int 0
  %6 = bool false
  %7 = tensor f32[2] @ 1+104
  inputs %0 %7
  outputs %1
  chain
     0  aten::sym_size.int(%0, %90, %5)
     1  aten::copy_(%1, %7, %92, %1)
     2  aten::select_copy.int_out(%0, %90, %4, %2, %2)
     3  aten::add.out(%1, %2, %91, %3, %3)
     4  aten::copy_(%1, %3, %92, %1)
     5  executorch_prim::add.Scalar(%4, %91, %4)
     6  executorch_prim::eq.Scalar(%4, %5, %6)
     7  jump-false %6 -> 2
     8  executorch_prim::sub.Scalar(%4, %5, %4)
"""
    assert found(text) == set()


# --- state ------------------------------------------------------------------------------------------------------------

STATE = """
  %0 = tensor f32[2] @ 1+0 {init}
  %1 = tensor f32[2] @ 1+16
  %2 = tensor f32[2] @ 1+32
  %3 = tensor f32[2] @ 1+{temporary}
  inputs %1
  outputs %2
  chain
    0  aten::add.out(%0, %1, %91, %2, %2)
    1  aten::copy_(%0, %2, %92, %0)
    2  aten::exp.out(%1, %3, %3)
"""


def test_state_is_carried_to_the_next_call() -> None:
    assert found(STATE.format(init="init 1", temporary=48)) == set()


def test_state_that_something_overwrites_is_wrong_in_the_next_call_only() -> None:
    (o,) = shadow(STATE.format(init="init 1", temporary=4)).observations
    assert (o.kind, o.call, o.instruction, o.slot, o.low, o.high) == ("clobbered", 2, 0, 0, 4, 8)
    assert shadow(STATE.format(init="init 1", temporary=4), calls=1).observations == []


def test_state_without_initial_contents_is_noted_and_no_hazard() -> None:
    result = shadow(STATE.format(init="", temporary=48))
    assert {(o.kind, o.call, o.instruction) for o in result.observations} == {("uninitialized-state", 1, 0)}
    assert result.hazards == []


def test_a_copy_into_something_never_read_before_reads_nothing() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16
  inputs %1
  outputs %0
  chain
    aten::copy_(%0, %1, %92, %0)
"""
    assert found(text) == set()


VIEW_OF_STATE = """
  %0 = tensor f32[4] @ 1+0 init 1
  %1 = tensor f32[2,2] @ 1+0 init 1
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[2,2] @ 1+32
  inputs %2
  outputs {outputs}
  chain
    0  aten::neg.out(%1, %3, %3)
    1  aten::copy_(%0, %2, %92, %0)
"""


def test_a_view_of_a_state_that_is_read_before_the_write_back_is_right() -> None:
    assert found(VIEW_OF_STATE.format(outputs="%3")) == set()


def test_a_view_that_was_read_before_the_write_back_is_stale_after_it() -> None:
    assert found(VIEW_OF_STATE.format(outputs="%3 %1")) == {("clobbered", None, 1)}


def test_both_branches_may_write_the_same_state() -> None:
    text = """
  %0 = tensor f32[2] @ 1+0 init 1
  %1 = tensor f32[2] @ 1+16
  %2 = tensor bool[1] @ 1+32
  %3 = tensor f32[2] @ 1+48
  %4 = tensor f32[2] @ 1+48
  inputs %1 %2
  outputs %0
  chain
     0  jump-false %2 -> 4
     1  aten::exp.out(%1, %3, %3)
     2  aten::copy_(%0, %3, %92, %0)
     3  jump-false %92 -> 6
     4  aten::sin.out(%1, %4, %4)
     5  aten::copy_(%0, %4, %92, %0)
"""
    assert found(text) == set()


# --- views without an instruction -------------------------------------------------------------------------------------


def test_a_view_whose_base_stays_is_right() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[2,2] @ 1+0
  %2 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %2
  chain
    aten::exp.out(%1, %2, %2)
"""
    assert found(text) == set()


def test_a_view_of_bytes_that_nobody_writes_is_unwritten() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[2,2] @ 1+32
  %4 = tensor f32[2,2] @ 1+48
  inputs %0
  outputs %4
  chain
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
    aten::neg.out(%3, %4, %4)
"""
    assert found(text) == {("unwritten", 2, 3)}


def test_a_view_that_is_read_again_must_see_the_same() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[2,2] @ 1+0
  %2 = tensor f32[2,2] @ 1+32
  %3 = tensor f32[2] @ 1+8
  inputs %0
  outputs %2 %1
  chain
    aten::exp.out(%1, %2, %2)
    aten::sin.out(%2, %3, %3)
"""
    assert found(text) == {("clobbered", None, 1)}


def test_a_view_of_something_of_another_size_has_lost_its_base() -> None:
    text = """
  %0 = tensor f32[8] @ 1+0
  %1 = tensor f32[2,2] @ 1+0
  %2 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %2
  chain
    aten::exp.out(%1, %2, %2)
"""
    assert found(text) == {("foreign-view", 0, 1)}


def test_an_alias_gives_a_view_its_meaning() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+16
  %3 = tensor f32[4] @ 1+16
  inputs %0
  outputs %2
  chain
    aten::exp.out(%0, %1, %1)
    alias %2 <- %1
    {last}
"""
    assert found(text.format(last="")) == set()
    assert found(text.format(last="aten::sin.out(%0, %3, %3)")) == {("clobbered", None, 2)}


def test_an_alias_reads_the_bytes_of_its_own_slot() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %2
  chain
    aten::exp.out(%0, %1, %1)
    alias %2 <- %1
"""
    assert found(text) == {("clobbered", None, 2)}


def test_a_run_time_view_follows_its_source() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[2,2]
  %4 = ints 94 94
  %5 = tensor f32[4] @ 1+16
  inputs %0
  outputs %3
  chain
    aten::exp.out(%0, %1, %1)
    move %2 <- %1
    executorch_prim::et_view.default(%2, %4, %3)
    {last}
"""
    assert found(text.format(last="")) == set()
    assert found(text.format(last="aten::sin.out(%0, %5, %5)")) == {("clobbered", None, 3)}


# --- the rest of the rules --------------------------------------------------------------------------------------------


def test_memory_that_was_given_back_is_gone_through_moved_names_as_well() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] unbound
  %2 = tensor f32[4] unbound
  inputs %0
  outputs %0
  chain
    0  aten::exp.out(%0, %1, %1)
    1  move %2 <- %1
    2  free %1
    3  aten::exp.out(%2, %0, %0)
"""
    assert found(text) == {("freed", 3, 2)}


def test_a_written_constant_is_wrong_for_its_other_names_and_later_calls() -> None:
    text = """
  %0 = tensor f32[4] const 3
  %1 = tensor f32[4] const 3
  %2 = tensor f32[4] @ 1+0
  inputs %2
  outputs %2 %1
  chain
    0  aten::add.out(%0, %2, %91, %2, %2)
    1  aten::copy_(%0, %2, %92, %0)
"""
    observations = shadow(text).observations
    assert {(o.kind, o.call, o.instruction, o.slot) for o in observations} == {
        ("written-constant", 1, 1, 0),
        ("clobbered", 1, None, 1),
        ("clobbered", 2, 0, 0),
    }


def test_bytes_beyond_the_arena() -> None:
    text = """
  %0 = tensor f32[4] @ 1+240
  %1 = tensor f32[4] @ 1+244
  inputs %0
  outputs
  chain
    aten::exp.out(%0, %1, %1)
"""
    assert ("outside-arena", 0, 1) in found(text)
    assert not any(o[0] == "outside-arena" and o[2] == 0 for o in found(text))


def test_a_delegate_reads_and_writes_as_declared() -> None:
    text = """
  delegate 0 Backend
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+64
  %3 = tensor f32[4] @ 1+{offset}
  inputs %0
  outputs %2
  chain
    0  aten::exp.out(%0, %1, %1)
    1  aten::sin.out(%0, %3, %3)
    2  delegate 0 (%1, %3 {arrow} %2)
"""
    for arrow in ("->", ","):
        assert found(text.format(offset=48, arrow=arrow)) == set()
        assert found(text.format(offset=24, arrow=arrow)) == {("clobbered", 2, 1)}
        assert found(text.format(offset=76, arrow=arrow)) == {("operand-overlap", 2, 3)}


def test_working_memory_of_a_custom_operator_is_no_view() -> None:
    text = """
  %0 = tensor f32[4] @ 1+0
  %1 = tensor u8[8] @ 1+16
  %2 = tensor f32[4] @ 1+32
  inputs %0
  outputs %2
  chain
    custom::pool.out(%0, %1, %2, %2)
"""
    result = shadow(text)
    assert {o.kind for o in result.observations} == {"scratch"}
    assert result.hazards == []


# --- the parts --------------------------------------------------------------------------------------------------------


def test_bytes_agree_with_a_plain_list() -> None:
    rng = random.Random(2)
    for _ in range(200):
        memory, plain = Bytes(FILL), [FILL] * 24
        for n in range(12):
            low, high = sorted(rng.choices(range(25), k=2))
            tag = Write("instruction", 1, 0, n)
            memory.write(low, high, tag)
            plain[low:high] = [tag] * (high - low)
            a, b = sorted(rng.choices(range(25), k=2))
            seen = [tag for x, y, tag in memory.read(a, b) for _ in range(x, y)]
            assert seen == plain[a:b]


def test_what_partial_writes_kept_has_to_agree_too() -> None:
    old, other = Write("instruction", 1, 0, 1), Write("instruction", 1, 0, 2)
    update = Write("instruction", 1, 0, 3, kept=old)
    assert agree(update, Write("instruction", 1, 0, 3, kept=old))
    assert not agree(update, Write("instruction", 1, 0, 3, kept=other))
    assert not agree(update, Write("instruction", 1, 0, 3))
    assert not agree(old, update)
    assert agree(Write("instruction", 1, 0, 3, kept=Write("undefined")), update)


@pytest.mark.parametrize(
    ("first", "second", "ordered", "together"),
    [
        (("lt", 2), ("gt", 2), False, {(True, False), (False, True), (False, False)}),
        (("lt", 2), ("ge", 2), True, {(True, False), (False, True)}),
        (("lt", 2), ("ge", 2), False, {(True, False), (False, True), (False, False)}),  # NaN is neither
        (("gt", 2), ("lt", 3), True, {(True, False), (False, True)}),  # no integer between
        (("gt", 2), ("lt", 3), False, {(True, True), (True, False), (False, True), (False, False)}),
        (("eq", 2), ("eq", 3), True, {(True, False), (False, True), (False, False)}),
        (("ne", 2), ("eq", 2), False, {(True, False), (False, True)}),
        (("gt", 1), ("gt", 5), True, {(True, True), (True, False), (False, False)}),
    ],
)
def test_comparisons_with_constants_decide_each_other(
    first: tuple[str, int], second: tuple[str, int], ordered: bool, together: set[tuple[bool, bool]]
) -> None:
    terms = Terms()
    x = terms.number("x")
    a, b = (terms.compare(n, x, terms.constant(c), ordered, (False, False)) for n, c in (first, second))
    both = [(p, q) for p in (True, False) for q in (True, False)]
    assert {(p, q) for p, q in both if terms.possible([(a, p), (b, q)])} == together


def test_comparisons_of_two_values_share_one_relation() -> None:
    terms = Terms()
    x, y = terms.number("x"), terms.number("y")
    less = terms.compare("lt", x, y, False, (False, False))
    more = terms.compare("lt", y, x, False, (False, False))
    not_less = terms.compare("ge", x, y, True, (False, False))
    assert terms.compare("gt", x, y, False, (False, False)) == more
    assert not terms.possible([(less, True), (more, True)])
    assert terms.possible([(less, False), (more, False)])
    assert not terms.possible([(less, False), (not_less, False)])


# --- real programs ----------------------------------------------------------------------------------------------------

#: Kinds of fault that the bytecode of one method shows. The others need the graph, a second method, or the host.
VISIBLE_KINDS = {"A", "A2", "B", "B2", "E1+E5", "E3", "E4", "E5", "E6", "I", "J"}
INVISIBLE = {
    "h06_cond_view_parent_slot_shares_live": "a dead tensor of the view's own place and size has written the bytes",
}
RIGHT_BY_LUCK = {
    "e03e_custom_storage_offset_unaligned": "the slice is copied over its base in an order that happens to be right",
    "e03f_custom_storage_partial_overlap": "1.4.1 plans the slice over the half of its base that nobody reads",
    "e08_cond_output_into_state_with_second_cond": "the state is wrong, and nobody reads it",
    "n04_reinplace_into_copy_of_input_view": "what is updated in place is no state but a view of the input",
    "n05_reinplace_puts_own_values": "what is updated in place is no state but a view of a copy",
}


def observed(path: Path) -> bool:
    results = [run(method) for method in load(path).methods]
    assert not any(r.exhausted for r in results)
    return any(r.hazards for r in results)


@pytest.mark.parametrize("release", cases.RELEASES)
def test_what_the_runtime_computed_wrong_is_observed(release: str) -> None:
    wrong = {c.name: p for c, p in cases.programs(release) if c.outcome(release)["outcome"] == "MISMATCH"}
    visible = {n: p for n, p in wrong.items() if cases.Case(n).kind in VISIBLE_KINDS}
    assert len(visible) >= 55
    assert {n for n, p in visible.items() if not observed(p)} == set(INVISIBLE)


@pytest.mark.parametrize("release", cases.RELEASES)
def test_what_the_runtime_computed_right_is_clean(release: str) -> None:
    right = {c.name: p for c, p in cases.programs(release) if c.outcome(release)["outcome"] == "match"}
    assert len(right) >= 70
    assert {n for n, p in right.items() if observed(p)} == RIGHT_BY_LUCK.keys() & right.keys()


# --- random programs --------------------------------------------------------------------------------------------------

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@few
@given(programs("safe"))
def test_where_all_bytes_are_disjoint_nothing_is_wrong(sample: Sample) -> None:
    assert run(sample.method).hazards == []


@few
@given(programs("moved"))
def test_one_tensor_moved_onto_a_live_value_is_seen(sample: Sample) -> None:
    assert "clobbered" in run(sample.method).kinds()


@pytest.mark.parametrize("seed", range(60))
def test_both_by_seed(seed: int) -> None:
    assert run(random_program(seed, "safe").method).hazards == []
    assert "clobbered" in run(random_program(seed, "moved").method).kinds()


@pytest.mark.parametrize("plan", PLANS)
def test_a_seed_gives_the_same_program_and_its_text_is_valid(plan: str) -> None:
    for seed in range(25):
        program = random_program(seed, plan).program
        assert random_program(seed, plan).program == program
        assert parse_program(print_program(program)) == program


def test_random_plans_are_neither_all_right_nor_all_wrong() -> None:
    for plan in ("layered", "tight"):
        wrong = sum(bool(run(random_program(seed, plan).method, calls=1).hazards) for seed in range(60))
        assert 5 <= wrong < 60
