"""Write-backs: what the runtime gets wrong is a hazard, what it gets right is proved, by each way into the graph."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import hazard
from corpus.experiment import Experiment, floats
from hazard.pipeline import CheckedPlanning, edge_signatures, from_manager, plan_edge
from hazard.program import Program


def module(update: Callable[..., Any], **buffers: Any) -> Any:
    """A module with the given buffers, whose forward is ``update(module, x)``."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in buffers.items():
                self.register_buffer(name, value.clone())

        def forward(self, x: Any) -> Any:
            return update(self, x)

    class Namesake(Model):
        def forward(self, a: Any) -> Any:  # called as a buffer is
            return update(self, a)

    return Namesake() if update is updated_by_namesake else Model()


def swap(m: Any, x: Any) -> Any:
    out = m.a * 2 + m.b + x
    old = m.a.clone()
    m.a.copy_(m.b)
    m.b.copy_(old)
    return out


def self_copy(m: Any, x: Any) -> Any:
    out = m.a + x
    m.a.copy_(m.a.to(copy=True))
    m.b.add_(x)
    return out + m.b


def two_dropped_beside_two_kept(m: Any, x: Any) -> Any:
    out = m.a + m.b * 2 + m.c * 3 + m.d * 5
    new_b, new_d = m.a * 2 + x, m.c * 3 + x
    m.a.copy_(m.b)
    m.b.copy_(new_b)
    m.c.copy_(m.d)
    m.d.copy_(new_d)
    return out


def cycle_of_three(m: Any, x: Any) -> Any:
    out = m.a + m.b * 2 + m.c * 4 + x
    old = m.a.clone()
    m.a.copy_(m.b)
    m.b.copy_(m.c)
    m.c.copy_(old)
    return out


def computed_swap(m: Any, x: Any) -> Any:
    """Each new value is computed, so that it has bytes of its own."""
    new_a, new_b = m.b + 0 * x, m.a + 0 * x
    out = m.a * 2 + m.b
    m.a.copy_(new_a)
    m.b.copy_(new_b)
    return out


def view_of_the_first(m: Any, x: Any) -> Any:
    """The second buffer takes over a view of the first, which is written back before."""
    out = m.second.sum() + x
    old = m.first.view(2, 2)
    m.second.copy_(old)
    m.first.copy_(x)
    return out


def view_of_the_second(m: Any, x: Any) -> Any:
    """The same the other way round: the first buffer is written back first, and needs the old second."""
    out = m.first.sum() + x
    old = m.second.view(4)
    m.first.copy_(old)
    m.second.copy_(x.view(2, 2))
    return out


def old_state_returned(m: Any, x: Any) -> Any:
    old = m.a.to(copy=True)
    m.a.add_(x)
    return old


def old_state_computed(m: Any, x: Any) -> Any:
    old = m.a + 0
    m.a.add_(x)
    return old


def new_state_returned(m: Any, x: Any) -> Any:
    m.a.add_(x)
    return m.a.clone()


def put(m: Any, x: Any) -> Any:
    index = torch.tensor([1])
    m.a.copy_(m.a.index_put((index,), x[:1]))
    return m.a * 2


def put_beside_copy(m: Any, x: Any) -> Any:
    index = torch.tensor([0])
    m.a.copy_(m.a.index_put((index,), x[:1]))
    m.b.copy_(m.b + m.a)
    return m.b + 1


def put_and_old_view(m: Any, x: Any) -> Any:
    old = m.a.view(2, 2)
    m.a.copy_(m.a.index_put((torch.tensor([1]),), x[:1]))
    return old * 2


def put_into_one_kept_in_other(m: Any, x: Any) -> Any:
    """The other buffer takes over the first one's old value, which the update in place destroys."""
    out = m.a + m.b
    new = m.a.index_put((torch.tensor([1]),), x[:1])
    m.b.copy_(m.a)
    m.a.copy_(new)
    return out


def puts_crossed(m: Any, x: Any) -> Any:
    """Each buffer takes over the other one's updated value; both updates work in place."""
    out = m.a + m.b * 2
    new_a = m.a.index_put((torch.tensor([1]),), x[:1])
    new_b = m.b.index_put((torch.tensor([2]),), x[:1])
    m.a.copy_(new_b)
    m.b.copy_(new_a)
    return out


def two_puts(m: Any, x: Any) -> Any:
    m.a.copy_(m.a.index_put((torch.tensor([1]),), x[:1]))
    m.b.copy_(m.b.index_put((torch.tensor([2]),), x[:1]))
    return m.a * 2 + m.b


def updated_by_namesake(m: Any, a: Any) -> Any:
    out = m.a * 1
    m.a.copy_(a + 1)
    return out


def shift_through_a_branch(m: Any, x: Any) -> Any:
    out = m.a + m.b
    new = torch.cond(x.sum() > 0, lambda v, w: v + w, lambda v, w: v - w, (m.a, x))
    m.b.copy_(m.a * 1.5)
    m.a.copy_(new)
    return out


def new_value_returned(m: Any, x: Any) -> Any:
    """The output is the new value's own tensor, not the buffer."""
    new = m.a + x
    m.a.copy_(new)
    return new


def reset_to_constant(m: Any, x: Any) -> Any:
    out = m.a + x
    m.a.copy_(m.zero)
    return out


FOUR = floats(1, 2, 3, 4)
TWO = {"a": FOUR, "b": FOUR * 10}
SQUARES = {"first": FOUR, "second": FOUR.view(2, 2) * 10}
REINPLACE = {"ebc": {"run_reinplace_pass": True}}

#: name -> (update, buffers, options, the rules of the findings; none where the runtime is right)
VARIANTS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any], set[str]]] = {
    "swap": (swap, TWO, {}, {"HZ301"}),
    "self-copy": (self_copy, TWO, {}, set()),
    "two-dropped": (two_dropped_beside_two_kept, {**TWO, "c": FOUR * 100, "d": FOUR * 1000}, {}, {"HZ301"}),
    "cycle": (cycle_of_three, {**TWO, "c": FOUR * 100}, {}, {"HZ301"}),
    "computed-swap": (computed_swap, TWO, {}, set()),
    "view-of-first": (view_of_the_first, SQUARES, {}, {"HZ302"}),
    "view-of-second": (view_of_the_second, SQUARES, {}, set()),
    "old-returned": (old_state_returned, {"a": FOUR}, {}, {"HZ303"}),
    "old-computed": (old_state_computed, {"a": FOUR}, {}, set()),
    "new-returned": (new_state_returned, {"a": FOUR}, {}, set()),
    "put": (put, {"a": FOUR}, REINPLACE, set()),
    "put-beside-copy": (put_beside_copy, TWO, REINPLACE, set()),
    "put-and-old-view": (put_and_old_view, {"a": FOUR}, REINPLACE, {"HZ404"}),
    "put-and-old-kept": (put_into_one_kept_in_other, TWO, REINPLACE, {"HZ301"}),
    "puts-crossed": (puts_crossed, TWO, REINPLACE, {"HZ301"}),
    "two-puts": (two_puts, TWO, REINPLACE, set()),
    "namesake": (updated_by_namesake, {"a": FOUR}, {}, {"HZ301"}),
    "branch": (shift_through_a_branch, TWO, {}, set()),
    "new-value-returned": (new_value_returned, {"a": FOUR}, {}, set()),
    "reset": (reset_to_constant, {"a": FOUR, "zero": FOUR * 0}, {}, {"HZ301"}),
    "view-of-first-copied": (view_of_the_first, SQUARES, {"ebc": {"remove_view_copy": False}}, set()),
    "swap-in-shared-arena": (swap, TWO, {"mpp": {"share_mutable_buffers": True}}, {"HZ301"}),
    "old-returned-unplanned": (old_state_returned, {"a": FOUR}, {"mpp": {"alloc_graph_input": False}}, {"HZ303"}),
}


def experiment(name: str) -> Experiment:
    update, buffers, options, _ = VARIANTS[name]
    inputs = [(FOUR * s + 0.5,) for s in (1, -2, 3, -4, 5)]
    return Experiment(module(update, **buffers), (FOUR,), None, options, [inputs])


def lowered(name: str) -> tuple[Any, Any]:
    from corpus import runner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return runner.lower(experiment(name))


def rules_of(program: Program) -> set[str]:
    report = hazard.check(program)
    found = {f.code for f in report.findings if f.severity != "note"}
    assert report.verdict == ("hazard" if found else "proved")
    assert not any(m.assumptions or m.reasons for p in report.programs for m in p.methods)
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_runtime_agrees(name: str) -> None:
    from corpus import runner

    edge, config = lowered(name)
    outcome = runner.observe(lambda: experiment(name), bytes(edge.to_executorch(config).buffer))
    assert outcome["outcome"] == ("MISMATCH" if VARIANTS[name][3] else "match")


@pytest.mark.parametrize("name", VARIANTS)
def test_found_from_the_edge_program(name: str) -> None:
    edge, config = lowered(name)
    before = (str(edge.exported_program().graph_signature), str(edge.exported_program().graph))
    assert rules_of(plan_edge(edge, config)) == VARIANTS[name][3]
    assert (str(edge.exported_program().graph_signature), str(edge.exported_program().graph)) == before
    # What was checked is what is then made.
    assert rules_of(from_manager(edge.to_executorch(config))) == VARIANTS[name][3]


@pytest.mark.parametrize("name", VARIANTS)
def test_found_from_the_planned_program(name: str) -> None:
    edge, config = lowered(name)
    signatures = edge_signatures(edge)
    manager = edge.to_executorch(config)
    assert rules_of(from_manager(manager)) == VARIANTS[name][3]
    assert rules_of(from_manager(manager, signatures)) == VARIANTS[name][3]


@pytest.mark.parametrize("name", VARIANTS)
def test_found_while_planning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    expected = VARIANTS[name][3]
    edge, config = lowered(name)
    checked = CheckedPlanning(config.memory_planning_pass)
    config.memory_planning_pass = checked
    if not expected:
        edge.to_executorch(config)
        return
    with pytest.raises(hazard.HazardError) as raised:
        edge.to_executorch(config)
    assert {f.code for f in raised.value.report.findings if f.severity != "note"} == expected
    edge, config = lowered(name)
    config.memory_planning_pass = CheckedPlanning(config.memory_planning_pass, on_hazard="warn")
    with caplog.at_level(logging.WARNING, "hazard"):
        assert edge.to_executorch(config).buffer
    assert any(code in record.getMessage() for code in expected for record in caplog.records)
