"""What a `.pte` alone shows of every program of the corpus, against what the real runtime did with it."""

from __future__ import annotations

import random

import pytest

import hazard
from corpus import cases
from hazard.report.text import render
from tests.test_pte import mutate

PROGRAMS = {case.name: path for case, path in cases.programs("1.5.1")}

#: Faults that the bytecode does not hold: the write that is missing, the old value that was meant, the view's time,
#: the value that a state was to begin with.
#: The planned graph shows them (tests/test_fx.py).
NEEDS_THE_GRAPH = {
    "c14e_two_buffers_swap", "c14g_shift_registers", "c14h_shift_registers_no_copy",
    "c14k_top_to_copy_of_buffer_returned", "c16_reinplace_default_view_used_later", "c16d_reinplace_output_twice",
    "d02_fifo_views_writeback_order", "d02e_rnn_state_pair", "d11b_remove_clone_state",
    "e02_reinplace_self_and_values_same", "e02c_reinplace_buffer_old_view_after", "e02d_reinplace_indices_alias",
    "f39b_old_state_through_noop_in_late_op", "g03_shipped_remove_clone_in_branch_and_top",
    "h03_write_back_reads_old_view_of_other_state", "j13_state_reset_to_constant_buffer",
    "k06_old_state_is_output_and_updated_by_add", "n02_initial_value_of_untouched_state",
    "n06_rotation_after_inplace_update",
    "n03_rotated_states_without_initial_values",
}  # fmt: skip

#: Wrong, but not for every host or every order of loading, or not beyond doubt from the bytecode: warnings.
WARNINGS = {
    "c19_multimethod_shared_state": "HZ502", "c19e_shared_with_cond": "HZ502",
    "h10_shared_state_lazy_second_load": "HZ502", "m06_shared_cache_reset_by_decode": "HZ502",
    "m07_shared_state_reset_by_third_method": "HZ502", "h06_cond_view_parent_slot_shares_live": "HZ201",
    "l02_mutated_input_noalloc_input": "HZ602", "m11_two_mutated_inputs_noalloc_input": "HZ602",
    "m12_cache_as_input_and_output_noalloc": "HZ602",
}  # fmt: skip

#: The runtime's numbers were right; what is wrong has not come to light: the state is corrupted, but never shown.
RIGHT_BY_LUCK = {"e08_cond_output_into_state_with_second_cond": "HZ101"}

#: Which rule a fault of a kind breaks.
RULES_OF_KIND = {
    "A": {"HZ101", "HZ102"}, "A2": {"HZ101", "HZ102"}, "B": {"HZ201"}, "B2": {"HZ201"},
    "E4": {"HZ102", "HZ103"}, "E5": {"HZ103"}, "E6": {"HZ201"}, "E1": {"HZ703"}, "E1+E5": {"HZ103", "HZ304"},
    "F1": {"HZ501"}, "F2": {"HZ502"}, "G": {"HZ601"}, "H": {"HZ602"}, "I": {"HZ101"}, "J": {"HZ102", "HZ103"},
}  # fmt: skip


def _codes(name: str, severity: str) -> set[str]:
    return {f.code for f in hazard.check(PROGRAMS[name]).findings if f.severity == severity}


WRONG = [n for n in PROGRAMS if cases.Case(n).outcome("1.5.1")["outcome"] == "MISMATCH"]
RIGHT = [n for n in PROGRAMS if cases.Case(n).outcome("1.5.1")["outcome"] == "match"]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_flagged(name: str) -> None:
    kind = cases.Case(name).kind
    errors, warnings = _codes(name, "error"), _codes(name, "warning")
    if name in NEEDS_THE_GRAPH:
        assert not errors
        assert kind in ("C", "C2", "D", "E1", "E2", "E3", "K")
    elif name in WARNINGS:
        assert not errors
        assert WARNINGS[name] in warnings
    else:
        assert errors & RULES_OF_KIND[kind]


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_have_no_error(name: str) -> None:
    expected = {RIGHT_BY_LUCK[name]} if name in RIGHT_BY_LUCK else set()
    assert _codes(name, "error") == expected


def test_the_lists_name_programs_of_the_corpus() -> None:
    assert NEEDS_THE_GRAPH | WARNINGS.keys() <= set(WRONG)
    assert RIGHT_BY_LUCK.keys() <= set(RIGHT)
    assert len(WRONG) > 80
    assert len(RIGHT) > 70


@pytest.mark.parametrize("case", ["seed_two_conds", "seed_two_conds_as_posted"])
@pytest.mark.parametrize("release", ["1.4.1", "1.5.1"])
def test_the_program_of_the_public_report(case: str, release: str) -> None:
    path = cases.Case(case).program(release)
    assert path is not None
    report = hazard.check(path)
    assert not report.passed()
    assert [f.code for f in report.findings if f.severity == "error"] == ["HZ101", "HZ101"]
    first, second = (f for f in report.findings if f.severity == "error")
    for finding in (first, second):
        assert finding.certainty == "certain"
        assert finding.use is not None
        assert finding.use.slot == 9
        assert [p.instruction for p in finding.all_clobbers] == [12, 16, 20]
        assert [p.instruction for p in finding.all_defines] == [4, 7]
        assert finding.witness is not None
        assert finding.witness.replayed
        assert finding.witness.calls == 2  # in the first call the state is the program's own, and not a number
        told = [(d.call, d.instruction, d.held) for d in finding.witness.decisions]
        assert told == [(2, 3, True), (2, 9, True), (2, 11, False)]
    assert first.use is not None
    assert (first.use.instruction, first.use.operator) == (22, "aten::copy_")
    assert second.use is not None
    assert second.use.instruction is None


def test_mutated_programs_give_a_report_or_one_line() -> None:
    reports, refusals = 0, []
    for seed in range(250):
        rng = random.Random(seed)
        data = mutate(PROGRAMS[rng.choice(sorted(PROGRAMS))].read_bytes(), rng)
        try:
            report = hazard.check(data, name="x.pte")
        except hazard.InputError as e:
            refusals.append(str(e))
        else:
            assert render(report, color=False).startswith(("error", "warning", "note", "x.pte"))
            reports += 1
    assert min(reports, len(refusals)) > 20
    assert all(line.startswith("x.pte: ") and line.isprintable() for line in refusals)
