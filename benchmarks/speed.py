"""CPU time of a check, as a ratio to what ExecuTorch needs to load the same file.

    python -m benchmarks.speed [FILE.pte ...]

Without files it makes straight-line programs of 1,000 and 10,000 kernel calls and one of 300 sequential conds as text
and prints how the time grows; a `.pte` is compared with ExecuTorch's `deserialize_pte_binary` in the same process.
Figures of one run on one machine; the ratios carry over, the seconds do not.
"""

from __future__ import annotations

import random
import sys
import time

import hazard
from hazard.program import Program
from hazard.text import parse_program


def straight_line(calls: int, live: int = 20, reuse: int = 22) -> Program:
    """``calls`` additions in a row, each of two of the last ``live`` results.

    The arena reuses bytes ``reuse`` calls after they were written.
    """
    rng = random.Random(1)
    values, code = ["  %0 = tensor f32[64] @ 1+0"], []
    free: list[int] = []
    ends: dict[int, int] = {}
    top = 256
    for i in range(calls):
        if i in ends:
            free.append(ends.pop(i))
        if free:
            offset = free.pop(rng.randrange(len(free)))
        else:
            offset, top = top, top + 256
        ends[i + reuse] = offset
        a, b = (rng.randrange(max(0, i + 1 - live), i + 1) for _ in range(2))
        values.append(f"  %{i + 1} = tensor f32[64] @ 1+{offset}")
        code.append(f"    aten::add.out(%{a}, %{b}, %{calls + 1}, %{i + 1}, %{i + 1})")
    head = ["method forward", f"  arena 1 : {top}", *values, f"  %{calls + 1} = int 1"]
    return parse_program("\n".join([*head, "  inputs %0", f"  outputs %{calls}", "  chain", *code]))


def sequential_conds(count: int) -> Program:
    """``count`` conds in a row whose branches share one region; all results are returned."""
    values = ["  %0 = tensor f32[4] @ 1+0", "  %1 = bool false", "  %2 = null", "  %3 = int 1"]
    code: list[str] = []
    outputs = []
    for i in range(count):
        total, truth, bound, result, held, other = (4 + 6 * i + k for k in range(6))
        values += [
            f"  %{total} = tensor f32[1] @ 1+16",
            f"  %{truth} = tensor bool[1] @ 1+32",
            f"  %{bound} = double {i}.5",
            f"  %{result} = tensor f32[4] @ 1+{80 + 16 * i}",
            f"  %{held} = tensor f32[4] @ 1+48",
            f"  %{other} = tensor f32[4] @ 1+48",
        ]
        at = len(code)
        code += [
            f"aten::sum.IntList_out(%0, %2, %1, %2, %{total}, %{total})",
            f"aten::gt.Scalar_out(%{total}, %{bound}, %{truth}, %{truth})",
            f"jump-false %{truth} -> {at + 6}",
            f"aten::add.out(%0, %0, %3, %{held}, %{held})",
            f"move %{result} <- %{held}",
            f"jump-false %1 -> {at + 8}",
            f"aten::mul.out(%0, %0, %{other}, %{other})",
            f"move %{result} <- %{other}",
        ]
        outputs.append(f"%{result}")
    arena, ends = f"  arena 1 : {96 + 16 * count}", "  outputs " + " ".join(outputs)
    head = ["method forward", arena, *values, "  inputs %0", ends]
    return parse_program("\n".join([*head, "  chain", *("    " + c for c in code)]))


def cpu(source: object) -> tuple[float, str]:
    """Seconds of CPU that a check takes, and the verdict."""
    started = time.process_time()
    report = hazard.check(source)
    return time.process_time() - started, report.verdict


def main(files: list[str]) -> None:
    hazard.check(straight_line(10))  # imports
    if not files:
        small, large = (cpu(straight_line(n)) for n in (1_000, 10_000))
        print(f"straight line: 10,000 calls ({large[1]}) take {large[0] / small[0]:.1f} times as long as 1,000")
        conds = cpu(sequential_conds(300))
        print(f"300 conds in a row ({conds[1]}) take {conds[0] / small[0]:.1f} times as long as 1,000 calls")
        return
    from executorch.exir._serialize._program import deserialize_pte_binary

    for file in files:
        with open(file, "rb") as stream:
            data = stream.read()
        deserialize_pte_binary(data)
        started = time.process_time()
        deserialize_pte_binary(data)
        loading = time.process_time() - started
        checking, verdict = cpu(file)
        print(f"{file}: {verdict}; check / deserialize_pte_binary = {checking / loading:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
