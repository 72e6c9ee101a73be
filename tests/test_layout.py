"""`hazard layout`: what lives where, for how long, and how full the arenas get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hazard.cli import main
from hazard.frontends import load
from hazard.report.layout import Entry, Layout, MethodLayout, as_object, layout_of, render_json, render_text
from hazard.text import parse_program

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "corpus").glob("*/1.5.1.pte"))

TWO = """
method set
  arena 1 : 64
  arena 2 : 16
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 2+0 fqn "cache"
  inputs %0
  outputs
  chain
    0  aten::copy_(%1, %0, %4, %1)
method get
  arena 1 : 64
  arena 2 : 16
  %1 = tensor f32[4] @ 2+0 fqn "cache"
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[4] @ 1+32
  inputs
  outputs %3
  chain
    0  aten::sin.out(%1, %2, %2)
    1  aten::cos.out(%2, %3, %3)
"""

CHOICE = """
method forward
  arena 1 : 128
  %0 = tensor bool[] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  %3 = tensor f32[4] @ 1+48
  %4 = tensor f32[4] @ 1+64
  %5 = bool false
  inputs %0 %1
  outputs %4
  chain
    0  jump-false %0 -> 4
    1  aten::sin.out(%1, %2, %2)
    2  move %4 <- %2
    3  jump-false %5 -> 6
    4  aten::cos.out(%1, %3, %3)
    5  move %4 <- %3
"""


def layout(text: str, **options: bool) -> Layout:
    return layout_of(parse_program(text), path="example.hir", **options)


def entries(method: MethodLayout, role: str) -> dict[int, Entry]:
    return {e.slot: e for e in method.entries if e.role == role}


def test_state_says_who_shares_it() -> None:
    first, second = layout(TWO).methods
    state = entries(first, "state")[1]
    assert (state.arena, state.offset, state.nbytes, state.name) == (2, 0, 16, "cache")
    assert state.always
    assert state.shared == ("get",)
    assert entries(second, "state")[1].shared == ("set",)


def test_state_at_another_offset_is_not_shared() -> None:
    before, after = TWO.split("method get")
    first, _ = layout(f"{before}method get{after.replace('@ 2+0', '@ 2+16')}").methods
    assert entries(first, "state")[1].shared == ()


def test_live_ranges_count_instructions() -> None:
    first, second = layout(TWO).methods
    staged = entries(first, "input")[0]
    assert (staged.first, staged.last) == (-1, 0)
    output = entries(second, "output")[3]
    assert (output.first, output.last) == (1, 2)
    assert not [e for e in second.entries if e.role == "temporary"]


def test_all_lists_temporaries() -> None:
    _, second = layout(TWO, all=True).methods
    temporary = entries(second, "temporary")[2]
    assert (temporary.first, temporary.last) == (0, 1)


def test_how_full_an_arena_gets() -> None:
    _, second = layout(TWO).methods
    arena, shared = second.arenas
    assert (arena.id, arena.planned, arena.used, arena.needed, arena.peak) == (1, 64, 48, 32, 1)
    assert [e.slot for e in arena.live] == [2, 3]
    # State alone: there is no moment at which more is live than at any other.
    assert (shared.id, shared.needed, shared.peak) == (2, 16, None)


def test_results_of_branches_exclude_each_other() -> None:
    (method,) = layout(CHOICE).methods
    (arena,) = method.arenas
    # The predicate has one byte; the input and one of the two results have sixteen each.
    assert arena.needed == 32
    assert set(entries(method, "branch result")) == {2, 3}
    assert entries(method, "output")[4].bound == (2, 3)


def test_views_count_once() -> None:
    text = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[2,2] @ 1+16
  %3 = tensor f32[2,2] @ 1+32
  inputs %0
  outputs %1 %3
  chain
    0  aten::sin.out(%0, %1, %1)
    1  aten::cos.out(%2, %3, %3)
"""
    (method,) = layout(text).methods
    assert method.arenas[0].needed == 32


def test_memory_of_the_caller_has_no_place() -> None:
    text = TWO.replace("%0 = tensor f32[4] @ 1+0", "%0 = tensor f32[4]")
    found = entries(layout(text).methods[0], "input")[0]
    assert (found.arena, found.offset) == (None, None)


@pytest.mark.parametrize("path", [pytest.param(p, id=p.parent.name) for p in PROGRAMS])
def test_bounds_hold_on_the_corpus(path: Path) -> None:
    program = load(path)
    found = layout_of(program, path=path.name, all=True)
    assert [m.name for m in found.methods] == [m.name for m in program.methods]
    for method in found.methods:
        slots = {e.slot for e in method.entries}
        assert len(slots) == len(method.entries)
        for arena in method.arenas:
            inside = [e for e in method.entries if e.arena == arena.id]
            assert arena.used == max((e.offset + e.nbytes for e in inside if e.offset is not None), default=0)
            assert arena.needed <= sum(e.nbytes for e in inside)
            assert all(e.slot in slots for e in arena.live)
    assert json.loads(render_json(found)) == as_object(found)
    assert all(line == line.rstrip() for line in render_text(found).splitlines())


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "two.hir"
    source.write_text(TWO)
    assert main(["layout", str(source)]) == 0
    text = capsys.readouterr().out
    assert "method set" in text
    assert "cache" in text
    assert main(["layout", str(source), "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"][0]["tensors"][0]["shared_with"] == ["get"]
    target = tmp_path / "layout.txt"
    assert main(["layout", str(source), "-o", str(target)]) == 0
    assert target.read_text() == text
    assert main(["layout", str(tmp_path / "none.pte")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_scratch_of_an_unknown_operator_is_no_state() -> None:
    text = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4] @ 1+16
  %2 = tensor f32[4] @ 1+32
  inputs %0
  outputs %2
  chain
    0  mine::twist.out(%0, %1, %2, %2)
"""
    (method,) = layout(text).methods
    assert not entries(method, "state")


def test_arena_that_holds_nothing() -> None:
    (method,) = layout("method forward\n  arena 1 : 16\n  inputs\n  outputs\n  chain\n").methods
    assert (method.arenas[0].used, method.arenas[0].needed, method.arenas[0].live) == (0, 0, ())
    assert "16 bytes planned, 0 used" in render_text(Layout("x", (method,)))
