"""Sizes that are expressions: overlaps at some sizes only, predicates on sizes, and the smallest witness."""

from __future__ import annotations

from typing import Any

import pytest

import hazard
from hazard.analysis.sizes import compute, parsed
from hazard.analysis.solver import smallest_sizes
from hazard.text import parse_program, print_program

#: Two tensors of up to ten floats, 16 bytes apart: they meet when there are more than four.
APART = """\
method forward
  meaning graph
  symbol s0 {range}
  arena 1 : 256
  %0 = tensor f32[10] @ 1+128 dynamic extent "4*s0"
  %1 = tensor f32[10] @ 1+0 dynamic extent {extent}
  %2 = tensor f32[10] @ 1+16 dynamic extent "4*s0"
  %3 = tensor f32[10] @ 1+64 dynamic extent "4*s0"
  %4 = int 0
  %5 = int 0 size "s0"
  %6 = int 4
  %7 = int 0 size "s0 > 4"
  %8 = bool false
  inputs %0
  outputs %3
  chain
    0  aten::sym_size.int(%0, %4, %5)
    1  executorch_prim::gt.Scalar(%5, %6, %7)
    2  aten::sin.out(%0, %1, %1)
    3  aten::cos.out(%0, %2, %2)
"""
READ = "    4  aten::exp.out(%1, %3, %3)\n"
READ_IF_LARGE = """\
    4  jump-false %7 -> 7
    5  aten::exp.out(%1, %3, %3)
    6  jump-false %8 -> 8
    7  aten::exp.out(%2, %3, %3)
"""
READ_IF_SMALL = """\
    4  jump-false %7 -> 7
    5  aten::exp.out(%2, %3, %3)
    6  jump-false %8 -> 8
    7  aten::exp.out(%1, %3, %3)
"""


def checked(code: str, span: str = "2..10", extent: str = '"4*s0"') -> Any:
    return hazard.check(parse_program(APART.format(range=span, extent=extent) + code))


def test_the_smallest_sizes_show_the_fault() -> None:
    (finding,) = checked(READ).findings
    assert (finding.code, finding.severity, finding.certainty) == ("HZ103", "error", "certain")
    assert finding.witness.sizes == (("s0", 5),)


def test_sizes_in_range_never_meet() -> None:
    assert checked(READ, "2..4").verdict == "proved"


def test_without_an_upper_bound_the_memory_is_the_bound() -> None:
    (finding,) = checked(READ, "2..").findings
    assert finding.witness.sizes == (("s0", 5),)
    assert checked(READ, "11..").verdict == "proved"  # no input of that size has room


def test_a_predicate_on_sizes_is_about_the_same_sizes() -> None:
    assert checked(READ_IF_SMALL).verdict == "proved"
    (finding,) = checked(READ_IF_LARGE).findings
    assert finding.certainty == "certain"
    assert finding.witness.sizes == (("s0", 5),)


def test_what_is_not_understood_is_possible() -> None:
    (finding,) = checked(READ, extent='"mystery(s0)"').findings
    assert (finding.severity, finding.certainty) == ("warning", "possible")
    assert finding.witness.sizes == ()
    (finding,) = checked(READ, extent='"4*s1"').findings  # a symbol without a range
    assert finding.certainty == "possible"


def test_branches_on_sizes_exclude_each_other() -> None:
    text = """\
method forward
  meaning graph
  symbol s0 2..10
  arena 1 : 64
  %0 = tensor f32[4] @ 1+48
  %1 = tensor f32[4] @ 1+0
  %2 = tensor f32[4] @ 1+0
  %3 = tensor f32[4] @ 1+32
  %4 = int 0 size "s0 > {first}"
  %5 = int 0 size "2*s0 {second}"
  %6 = tensor f32[10] dynamic extent "4*s0"
  %7 = int 0
  %8 = int 0 size "s0"
  %9 = tensor f32[4] @ 1+16
  inputs %0 %6
  outputs %3
  chain
    0  aten::sym_size.int(%6, %7, %8)
    1  executorch_prim::gt.Scalar(%8, %7, %4)
    2  executorch_prim::gt.Scalar(%8, %7, %5)
    3  aten::sin.out(%0, %1, %1)
    4  aten::cos.out(%0, %3, %3)
    5  jump-false %4 -> 7
    6  aten::cos.out(%0, %2, %2)
    7  jump-false %5 -> 9
    8  aten::exp.out(%1, %3, %3)
"""
    assert hazard.check(parse_program(text.format(first=6, second="< 13"))).verdict == "proved"
    assert hazard.check(parse_program(text.format(first=6, second="< 15"))).verdict == "hazard"
    assert hazard.check(parse_program(text.format(first=9, second="< 21"))).verdict == "hazard"
    assert hazard.check(parse_program(text.format(first=10, second="< 99"))).verdict == "proved"  # never so large


def test_text_keeps_sizes() -> None:
    program = parse_program(APART.format(range="2..10", extent='"4*s0"') + READ)
    assert parse_program(print_program(program)) == program


@pytest.mark.parametrize(
    ("text", "sizes", "value"),
    [
        ("4*s0*s1 + 8", {"s0": 3, "s1": 2}, 32),
        ("s0//3 - 1", {"s0": 8}, 1),
        ("FloorDiv(s0, 3)", {"s0": 8}, 2),
        ("Mod(s0, 3) + s0 % 2", {"s0": 8}, 2),
        ("Max(1, s0, s1)", {"s0": 3, "s1": 7}, 7),
        ("Min(s0, 4)", {"s0": 3}, 3),
        ("s0**2", {"s0": 3}, 9),
        ("-s0 + 5", {"s0": 3}, 2),
        ("Eq(s0, 3) & (s1 < 4)", {"s0": 3, "s1": 3}, True),
        ("~(s0 >= 3) | Ne(s0, 3)", {"s0": 3}, False),
    ],
)
def test_expressions_mean_the_same_to_python_and_to_z3(text: str, sizes: dict[str, int], value: int | bool) -> None:
    expression = parsed(text)
    assert expression is not None
    assert expression.symbols == set(sizes)
    assert expression.truth is isinstance(value, bool)
    assert compute(expression, sizes) == value
    ranges = {name: (size, size) for name, size in sizes.items()}
    if expression.truth:
        assert smallest_sizes(ranges, [], [], [(expression, bool(value))]) == tuple(sorted(sizes.items()))
        assert smallest_sizes(ranges, [], [], [(expression, not value)]) is None
    else:
        assert smallest_sizes(ranges, [(expression, value - 1)], [(expression, value)], []) is not None
        assert smallest_sizes(ranges, [(expression, value)], [], []) is None


@pytest.mark.parametrize("text", ["", "s0 +", "import os", "f(s0)", "s0.real", "s0[0]", "'a'", "2**s0", "1 < s0 < 3"])
def test_other_texts_are_no_expressions(text: str) -> None:
    assert parsed(text) is None


def test_sizes_of_a_real_export() -> None:
    import torch
    from executorch.exir import to_edge

    class Model(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            n = x.shape[0]
            a = torch.cond(n > 3, lambda v: v + 1, lambda v: v - 1, (x,))
            b = torch.cond(n * 2 + 1 > 9, lambda v: v * 2, lambda v: v * 3, (x,))
            return a + b, torch.cat([x, y]) * 2

    sizes = {"x": {0: torch.export.Dim("n", min=2, max=10)}, "y": {0: torch.export.Dim("m", min=3, max=7)}}
    exported = torch.export.export(Model(), (torch.ones(5), torch.ones(4)), dynamic_shapes=sizes)
    report = hazard.check(to_edge(exported))
    (method,) = report.programs[0].program.methods
    assert sorted(span[1:] for span in method.symbols) == [(2, 10), (3, 7)]
    (x, *_), (m, *_) = ([n for n, low, _ in method.symbols if low == k] for k in (2, 3))
    extents = {v.name: v.extent.expression for v in method.values if getattr(v, "extent", None)}
    assert extents["x"] == f"4*{x}"
    assert set(extents["aten_cat_default"].replace("4*", "").split(" + ")) == {x, m}
    (finding,) = (f for f in report.findings if f.severity != "note")
    assert (finding.code, finding.certainty) == ("HZ101", "certain")
    taken = tuple(d.held for d in finding.witness.decisions)
    least = {(True, True): 5, (True, False): 4, (False, False): 2}
    assert finding.witness.sizes == ((x, least[taken]),)
