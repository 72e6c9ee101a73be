"""CPU time of a check of several methods with shared state, as a ratio to the same methods checked one by one.

    python -m benchmarks.methods [METHODS] [INSTRUCTIONS]

Without arguments: ten methods of 1,000 instructions, twenty states in a shared arena, and the same with states that are
not shared. Figures of one run on one machine; the ratios carry over, the seconds do not.
"""

from __future__ import annotations

import sys
import time

import hazard
from hazard.program import Program
from hazard.text import parse_program

STATES = 20


def methods(count: int, instructions: int, shared: bool) -> Program:
    """Methods that each read and update every state; scratch memory is reused after 200 instructions.

    Where state is not shared, it lies in arena 1, where the scratch memory of other methods reaches it.
    """
    lines = []
    for m in range(count):
        lines += [f"method m{m}", "  arena 1 : 65536", f"  arena 2 : {64 * STATES}", "  %0 = tensor f32[16] @ 1+0"]
        for s in range(STATES):
            place = f"2+{64 * s} init {s + 1}" if shared else f"1+{12864 + 64 * s + 32 * (m % 2)} init {100 * m + s}"
            lines.append(f"  %{s + 1} = tensor f32[16] @ {place}")
        code = []
        previous = 0
        for i in range(instructions - STATES):
            slot = STATES + 1 + i
            lines.append(f"  %{slot} = tensor f32[16] @ 1+{64 * (1 + i % 200)}")
            state = i // 40
            if i % 40 == 10 and state < STATES:
                code.append(f"aten::add.out(%{previous}, %{state + 1}, %{slot}, %{slot})")
            else:
                code.append(f"aten::sin.out(%{previous}, %{slot}, %{slot})")
            previous = slot
        flag = STATES + 1 + instructions
        code += [f"aten::copy_(%{s + 1}, %{previous}, %{flag}, %{s + 1})" for s in range(STATES)]
        lines += [f"  %{flag} = bool false", "  inputs %0", f"  outputs %{previous}", "  chain"]
        lines += ["    " + c for c in code]
    return parse_program("\n".join(lines))


def cpu(programs: list[Program]) -> float:
    """Seconds of CPU that the checks of some programs take together."""
    started = time.process_time()
    for program in programs:
        hazard.check(program)
    return time.process_time() - started


def main() -> int:
    given = [int(word) for word in sys.argv[1:3]]
    count, instructions = [*given, *(10, 1000)[len(given) :]]
    for shared in (True, False):
        program = methods(count, instructions, shared)
        cpu([methods(1, STATES + 1, shared)])  # what is imported once
        alone = cpu([Program((m,)) for m in program.methods])
        together = cpu([program])
        what = "shared" if shared else "separate"
        print(
            f"{count} methods of {instructions} instructions, {STATES} {what} states: {together:.2f} s,"
            f" {together / alone:.2f} times the methods one by one ({hazard.check(program).verdict})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
