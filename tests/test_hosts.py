"""Memory that outlives a call: hosts, sequences of events, rules about methods and callers, on text programs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import hazard
from hazard.analysis.events import Party, shortest
from hazard.hosts import NAMES, RELEASED, Event, choose_hosts, labels, tell
from hazard.program import InputError
from hazard.rule import Finding
from hazard.text import parse_program

ABOUT_EVENTS = ("HZ5", "HZ6")


def findings(text: str, *codes: str, **options: object) -> list[Finding]:
    report = hazard.check(parse_program(text), **options)  # type: ignore[arg-type]
    wanted = codes or ABOUT_EVENTS
    return [f for f in report.findings if f.code.startswith(wanted)]


def sequence(finding: Finding, host: str | None = None) -> str:
    properties = dict(finding.properties)
    return ", ".join(properties["sequences"][host] if host else properties["sequence"])


# --- programs ---------------------------------------------------------------------------------------------------------


def stateful(name: str, *, state: str, scratch: str = "1+0", out: str = "1+8", arenas: str = "1 : 64") -> str:
    """A method that adds its input to a state of two floats and returns the sum."""
    return f"""
method {name}
  arena {arenas}
  arena 2 : 64
  %0 = tensor f32[2] @ {scratch}
  %1 = tensor f32[2] @ {state}
  %2 = tensor f32[2] @ {out}
  %4 = bool false
  inputs %0
  outputs %2
  chain
    0  aten::add.out(%1, %0, %3, %2, %2)
    1  aten::copy_(%1, %2, %4, %1)
"""


def stateless(name: str, *, scratch: str, out: str, size: int = 2) -> str:
    """A method that computes one tensor from another."""
    return f"""
method {name}
  arena 1 : 64
  %0 = tensor f32[{size}] @ {scratch}
  %1 = tensor f32[{size}] @ {out}
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
"""


def reader(name: str, *, state: str, out: str = "1+0") -> str:
    """A method that only reads a state of two floats."""
    return f"""
method {name}
  arena 1 : 64
  arena 2 : 64
  %1 = tensor f32[2] @ {state}
  %2 = tensor f32[2] @ {out}
  inputs
  outputs %2
  chain
    0  aten::sin.out(%1, %2, %2)
"""


# --- HZ501 ------------------------------------------------------------------------------------------------------------


def test_activations_over_state_of_another_method() -> None:
    program = stateful("a", state="1+16 init 1") + stateless("b", scratch="1+0", out="1+16")
    (finding,) = findings(program, "HZ501")
    assert (finding.method, finding.severity, finding.certainty) == ("a", "error", "certain")
    assert sequence(finding, "python-runtime (eager)") == "load a, load b, call b, call a"
    assert sequence(finding, "python-runtime (lazy)") == "load a, call a, load b, call b, call a"
    properties = dict(finding.properties)
    assert properties["hosts"] == ("python-runtime", "module-shared")
    assert properties["right_hosts"] == ("module",)
    assert finding.clobber is not None
    assert (finding.clobber.method, finding.clobber.instruction, finding.clobber.slot) == ("b", 0, 1)
    assert finding.use is not None
    assert (finding.use.method, finding.use.instruction, finding.use.slot) == ("a", 0, 1)
    assert finding.witness is not None
    assert (finding.witness.arena, finding.witness.low, finding.witness.high) == (1, 16, 24)


def test_partial_overlap_is_enough() -> None:
    program = stateful("a", state="1+16 init 1") + stateless("b", scratch="1+20", out="1+32")
    (finding,) = findings(program, "HZ501")
    assert finding.clobber is not None
    assert finding.clobber.operator == "input"
    assert finding.witness is not None
    assert (finding.witness.low, finding.witness.high) == (20, 24)


def test_neighbouring_bytes_are_quiet() -> None:
    program = stateful("a", state="1+16 init 1") + stateless("b", scratch="1+8", out="1+24")
    assert not findings(program, "HZ501", "HZ502", "HZ503")
    assert hazard.check(parse_program(program)).verdict == "proved"


def test_initial_contents_over_state_need_no_call() -> None:
    program = stateful("a", state="1+16 init 1") + stateful("b", state="1+16 init 2")
    found = {f.method: f for f in findings(program, "HZ501")}
    assert set(found) == {"a", "b"}
    assert sequence(found["a"], "python-runtime (eager)") == "load a, load b, call a"
    assert sequence(found["b"], "python-runtime (eager)") == "load b, load a, call b"
    assert sequence(found["a"], "python-runtime (lazy)") == "load a, call a, load b, call b, call a"


def test_state_without_contents_expects_its_arena_untouched() -> None:
    program = stateful("a", state="1+16") + stateless("b", scratch="1+0", out="1+16")
    (finding,) = findings(program, "HZ501")
    assert sequence(finding, "python-runtime (lazy)") == "load b, call b, load a, call a"


def test_loading_again_cures_what_was_written_before() -> None:
    """A lazy host that loads the victim last puts its contents back; the sequence has to call it first."""
    program = stateful("a", state="1+16 init 1") + stateless("b", scratch="1+0", out="1+16")
    (finding,) = findings(program, "HZ501", host="python-runtime", load="lazy")
    assert sequence(finding) == "load a, call a, load b, call b, call a"


def test_writes_that_are_overwritten_in_the_same_call_do_not_count() -> None:
    """What counts is what the bytes hold when the call ends."""
    other = """
method b
  arena 1 : 64
  arena 2 : 64
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 2+0
  %2 = tensor f32[2] @ 2+0
  %4 = bool false
  inputs %0
  outputs
  chain
    0  aten::sin.out(%0, %2, %2)
    1  aten::copy_(%1, %0, %4, %1)
"""
    program = stateful("a", state="2+0 init 1") + other
    assert not findings(program, "HZ501", "HZ503")


BRANCH = """
method b
  arena 1 : 64
  %0 = tensor bool[] @ 1+0
  %1 = tensor f32[2] @ 1+32
  %2 = tensor f32[2] @ 1+16
  %3 = tensor f32[2] @ 1+40
  %5 = bool false
  inputs %0 %1
  outputs %3
  chain
    0  jump-false %0 -> 3
    1  aten::sin.out(%1, %2, %2)
    2  jump-false %5 -> 3
    3  aten::cos.out(%1, %3, %3)
"""


def test_one_branch_of_the_other_method_is_enough() -> None:
    (finding,) = findings(stateful("a", state="1+16 init 1") + BRANCH, "HZ501")
    assert finding.certainty == "certain"
    assert finding.clobber is not None
    assert finding.clobber.instruction == 1
    assert any("%0" in note and "holds" in note for note in finding.notes)


def test_branches_that_exclude_each_other_are_quiet() -> None:
    """The write lies on a path that no execution takes: the same predicate would have to hold and not hold."""
    other = """
method b
  arena 1 : 64
  %0 = tensor bool[] @ 1+0
  %1 = tensor f32[2] @ 1+32
  %2 = tensor f32[2] @ 1+16
  %3 = tensor f32[2] @ 1+40
  %5 = bool false
  inputs %0 %1
  outputs %3
  chain
    0  jump-false %0 -> 2
    1  jump-false %5 -> 4
    2  jump-false %0 -> 4
    3  aten::sin.out(%1, %2, %2)
    4  aten::cos.out(%1, %3, %3)
"""
    assert not findings(stateful("a", state="1+16 init 1") + other, "HZ501")


def test_state_that_is_written_before_it_is_read_outlives_nothing() -> None:
    first = """
method a
  arena 1 : 64
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16 init 1
  %2 = tensor f32[2] @ 1+8
  %4 = bool false
  inputs %0
  outputs %2
  chain
    0  aten::copy_(%1, %0, %4, %1)
    1  aten::sin.out(%1, %2, %2)
"""
    assert not findings(first + stateless("b", scratch="1+0", out="1+16"), "HZ501")


def test_unknown_operator_of_another_method_makes_it_unknown() -> None:
    other = """
method b
  arena 1 : 64
  %0 = tensor f32[2] @ 1+16
  %1 = tensor f32[2] @ 1+32
  inputs
  outputs %1
  chain
    0  mine::twist.out(%0, %1, %1)
"""
    report = hazard.check(parse_program(stateful("a", state="1+16 init 1") + other))
    assert not [f for f in report.findings if f.code == "HZ501"]
    (a, _) = report.programs[0].methods
    assert a.verdict == "unknown"
    assert any("mine::twist" in reason for reason in a.reasons)


def test_dynamic_sizes_make_it_possible_only() -> None:
    other = stateless("b", scratch="1+40", out="1+8", size=4).replace("f32[4] @ 1+8", "f32[4] @ 1+8 dynamic")
    (finding,) = findings(stateful("a", state="1+16 init 1") + other, "HZ501")
    assert (finding.certainty, finding.severity) == ("possible", "warning")
    assert "sizes that are known at run time only" in finding.approximations


def test_ids_above_two_are_fresh_on_module_shared() -> None:
    one = stateful("a", state="3+0 init 1").replace("arena 2", "arena 3")
    two = stateless("b", scratch="1+0", out="3+0").replace("arena 1 : 64", "arena 1 : 64\n  arena 3 : 64")
    (finding,) = findings(one + two, "HZ501")
    assert dict(finding.properties)["hosts"] == ("python-runtime",)


def test_methods_with_device_buffers_have_arenas_of_their_own() -> None:
    one = stateful("a", state="1+16 init 1").replace("arena 2 : 64", "arena 2 : 64 cuda:0")
    assert not findings(one + stateless("b", scratch="1+0", out="1+16"), "HZ501")


def test_host_that_refuses_device_buffers_proves_nothing() -> None:
    program = parse_program(stateful("a", state="2+0 init 1").replace("arena 2 : 64", "arena 2 : 64 cuda:0"))
    assert hazard.check(program).verdict == "proved"
    report = hazard.check(program, host="module-shared")
    assert report.verdict == "unknown"
    assert "module-shared refuses" in report.programs[0].methods[0].reasons[0]


def test_host_narrows() -> None:
    program = stateful("a", state="1+16 init 1") + stateless("b", scratch="1+0", out="1+16")
    assert not findings(program, "HZ501", host="module")
    assert findings(program, "HZ501", host=["module", "module-shared"])


def test_concurrent_methods_meet_in_their_activations() -> None:
    program = stateless("a", scratch="1+0", out="1+8") + stateless("b", scratch="1+8", out="1+16")
    assert not findings(program, "HZ501")
    found = findings(program, "HZ501", concurrent=True)
    assert {f.method for f in found} == {"a", "b"}
    assert dict(found[0].properties)["right_hosts"] == ("module",)
    assert "call a while b runs" in sequence(found[0])


# --- HZ502 and shared state -------------------------------------------------------------------------------------------


SHARED = stateful("a", state="2+0 init 1") + reader("b", state="2+0 init 1")


def test_late_loading_resets_shared_state() -> None:
    found = {f.method: f for f in findings(SHARED, "HZ502")}
    assert set(found) == {"a", "b"}
    assert {f.severity for f in found.values()} == {"warning"}
    assert sequence(found["b"]) == "load a, call a, load b, call b"
    assert sequence(found["a"]) == "load a, call a, load b, call b, call a"
    assert dict(found["b"].properties)["hosts"] == ("python-runtime (lazy)", "module-shared (lazy)")
    assert dict(found["b"].properties)["right_hosts"] == ("python-runtime (eager)", "module-shared (eager)")


def test_it_is_an_error_on_a_host_that_was_named() -> None:
    assert {f.severity for f in findings(SHARED, "HZ502", host="python-runtime")} == {"error"}


@pytest.mark.parametrize("host", ["python-runtime", "module-shared"])
def test_shared_state_is_proved_when_all_is_loaded_first(host: str) -> None:
    report = hazard.check(parse_program(SHARED), host=host, load="eager")
    assert report.verdict == "proved"
    assert not [f for f in report.findings if f.severity != "note"]


def test_third_method_that_is_loaded_late() -> None:
    """The reader has no contents of its own, the writer neither; a third method's loading resets what they share."""
    program = stateful("set", state="2+0") + reader("get", state="2+0") + reader("start", state="2+0 init 1")
    (get,) = [f for f in findings(program, "HZ502") if f.method == "get"]
    assert [e.split()[0] for e in dict(get.properties)["sequence"]].count("load") == 3
    assert "load start" in sequence(get)
    assert sequence(get).endswith("call get")


def test_unshared_state_names_the_hosts_that_share() -> None:
    (finding,) = findings(SHARED, "HZ505")
    assert finding.severity == "note"
    assert dict(finding.properties)["hosts"] == ("module",)
    assert "python-runtime" in finding.help
    assert not findings(SHARED, "HZ505", host="python-runtime")


def test_shared_state_that_nobody_writes_needs_no_sharing() -> None:
    program = reader("a", state="2+0 init 1") + reader("b", state="2+0 init 1")
    assert not [f for f in findings(program) if f.code != "HZ504"]


def test_reader_before_writer() -> None:
    program = stateful("set", state="2+0") + reader("get", state="2+0")
    (finding,) = [f for f in findings(program, "HZ202") if f.method == "get"]
    assert finding.severity == "note"
    assert "`set` runs first" in finding.message
    assert sequence(finding, "python-runtime (lazy)") == "load get, call get"
    # The same read is told once.
    assert len([f for f in findings(program, "HZ202") if f.method == "get"]) == 1


def test_reader_of_state_that_another_method_initialises() -> None:
    program = stateful("set", state="2+0 init 1") + reader("get", state="2+0")
    found = [f for f in findings(program, "HZ202", host="python-runtime", load="lazy") if f.method == "get"]
    assert sequence(found[0]) == "load get, call get"


# --- HZ503 ------------------------------------------------------------------------------------------------------------


def test_one_name_at_two_places() -> None:
    program = stateful("a", state='2+0 fqn "cache"') + stateful("b", state='2+16 fqn "cache"')
    (finding,) = findings(program, "HZ503")
    assert (finding.severity, finding.certainty) == ("error", "certain")
    assert "arena 2, offset 16" in finding.message
    assert "arena 2, offset 0" in finding.message


def test_one_name_with_two_dtypes() -> None:
    program = stateful("a", state='2+0 fqn "cache"') + stateful("b", state='2+0 fqn "cache"').replace(
        "%1 = tensor f32", "%1 = tensor i32"
    )
    assert {f.code for f in findings(program, "HZ50") if f.severity == "error"} == {"HZ503"}


def test_two_names_at_one_place() -> None:
    program = stateful("a", state='2+0 fqn "left"') + stateful("b", state='2+0 fqn "right"')
    assert {f.code for f in findings(program, "HZ50") if f.severity == "error"} == {"HZ503"}


def test_shared_arena_used_for_activations_by_one_method() -> None:
    third = stateless("c", scratch="1+0", out="2+4").replace("arena 1 : 64", "arena 1 : 64\n  arena 2 : 64")
    program = stateful("a", state="2+0") + stateful("b", state="2+0") + third
    found = findings(program, "HZ503")
    assert {f.method for f in found} == {"a", "b"}
    assert {f.clobber.method for f in found if f.clobber} == {"c"}
    assert sequence(found[0], "python-runtime (eager)") == "load a, load c, call c, call a"


def test_arena_two_of_a_program_that_shares_nothing_is_ordinary() -> None:
    other = stateless("b", scratch="1+0", out="2+0").replace("arena 1 : 64", "arena 1 : 64\n  arena 2 : 64")
    assert {f.code for f in findings(stateful("a", state="2+0 init 1") + other, "HZ501", "HZ503")} == {"HZ501"}


def test_different_contents_for_one_place_are_possible() -> None:
    program = stateful("a", state="2+0 init 1") + stateful("b", state="2+0 init 2")
    (finding,) = findings(program, "HZ503")
    assert (finding.severity, finding.certainty) == ("warning", "possible")


def test_private_states_of_one_name_get_a_note() -> None:
    program = stateful("a", state='1+16 fqn "cache"') + stateful("b", state='1+32 fqn "cache"')
    assert {f.severity for f in findings(program, "HZ503")} == {"note"}


# --- HZ504 ------------------------------------------------------------------------------------------------------------


def test_outputs_of_a_single_method_are_quiet_by_default() -> None:
    program = stateless("a", scratch="1+0", out="1+8")
    assert not findings(program)
    (finding,) = findings(program, "HZ504", host="module")
    assert finding.severity == "note"
    assert sequence(finding) == "load a, call a, call a, read a %1"


def test_outputs_that_are_copied_last() -> None:
    assert not findings(stateless("a", scratch="1+0", out="1+8"), "HZ504", host="python-runtime")
    assert findings(stateless("a", scratch="1+0", out="1+8"), "HZ504", host="python-runtime", borrowed=True)


def test_output_that_is_state() -> None:
    program = stateful("a", state="1+16 init 1").replace("outputs %2", "outputs %1")
    (finding,) = findings(program, "HZ504")
    assert "state" in finding.message


def test_output_under_another_method() -> None:
    program = stateless("a", scratch="1+0", out="1+8") + stateless("b", scratch="1+8", out="1+16")
    (finding,) = findings(program, "HZ504")
    assert (finding.method, dict(finding.properties)["methods"]) == ("a", ("b",))
    assert sequence(finding) == "load a, load b, call a, call b, read a %1"


# --- HZ601 and HZ602 --------------------------------------------------------------------------------------------------


REBOUND = """
method forward
  arena 1 : 64
  %0 = tensor f32[4] @ 1+0
  %1 = tensor f32[4]
  %2 = tensor f32[4] @ 1+16
  %3 = tensor f32[2,2] @ {view}
  %4 = tensor f32[2,2]
  inputs %0
  outputs %1 %4
  chain
    0  aten::sin.out(%0, %2, %2)
    1  aten::cos.out(%{read}, %4, %4)
    2  move %1 <- %2
"""


def test_view_stays_behind_when_its_base_is_rebound() -> None:
    (finding,) = findings(REBOUND.format(view="1+16", read=3), "HZ601")
    assert (finding.severity, finding.certainty) == ("error", "certain")
    assert sequence(finding, "python-runtime (eager)") == "load forward, call forward, call forward"
    assert finding.use is not None
    assert (finding.use.slot, finding.use.call) == (3, 2)


def test_without_a_view_only_the_callers_own_buffer_is_concerned() -> None:
    program = REBOUND.format(view="1+32", read=2)
    (finding,) = findings(program, "HZ601")
    assert finding.severity == "note"
    assert hazard.check(parse_program(program)).verdict == "proved"
    (finding,) = findings(program, "HZ601", host="module")
    assert finding.severity == "warning"


def test_planned_outputs_are_never_rebound() -> None:
    program = REBOUND.format(view="1+16", read=3).replace("%1 = tensor f32[4]\n", "%1 = tensor f32[4] @ 1+48\n")
    assert not findings(program, "HZ601")


def test_state_that_a_move_hands_out() -> None:
    """The buffer of the second call takes the place of the state itself."""
    program = """
method forward
  arena 1 : 64
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16 init 1
  %2 = tensor f32[2]
  inputs %0
  outputs %2
  chain
    0  move %2 <- %1
"""
    (finding,) = findings(program, "HZ601")
    assert finding.severity == "error"


OVER_INPUT = """
method forward
  arena 1 : 64
  %0 = tensor f32[2]{place}
  %1 = tensor f32[2] @ 1+8
  %4 = bool false
  inputs %0{more}
  outputs %0 %1
  chain
    0  {first}
    1  aten::sin.out(%0, %1, %1)
"""


def test_output_buffer_over_an_input() -> None:
    program = OVER_INPUT.format(place="", more="", first="aten::cos.out(%0, %1, %1)")
    (finding,) = findings(program, "HZ602")
    assert (finding.severity, finding.certainty) == ("error", "certain")
    assert sequence(finding, "python-runtime (lazy)") == "load forward, call forward"
    # The C++ module leaves the input alone unless the caller sets a buffer for it.
    (finding,) = findings(program, "HZ602", host="module")
    assert (finding.severity, finding.certainty) == ("warning", "possible")
    assert "rebind" in sequence(finding)


def test_planned_input_that_is_returned() -> None:
    program = OVER_INPUT.format(place=" @ 1+0", more="", first="aten::cos.out(%0, %1, %1)")
    assert not findings(program, "HZ602")


def test_input_that_is_overwritten_before_it_is_read() -> None:
    program = OVER_INPUT.format(place="", more=" %2", first="aten::copy_(%0, %2, %4, %0)").replace(
        "  %4 = bool", "  %2 = tensor f32[2] @ 1+16\n  %4 = bool"
    )
    assert not findings(program, "HZ602")


# --- HZ603 and HZ604 --------------------------------------------------------------------------------------------------


STEP = """
method f
  arena 1 : 64
  %0 = tensor f32[2]
  %1 = tensor f32[2] @ 1+0
  %2 = tensor f32[2] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %{first}, %{first})
    1  aten::add.out(%0, %{first}, %4, %1, %1)
"""


def test_output_fed_back() -> None:
    program = STEP.format(first=1)
    (finding,) = findings(program, "HZ603")
    assert finding.severity == "note"
    (finding,) = findings(program, "HZ603", feedback=True)
    assert (finding.severity, finding.certainty) == ("error", "certain")
    assert sequence(finding) == "load f, call f, rebind f %0 <- %1, call f"
    assert dict(finding.properties)["hosts"] == NAMES


def test_kernel_that_writes_over_its_operand_may_do_so() -> None:
    assert not findings(STEP.format(first=2), "HZ603", feedback=True)


def test_host_that_brings_one_output_buffer_for_all_calls() -> None:
    program = STEP.format(first=1).replace("%1 = tensor f32[2] @ 1+0", "%1 = tensor f32[2]")
    (finding,) = findings(program, "HZ603", feedback=True)
    assert dict(finding.properties)["hosts"] == ("python-runtime",)
    assert findings(program, "HZ504", host="python-runtime", borrowed=True)
    assert not findings(program, "HZ504", host="module")


def test_planned_inputs_are_copied_first() -> None:
    program = STEP.format(first=1).replace("%0 = tensor f32[2]\n", "%0 = tensor f32[2] @ 1+32\n")
    assert not findings(program, "HZ603", feedback=True)


def test_copy_of_another_input_lands_on_the_output() -> None:
    program = """
method f
  arena 1 : 64
  %0 = tensor f32[2] @ 1+0
  %1 = tensor f32[2] @ 1+16
  %2 = tensor f32[2] @ 1+0
  inputs %0 %1
  outputs %2
  chain
    0  aten::add.out(%0, %1, %4, %2, %2)
"""
    (finding,) = findings(program, "HZ603", feedback=True)
    assert finding.use is not None
    assert finding.use.slot == 1
    assert finding.clobber is not None
    assert (finding.clobber.operator, finding.clobber.slot) == ("input", 0)


def test_output_of_one_method_fed_to_another_in_the_same_arena() -> None:
    encoder = stateless("encode", scratch="1+0", out="1+16")
    decoder = STEP.format(first=2).replace("method f", "method decode").replace("@ 1+0", "@ 1+32")
    (finding,) = findings(encoder + decoder, "HZ603", feedback=True)
    assert dict(finding.properties)["hosts"] == ("python-runtime", "module-shared")
    assert sequence(finding) == "load encode, load decode, call encode, rebind decode %0 <- %1, call decode"


def test_inputs_left_from_the_last_call() -> None:
    program = stateless("a", scratch="1+0", out="1+0")
    assert not findings(program)
    (finding,) = findings(program, "HZ604", restaged=False)
    assert finding.severity == "note"
    assert findings(program, "HZ604", select=["HZ604"])
    assert not findings(stateless("a", scratch="1+0", out="1+8"), "HZ604", restaged=False)


# --- HZ605 ------------------------------------------------------------------------------------------------------------


def test_loop_whose_counter_starts_from_a_constant_is_quiet() -> None:
    program = """
method forward
  arena 1 : 64
  %0 = tensor f32[3] @ 1+0
  %1 = tensor f32[3] @ 1+16
  inputs %0
  outputs %1
  chain
    0  aten::sin.out(%0, %1, %1)
"""
    assert not findings(program)


# --- what must never be flagged ---------------------------------------------------------------------------------------


SINGLE = {
    "state updated by its own write-back": stateful("a", state="1+16 init 1"),
    "state in an arena of its own": stateful("a", state="2+0 init 1"),
    "new state returned on purpose": stateful("a", state="1+16 init 1"),
    "get_state alone": reader("get", state="2+0 init 1"),
    "input under output": stateless("a", scratch="1+0", out="1+0"),
}

SEVERAL = {
    "stateless methods over one arena": stateless("a", scratch="1+0", out="1+8")
    + stateless("b", scratch="1+8", out="1+0"),
    "states apart": stateful("a", state="1+16 init 1") + stateful("b", state="1+24 init 2"),
    "shared state, nobody has contents": stateful("a", state="2+0") + stateful("b", state="2+0"),
    "writer and reader": stateful("set", state="2+0") + reader("get", state="2+0"),
    "shared on purpose, by name": stateful("a", state='2+0 fqn "c"') + reader("b", state='2+0 fqn "c"'),
    "name known to one of them": stateful("a", state='2+0 fqn "c"') + reader("b", state="2+0"),
    "zero-size tensor over state": stateful("a", state="1+16 init 1")
    + stateless("b", scratch="1+16", out="1+16", size=0),
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_method_programs_are_quiet(name: str) -> None:
    assert not [f for f in findings(SINGLE[name], "HZ5", "HZ6") if f.severity != "note"]


@pytest.mark.parametrize("name", SEVERAL)
def test_intended_sharing_is_quiet(name: str) -> None:
    report = hazard.check(parse_program(SEVERAL[name]))
    assert not [f for f in report.findings if f.severity != "note"]
    assert report.verdict == "proved"


# --- hosts and the search ---------------------------------------------------------------------------------------------


def test_hosts_by_name() -> None:
    assert choose_hosts() == RELEASED
    assert [h.label for h in choose_hosts("module", load="lazy")] == ["module (lazy)"]
    assert labels(RELEASED) == NAMES
    assert all(not h.cloned for h in choose_hosts("python-runtime", feedback=True))


@pytest.mark.parametrize(
    ("options", "message"), [({"names": "jvm"}, "unknown host `jvm`"), ({"load": "soon"}, "`soon`")]
)
def test_unknown_words_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_hosts(**options)  # type: ignore[arg-type]


def test_events_are_told_in_one_line() -> None:
    events = [Event("load", "a"), Event("call", "a"), Event("rebind", "a", "%0 <- %1")]
    assert tell(events) == "load a, call a, rebind a %0 <- %1"


KEPT, SHARED_, FOREIGN = "kept", "shared", "foreign"


def party(loads: str, leaves: Iterable[str], reads: bool = False) -> Party:
    return Party(loads, frozenset(leaves), reads)


@pytest.mark.parametrize(
    ("load", "goal", "parties", "length"),
    [
        ("eager", "foreign", [party(SHARED_, [KEPT], True), party(KEPT, [FOREIGN])], 4),
        ("lazy", "foreign", [party(SHARED_, [KEPT], True), party(KEPT, [FOREIGN])], 5),
        ("lazy", "foreign", [party(KEPT, [KEPT], True), party(KEPT, [FOREIGN])], 4),
        ("eager", "reset", [party(SHARED_, [SHARED_], True), party(SHARED_, [KEPT])], None),
        ("lazy", "reset", [party(SHARED_, [SHARED_], True), party(SHARED_, [KEPT])], 5),
        ("lazy", "reset", [party(SHARED_, [KEPT], True), party(SHARED_, [SHARED_])], 4),
        ("eager", "blank", [party(KEPT, [KEPT], True), party(SHARED_, [KEPT])], None),
        ("lazy", "blank", [party(KEPT, [KEPT], True), party(SHARED_, [KEPT])], 2),
    ],
)
def test_shortest_sequences(load: str, goal: str, parties: list[Party], length: int | None) -> None:
    found = shortest(load, goal, tuple(parties))
    assert (None if found is None else len(found)) == length
    if found is not None:
        assert found[-1] == ("call", 0)
