"""What the rules on methods and callers say is what the Python runtime does: the very sequence of a finding is run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from executorch import runtime

import hazard
from corpus import cases, runner
from corpus.experiment import Experiment
from hazard.rule import Finding

RULES = {"F1": "HZ501", "F2": "HZ502", "G": "HZ601", "H": "HZ602"}
CASES = [case for case in cases.cases() if case.kind in RULES]
METHODS = [case for case in CASES if case.kind in ("F1", "F2")]

#: Two modules whose buffers have one name, which planning takes for one state.
MERGED_BY_NAME = "m04_two_kv_caches_unshared"

#: Choices of inputs that are tried for one sequence.
CHOICES = 200


def ids(chosen: Iterable[cases.Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in chosen]


def bad(report: hazard.Report, code: str) -> list[Finding]:
    return [f for f in report.findings if f.code == code and f.severity != "note"]


def inputs_of(experiment: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The different inputs of each method in the calls of a case."""
    pools: dict[str, list[tuple[Any, ...]]] = {}
    for steps in experiment.sequences:
        for step in steps:
            method, inputs = step if experiment.options.get("methods") else ("forward", step)
            pools.setdefault(method, []).append(inputs)
    return pools


def differs(build: Any, program: bytes, events: tuple[str, ...], chosen: Iterable[tuple[Any, ...]]) -> bool:
    """Whether the last call of a sequence returns something else than eager."""
    experiment = build()
    methods = experiment.options.get("methods")
    modules = {n: m for n, (m, _) in methods.items()} if methods else {"forward": experiment.module}
    loaded = runtime.Runtime.get().load_program(bytes(bytearray(program)))
    wanted: list[Any] = []
    got: list[Any] = []
    inputs = iter(chosen)
    for event in events:
        kind, method = event.split()
        if kind == "load":
            loaded.load_method(method)
            continue
        assert kind == "call"
        values = next(inputs)
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(modules[method].eval()(*[v.clone() for v in values]))
            wanted = [w.clone() for w in wanted]
        skipped = experiment.options.get("mutated_inputs", 0)
        got = loaded.load_method(method).execute([v.clone() for v in values])[skipped:]
    tolerance = experiment.options.get("tol", 0)
    return any(not torch.allclose(g, w, rtol=tolerance, atol=tolerance) for g, w in zip(got, wanted, strict=True))


def shown(build: Any, program: bytes, events: tuple[str, ...]) -> bool:
    """Whether some choice among the case's own inputs shows the fault of a sequence."""
    pools = inputs_of(build())
    called = [event.split()[1] for event in events if event.startswith("call ")]
    choices = itertools.product(*(pools[method] for method in called))
    return any(differs(build, program, events, chosen) for chosen in itertools.islice(choices, CHOICES))


@pytest.mark.parametrize("case", ids(CASES))
def test_sequences_of_findings_go_wrong_under_the_runtime(case: cases.Case) -> None:
    path = case.program()
    assert path is not None
    found = bad(hazard.check(path), RULES[case.kind or ""])
    assert found
    program, build = path.read_bytes(), runner.load_build(case.name)
    for finding in found:
        sequences = dict(finding.properties)["sequences"]
        events = [s for host, s in sequences.items() if host.startswith("python-runtime")]
        assert events
        for sequence in dict.fromkeys(events):
            assert shown(build, program, sequence), sequence


@pytest.mark.parametrize("case", ids(METHODS))
def test_module_with_arenas_of_its_own_has_none_of_it(case: cases.Case) -> None:
    path = case.program()
    assert path is not None
    report = hazard.check(path, host="module")
    assert not [f for f in report.findings if f.code in ("HZ501", "HZ502", "HZ503")]


def shared_export(case: cases.Case) -> tuple[Any, bytes]:
    """The case with state in an arena of its own, all methods loaded before the first call."""
    build = runner.load_build(case.name)

    def changed() -> Any:
        experiment = build()
        options = experiment.options | {"preload": True, "mpp": {"share_mutable_buffers": True}}
        return experiment._replace(options=options)

    return changed, runner.export(changed())


@pytest.mark.parametrize("case", ids(case for case in METHODS if case.name != MERGED_BY_NAME))
def test_shared_buffers_and_early_loading_are_proved(case: cases.Case) -> None:
    build, program = shared_export(case)
    report = hazard.check(program, host="python-runtime", load="eager")
    assert report.verdict == "proved"
    assert not [f for f in report.findings if f.severity != "note"]
    assert runner.observe(build, program) == {"outcome": "match"}


def test_buffers_merged_by_name_are_possible() -> None:
    build, program = shared_export(cases.Case(MERGED_BY_NAME))
    found = bad(hazard.check(program, host="python-runtime", load="eager"), "HZ503")
    assert {f.certainty for f in found} == {"possible"}
    assert runner.observe(build, program)["outcome"] == "MISMATCH"


def test_output_fed_back() -> None:
    case = cases.Case("m13_output_fed_back")
    path = case.program()
    assert path is not None
    (finding,) = bad(hazard.check(path, feedback=True), "HZ603")
    assert (finding.severity, finding.certainty) == ("error", "certain")
    properties = dict(finding.properties)
    assert "python-runtime" in properties["hosts"]
    assert [event.split()[0] for event in properties["sequence"]] == ["load", "call", "rebind", "call"]

    experiment = runner.load_build(case.name)()
    (x,) = experiment.example_inputs
    # The method does not keep its program alive.
    loaded = runtime.Runtime.get().load_program(path.read_bytes())
    forward = loaded.load_method("forward")
    with torch.no_grad():
        once = experiment.module(x)
        twice = experiment.module(once)
    # A copy in between is right.
    assert torch.allclose(forward.execute([forward.execute([x])[0]])[0], twice, atol=1e-6)
    (borrowed,) = forward._method.call([x], clone_outputs=False)
    assert torch.allclose(borrowed, once, atol=1e-6)
    (got,) = forward._method.call([borrowed], clone_outputs=False)
    assert not torch.allclose(got, twice, atol=1e-3)


class Rows(torch.nn.Module):
    """Picks one element of a table for each row of indices."""

    def forward(self, indices: Any, table: Any) -> Any:
        from functorch.experimental.control_flow import map as map_rows

        return map_rows(lambda k, t: t.index_select(0, k), indices, table)


def test_loop_goes_on_where_a_failed_call_stopped() -> None:
    table = torch.arange(5.0) * 10
    first, wrong, second = (torch.tensor(rows).reshape(3, 1) for rows in ([1, 2, 3], [1, 99, 2], [4, 3, 0]))
    program = runner.export(Experiment(module=Rows(), example_inputs=(first, table)))
    report = hazard.check(program)
    (finding,) = [f for f in report.findings if f.code == "HZ605"]
    assert finding.severity == "note"
    assert report.verdict == "proved"

    loaded = runtime.Runtime.get().load_program(program)
    forward = loaded.load_method("forward")
    assert forward.execute([first, table])[0].flatten().tolist() == [10.0, 20.0, 30.0]
    with pytest.raises(RuntimeError):
        forward.execute([wrong, table])
    # Row 0 is that of the call that failed; the call after that is right again.
    assert forward.execute([second, table])[0].flatten().tolist() != [40.0, 30.0, 0.0]
    assert forward.execute([second, table])[0].flatten().tolist() == [40.0, 30.0, 0.0]
