"""`hazard dump --annotate` and `hazard trace`. Expected texts are in ``tests/expected``; ``python -m
tests.test_annotate`` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hazard
from hazard.api import ProgramReport
from hazard.cli import main
from hazard.program import InputError
from hazard.report.annotate import Part, annotate, parts_of, trace

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "tests" / "expected"
SEED = ROOT / "corpus" / "seed_two_conds" / "1.5.1.pte"
ONE = ROOT / "tests" / "data" / "one_branch.hir"
PROGRAMS = sorted((ROOT / "corpus").glob("*/*.pte"))

LOOP = """
method forward
  arena 1 : 128
  %0 = tensor f32[2,4] @ 1+0 name "x"
  %1 = tensor f32[4] @ 1+32
  %2 = tensor f32[4] @ 1+48
  %3 = tensor f32[2,4] @ 1+64 fqn "rows"
  %4 = int 0
  %5 = int 1
  %6 = int 2
  %7 = bool false
  %8 = int 0
  inputs %0
  outputs %3
  chain
    0  aten::select_copy.int_out(%0, %4, %8, %1, %1)
    1  aten::sin.out(%1, %2, %2)
    2  executorch_prim::et_copy_index.tensor(%3, %2, %8)
    3  executorch_prim::add.Scalar(%8, %5, %8)
    4  executorch_prim::eq.Scalar(%8, %6, %7)
    5  jump-false %7 -> 0
    6  executorch_prim::sub.Scalar(%8, %6, %8)
"""


def checked(path: Path) -> ProgramReport:
    return hazard.check(path).programs[0]


TEXTS = {
    "one_branch.annotated.txt": lambda: annotate(checked(ONE)),
    "one_branch.trace.txt": lambda: trace(checked(ONE), "cond"),
    "loop.annotated.txt": lambda: annotate(hazard.check(LOOP.encode(), ignore=["HZ605"]).programs[0]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    assert TEXTS[name]() == (EXPECTED / name).read_text()


@pytest.mark.parametrize("path", [pytest.param(p, id=f"{p.parent.name}/{p.name}") for p in PROGRAMS])
def test_every_program_can_be_read_with_its_hazards_in_place(path: Path) -> None:
    program = checked(path)
    text = annotate(program)
    for method in program.methods:
        assert f"method {method.name}  ({method.verdict})" in text
        for chain in method.analysis.method.chains:
            for index in range(len(chain)):
                assert re.search(rf"^ {{2,}}{index} ", text, re.MULTILINE)
    for number, finding in enumerate(program.findings, 1):
        assert f"#{number} {finding.severity}[{finding.code}]" in text
        place = finding.clobber or finding.use
        if place is not None and place.instruction is not None and place.position >= 0:
            assert f"^ {finding.code} #{number}, " in text
        if finding.use is not None and finding.use.slot is not None:
            method = next(m for m in program.methods if m.name == finding.method)
            if method.analysis.method.is_tensor(finding.use.slot):
                assert trace(program, f"#{number}").startswith(f"%{finding.use.slot}")


def test_color_adds_nothing_but_escapes() -> None:
    program = checked(SEED)
    for plain, colored in (
        (annotate(program), annotate(program, color=True)),
        (trace(program, "1"), trace(program, "1", color=True)),
    ):
        assert "\x1b[" not in plain
        assert "\x1b[" in colored
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_branches_and_loops_are_found() -> None:
    seed = checked(SEED).methods[0].analysis
    assert parts_of(seed.method, 0, seed.scalars.written) == [
        Part("if", 4, 5, 3, "the branch of [3] where %7 is true"),
        Part("else", 7, 8, 3, "the branch of [3] where %7 is false"),
        Part("if", 10, 18, 9, "the branch of [9] where %7 is true"),
        Part("if", 12, 13, 11, "the branch of [11] where %20 is true"),
        Part("else", 15, 17, 11, "the branch of [11] where %20 is false"),
        Part("else", 20, 21, 9, "the branch of [9] where %7 is false"),
    ]
    loop = hazard.check(LOOP.encode()).programs[0].methods[0].analysis
    assert parts_of(loop.method, 0, loop.scalars.written) == [
        Part("loop", 0, 5, 5, "the loop of [0] to [5]")
    ]


def test_around_shows_the_neighbourhood_only() -> None:
    text = annotate(checked(SEED), around=12)
    shown = [int(n) for n in re.findall(r"^ {2,}(\d+)  ", text, re.MULTILINE)]
    assert shown == list(range(6, 19))
    assert "arena 1:" not in text


def test_values_are_found_by_slot_name_and_finding() -> None:
    program = hazard.check(LOOP.encode()).programs[0]
    by_name = trace(program, "x")
    assert by_name == trace(program, "%0")
    assert by_name.startswith("%0:x of method forward, f32[2,4]\n  planned at 1+0..32\n")
    assert trace(program, "rows").startswith("%3:rows of method forward")
    seed = checked(SEED)
    assert trace(seed, "1") == trace(seed, "#1") == trace(seed, "%9")
    for wrong in ("%999", "%4", "nothing", "#9", "0", "#x"):
        with pytest.raises(InputError):
            trace(program, wrong)


def test_a_view_is_part_of_the_life_of_its_base() -> None:
    text = trace(checked(ROOT / "corpus" / "f33b_clone_workaround" / "1.5.1.pte"), "%22")
    assert "seen by %42, a view without instruction (assumption elided-view v42=v22)" in text
    assert "read  %46 = aten::mul.out(%42, %43)" in text


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(ONE), "--annotate"]) == 0
    assert capsys.readouterr().out == (EXPECTED / "one_branch.annotated.txt").read_text()
    assert main(["trace", str(ONE), "--value", "%3"]) == 0
    assert capsys.readouterr().out == (EXPECTED / "one_branch.trace.txt").read_text()
    assert main(["dump", str(SEED), "--around", "12", "-o", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text() == annotate(checked(SEED), around=12)
    capsys.readouterr()
    for arguments, said in (
        (["dump", str(SEED), "--around", "99"], "there is no instruction 99"),
        (["dump", str(SEED), "--annotate", "--method", "backward"], "there is no method `backward`; there is forward"),
        (["dump", str(SEED), "--method", "forward"], "--method goes with --annotate or --around"),
        (["trace", str(SEED), "--value", "b"], "there is no value `b`"),
        (["trace", str(SEED)], "--value"),
    ):
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err


if __name__ == "__main__":
    for name, text in TEXTS.items():
        (EXPECTED / name).write_text(text())
