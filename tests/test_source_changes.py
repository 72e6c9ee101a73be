"""The changes of source and of export that findings advise cure the programs, under the runtime as in the check.

Each change is made to a model of the corpus, as a reader of the finding would make it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch._higher_order_ops.map import map as torch_map

import hazard
from corpus import cases
from corpus.experiment import Experiment, floats
from hazard.pipeline import from_manager
from hazard.repair.fix import repair_program
from hazard.repair.suggest import suggest

Change = Callable[[Experiment], Experiment]


class Advice(NamedTuple):
    """What a finding of a case advises (``words`` of its help or of a suggestion), and the change that it means."""

    case: str
    code: str
    words: str
    change: Change


pytestmark = pytest.mark.usefixtures("quiet")


# --- how a program is changed -----------------------------------------------------------------------------------------


def rewritten(**methods: Callable[..., Any]) -> Change:
    """Another source: the case's model with other methods."""

    def change(experiment: Experiment) -> Experiment:
        return experiment._replace(module=type("Changed", (type(experiment.module),), methods)())

    return change


def configured(**options: Any) -> Change:
    """Other options of `ExecutorchBackendConfig`."""

    def change(experiment: Experiment) -> Experiment:
        config = {**experiment.options.get("ebc", {}), **options}
        return experiment._replace(options={**experiment.options, "ebc": config})

    return change


def planned(**options: Any) -> Change:
    """Other options of `MemoryPlanningPass`."""

    def change(experiment: Experiment) -> Experiment:
        planner = {**experiment.options.get("mpp", {}), **options}
        return experiment._replace(options={**experiment.options, "mpp": planner})

    return change


def loaded_first(experiment: Experiment) -> Experiment:
    """All methods are loaded before the first call."""
    return experiment._replace(options={**experiment.options, "preload": True})


def shared(experiment: Experiment) -> Experiment:
    return planned(share_mutable_buffers=True)(loaded_first(experiment))


def shared_under_other_names(experiment: Experiment) -> Experiment:
    """The methods' buffers, which have one name, are not one state."""
    methods = experiment.options["methods"]
    named = {}
    for name, (module, inputs) in methods.items():
        holder = torch.nn.Module()
        holder.add_module(name, module)
        holder.forward = getattr(holder, name).forward
        named[name] = (holder, inputs)
    return shared(experiment._replace(options={**experiment.options, "methods": named}))


def without(option: str) -> Change:
    def change(experiment: Experiment) -> Experiment:
        return experiment._replace(options={k: v for k, v in experiment.options.items() if k != option})

    return change


KEEP_COPIES_OF_VIEWS = configured(remove_view_copy=False)
NOT_REINPLACED = configured(run_reinplace_pass=False, reinplace_extra_ops=None)


# --- the models, changed ----------------------------------------------------------------------------------------------


def two_conds_first_copied(self: Any, x: Any) -> Any:
    predicate = x.sum() > 0
    a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,)).clone()
    b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,))
    return a, b


def mapped_copy_of_cond_result(self: Any, x: Any) -> Any:
    a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)).clone()
    return torch_map(lambda r, k: r * 2 + k, a, x[0].clone())


def copied_operand_of_second_cond(self: Any, x: Any) -> Any:
    predicate = x.sum() > 0
    a = torch.cond(predicate, lambda v: v + 1.5, lambda v: v - 1.5, (x,)).clone()
    return torch.cond(predicate, lambda v: v.flip(0), lambda v: torch.cumsum(v, 0), (a,))


def view_of_copied_result(self: Any, x: Any) -> Any:
    a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)).clone()
    return a.view(2, 2) * 1


def view_of_copied_operand_in_map(self: Any, x: Any, k: Any) -> Any:
    return torch_map(lambda r, k: r * k.clone().view(2), x, k)


def view_of_copied_buffer_in_branch(self: Any, x: Any) -> Any:
    def when_true(v: Any) -> Any:
        return self.buf.clone().view(2, 2) * v

    def when_false(v: Any) -> Any:
        return self.buf.clone().view(2, 2) + v

    a = torch.cond(x.sum() > 0, when_true, when_false, (x,))
    self.buf.add_(1)
    return a * 1


def swap_of_computed(self: Any, x: Any) -> Any:
    old = self.a.clone()
    self.a.copy_(self.b + 0)
    self.b.copy_(old)
    return self.a + x, self.b + x


def swap_of_converted(self: Any, x: Any) -> Any:
    old = self.a.clone()
    self.a.copy_(self.b.to(torch.float32, copy=True))
    self.b.copy_(old)
    return self.a + x, self.b + x


def swap_of_clone(self: Any, x: Any) -> Any:
    old = self.a.clone()
    self.a.copy_(self.b.clone())
    self.b.copy_(old)
    return self.a + x, self.b + x


def cloned_under_a_pass(experiment: Experiment) -> Experiment:
    """The swap with `.clone()`, where a pass removes clones."""
    from corpus.passes import RemoveClones

    options = {**experiment.options, "edge_hook": lambda edge: edge.transform([RemoveClones()])}
    return rewritten(forward=swap_of_clone)(experiment)._replace(options=options)


def reset_to_computed(self: Any, x: Any) -> Any:
    out = self.st + x
    self.st.copy_(self.zero + 0)
    return out


def pair_of_computed(self: Any, x: Any) -> Any:
    new = torch.tanh(self.h * 0.5 + x)
    difference = new - self.h_prev
    self.h_prev.copy_(self.h + 0)
    self.h.copy_(new)
    return new, difference


def registers_of_computed(self: Any, x: Any) -> Any:
    out = self.s3 + 0
    self.s3.copy_(self.s2.view(4) + 0)
    self.s2.copy_(self.s1.view(2, 2) + 0)
    self.s1.copy_(x)
    return out


def registers_in_the_order_of_their_updates(self: Any) -> None:
    torch.nn.Module.__init__(self)
    self.register_buffer("s3", floats(3, 3, 3, 3))
    self.register_buffer("s2", floats(2, 2, 2, 2).view(2, 2))
    self.register_buffer("s1", floats(1, 1, 1, 1))


def counter_returns_computed(self: Any, x: Any) -> Any:
    old = self.n + 0
    self.n.add_(1)
    return old, x + old


def old_state_is_computed(self: Any, x: Any) -> Any:
    old = self.buf + 0
    self.buf.copy_(x)
    return old, old * 2


def old_state_of_put_is_computed(self: Any, i: Any, v: Any) -> Any:
    old = self.s + 0
    self.s.index_put_((i,), v)
    return old * 1, old


def put_into_copy(self: Any, x: Any, i: Any, v: Any) -> Any:
    a = x * 2
    kept = a.clone()
    return kept, a.index_put((i,), v)


def put_copied_values(self: Any, x: Any, perm: Any) -> Any:
    a = x * 2
    return a.index_put((perm,), a.clone()) * 1


def put_at_copied_indices(self: Any, x: Any) -> Any:
    a = x + 0
    return a.index_put((a.clone(),), torch.tensor([3, 2, 1, 0])) + 0


def put_into_copied_constant(self: Any, i: Any, v: Any) -> Any:
    return self.w.clone().view(4).index_put((i,), v) * 1


def branch_returns_computed(self: Any, x: Any) -> Any:
    t = x * 3
    a = torch.cond(x.sum() > 0, lambda v: v + 0, lambda v: v * 2, (t,))
    u = x + 100
    return a + 1, u * u + 1


def branch_results_copied(self: Any, x: Any) -> Any:
    def when_true(v: Any) -> Any:
        u = v + 1
        return u, u.view(2, 2) * 2

    def when_false(v: Any) -> Any:
        u = v - 1
        return u, u.view(2, 2) * 3

    a, b = torch.cond(x.sum() > 0, when_true, when_false, (x,))
    return a.clone(), b.clone()


def input_returned_as_copy(self: Any, x: Any) -> Any:
    return x.clone(), x + 1


def new_value_returned(experiment: Experiment) -> Experiment:
    """What the model stored in its input is an output like others."""

    def forward(self: Any, x: Any) -> Any:
        new = x + 1
        return new, new * 2

    return without("mutated_inputs")(rewritten(forward=forward)(experiment))


ADVICE: dict[str, Advice] = {
    "A": Advice("c01_two_sibling_both_out", "HZ101", ".clone()", rewritten(forward=two_conds_first_copied)),
    "A2-loop": Advice("f29_map_over_cond_output", "HZ102", ".clone()", rewritten(forward=mapped_copy_of_cond_result)),
    "A2-kernel": Advice(
        "c29c_operand_reversed_read", "HZ102", ".clone()", rewritten(forward=copied_operand_of_second_cond)
    ),
    "B-source": Advice("d01_view_of_cond_output", "HZ201", ".clone()", rewritten(forward=view_of_copied_result)),
    "B-export": Advice("d01_view_of_cond_output", "HZ201", "remove_view_copy=False", KEEP_COPIES_OF_VIEWS),
    "B2-map-source": Advice(
        "f41b_map_body_view_of_operand", "HZ201", ".clone()", rewritten(forward=view_of_copied_operand_in_map)
    ),
    "B2-map-export": Advice("f41b_map_body_view_of_operand", "HZ201", "remove_view_copy=False", KEEP_COPIES_OF_VIEWS),
    "B2-branch-source": Advice(
        "f41e_cond_branch_view_of_buffer_operand",
        "HZ201",
        ".clone()",
        rewritten(forward=view_of_copied_buffer_in_branch),
    ),
    "B2-branch-export": Advice(
        "f41e_cond_branch_view_of_buffer_operand", "HZ201", "remove_view_copy=False", KEEP_COPIES_OF_VIEWS
    ),
    "C-swap": Advice("c14e_two_buffers_swap", "HZ301", "new + 0", rewritten(forward=swap_of_computed)),
    "C-reset": Advice("j13_state_reset_to_constant_buffer", "HZ301", "new + 0", rewritten(forward=reset_to_computed)),
    "C-pair": Advice("d02e_rnn_state_pair", "HZ301", "new + 0", rewritten(forward=pair_of_computed)),
    "C2-source": Advice(
        "d02_fifo_views_writeback_order", "HZ302", "old + 0", rewritten(forward=registers_of_computed)
    ),
    "C2-export": Advice("d02_fifo_views_writeback_order", "HZ302", "remove_view_copy=False", KEEP_COPIES_OF_VIEWS),
    "C2-order": Advice(
        "d02_fifo_views_writeback_order",
        "HZ302",
        "register",
        rewritten(__init__=registers_in_the_order_of_their_updates),
    ),
    "D": Advice(
        "k06_old_state_is_output_and_updated_by_add", "HZ303", "old + 0", rewritten(forward=counter_returns_computed)
    ),
    "D-own-pass": Advice("d11b_remove_clone_state", "HZ303", "old + 0", rewritten(forward=old_state_is_computed)),
    "D-shipped-pass": Advice(
        "g03_shipped_remove_clone_in_branch_and_top", "HZ303", "old + 0", rewritten(forward=old_state_is_computed)
    ),
    "D-in-place": Advice(
        "f39b_old_state_through_noop_in_late_op", "HZ303", "old + 0", rewritten(forward=old_state_of_put_is_computed)
    ),
    "E1": Advice("c16_reinplace_default_view_used_later", "HZ404", "run_reinplace_pass=False", NOT_REINPLACED),
    "E1-state": Advice("e02c_reinplace_buffer_old_view_after", "HZ404", "run_reinplace_pass=False", NOT_REINPLACED),
    "E1-base": Advice("c16e_reinplace_base_of_view", "HZ403", "run_reinplace_pass=False", NOT_REINPLACED),
    "E1-constant-source": Advice(
        "c16g_reinplace_view_of_constant", "HZ703", ".clone()", rewritten(forward=put_into_copied_constant)
    ),
    "E1-constant-export": Advice(
        "c16g_reinplace_view_of_constant", "HZ703", "run_reinplace_pass=False", NOT_REINPLACED
    ),
    "E2-source": Advice("c16d_reinplace_output_twice", "HZ403", ".clone()", rewritten(forward=put_into_copy)),
    "E2-export": Advice("c16d_reinplace_output_twice", "HZ403", "run_reinplace_pass=False", NOT_REINPLACED),
    "E3-values-source": Advice(
        "e02_reinplace_self_and_values_same", "HZ403", ".clone()", rewritten(forward=put_copied_values)
    ),
    "E3-values-export": Advice(
        "e02_reinplace_self_and_values_same", "HZ403", "run_reinplace_pass=False", NOT_REINPLACED
    ),
    "E3-indices-source": Advice(
        "e02d_reinplace_indices_alias", "HZ403", ".clone()", rewritten(forward=put_at_copied_indices)
    ),
    "E4": Advice("c16i_reinplace_extra_annotation_two_siblings", "HZ402", "reinplace_extra_ops", NOT_REINPLACED),
    "E4-collision": Advice(
        "c16i_reinplace_extra_annotation_two_siblings",
        "HZ403",
        "take its operator out of `reinplace_extra_ops`",
        configured(reinplace_extra_ops=None),
    ),
    "E5": Advice("h01_inplace_result_lifetime", "HZ103", "run_reinplace_pass=False", NOT_REINPLACED),
    "E5-chain": Advice("h02_inplace_chain_cond_operand", "HZ103", "run_reinplace_pass=False", NOT_REINPLACED),
    "E6": Advice("e02e_reinplace_kv_cache", "HZ404", "run_reinplace_pass=False", NOT_REINPLACED),
    "F1-state": Advice("c19d_multimethod_distinct_state_no_share", "HZ501", "share_mutable_buffers=True", shared),
    "F1-activations": Advice("h09_stateful_plus_big_stateless_method", "HZ501", "share_mutable_buffers=True", shared),
    "F1-names": Advice(
        "m04_two_kv_caches_unshared",
        "HZ501",
        "share_mutable_buffers=True (buffers `cache` that are not one state need different names)",
        shared_under_other_names,
    ),
    "F2": Advice("h10_shared_state_lazy_second_load", "HZ502", "load all methods before the first call", loaded_first),
    "G-source": Advice(
        "d05_noalloc_out_branch_view_second_run", "HZ601", "return a clone", rewritten(forward=branch_results_copied)
    ),
    "G-export": Advice(
        "d05_noalloc_out_branch_view_second_run",
        "HZ601",
        "let the plan place the output",
        planned(alloc_graph_output=True),
    ),
    "H-source": Advice(
        "c15e_return_input_noalloc", "HZ602", "return a clone of the input", rewritten(forward=input_returned_as_copy)
    ),
    "H-export": Advice(
        "c15e_return_input_noalloc",
        "HZ602",
        "`alloc_graph_input=True`, `alloc_graph_output=True`",
        planned(alloc_graph_input=True, alloc_graph_output=True),
    ),
    "H-mutated-source": Advice(
        "l02_mutated_input_noalloc_input",
        "HZ602",
        "return a new value rather than change the input",
        new_value_returned,
    ),
    "H-mutated-export": Advice(
        "l02_mutated_input_noalloc_input",
        "HZ602",
        "`alloc_graph_input=True`, `alloc_graph_output=True`",
        planned(alloc_graph_input=True, alloc_graph_output=True),
    ),
    "I-source": Advice("d11_remove_clone_transform", "HZ104", "x + 0", rewritten(forward=branch_returns_computed)),
    "I-export": Advice(
        "d11_remove_clone_transform", "HZ104", "leave out the pass that removes its copy", without("edge_hook")
    ),
}


# --- and what comes of it ---------------------------------------------------------------------------------------------


def made(experiment: Experiment, runner: ModuleType) -> Any:
    """The planned program, as `to_executorch` gives it."""
    edge, config = runner.lower(experiment)
    return edge.to_executorch(config)


def codes(report: Any) -> set[str]:
    return {f.code for f in report.findings if f.severity != "note"}


@cache
def advised(name: str) -> dict[str, list[str]]:
    """By rule: for each finding of the case its help, the rule's page and the suggestions as one text."""
    from corpus import runner

    program = from_manager(made(runner.load_build(name)(), runner))
    suggestions = {f.fingerprint: [str(s) for s in choices] for f, choices in suggest(repair_program(program))}
    found: dict[str, list[str]] = {}
    pages = {rule.code: rule.docs for rule in hazard.rule.all_rules()}
    for f in hazard.check(program).findings:
        if f.severity != "note":
            page = pages[f.code].partition("## What to do")[2]
            found.setdefault(f.code, []).append("\n".join([f.help, page, *suggestions.get(f.fingerprint, [])]))
    return found


@pytest.mark.parametrize("name", ADVICE)
def test_the_fault_is_found_and_the_change_advised(name: str) -> None:
    case, code, words, _ = ADVICE[name]
    assert cases.Case(case).outcome()["outcome"] == "MISMATCH"
    assert cases.Case(case).kind == name.partition("-")[0] or case == "c16e_reinplace_base_of_view"
    texts = advised(case)[code]
    assert texts
    assert all(words in text for text in texts)


@pytest.mark.parametrize("name", ADVICE)
def test_the_change_cures(name: str, runner: ModuleType) -> None:
    build, change = runner.load_build(ADVICE[name].case), ADVICE[name].change
    manager = made(change(build()), runner)
    report = hazard.check(manager, load="eager" if change is loaded_first else None)
    assert report.verdict == "proved"
    assert codes(report) == set()
    assert not any(m.assumptions or m.reasons for p in report.programs for m in p.methods)
    # The changed source means the same as the case's own, which is the judge unless the calls were changed.
    if change not in (loaded_first, shared, shared_under_other_names):
        assert runner.observe(build, bytes(manager.buffer)) == {"outcome": "match"}
    assert runner.observe(lambda: change(build()), bytes(manager.buffer)) == {"outcome": "match"}


NOT_ENOUGH: dict[str, tuple[str, Change, set[str]]] = {
    "C-conversion": ("c14e_two_buffers_swap", rewritten(forward=swap_of_converted), {"HZ301"}),
    "C-clone-removed": ("c14e_two_buffers_swap", cloned_under_a_pass, {"HZ301"}),
    "D-not-reinplaced": ("f39b_old_state_through_noop_in_late_op", NOT_REINPLACED, {"HZ303"}),
    "E1-copies-of-views": ("c16_reinplace_default_view_used_later", KEEP_COPIES_OF_VIEWS, {"HZ103"}),
    "F1-one-name": ("m04_two_kv_caches_unshared", shared, {"HZ502", "HZ503"}),
    "H-returned-and-only-inputs-planned": ("c15e_return_input_noalloc", planned(alloc_graph_input=True), {"HZ602"}),
    "E4-pass-by-its-operators": (
        "c16i_reinplace_extra_annotation_two_siblings",
        configured(run_reinplace_pass=False),
        {"HZ402", "HZ403"},
    ),
}


@pytest.mark.parametrize("name", NOT_ENOUGH)
def test_what_is_not_advised_does_not_cure(name: str, runner: ModuleType) -> None:
    case, change, expected = NOT_ENOUGH[name]
    build = runner.load_build(case)
    manager = made(change(build()), runner)
    assert codes(hazard.check(manager)) == expected
    assert runner.observe(build, bytes(manager.buffer))["outcome"] == "MISMATCH"


def test_initial_state_is_lost_and_advised(runner: ModuleType) -> None:
    def ones(self: Any) -> None:
        torch.nn.Module.__init__(self)
        self.register_buffer("buf", floats(1, 1))

    def build() -> Experiment:
        return rewritten(__init__=ones)(runner.load_build("d09_uninit_state")())

    manager = made(build(), runner)
    (finding,) = [f for f in hazard.check(manager).findings if f.severity != "note"]
    assert finding.code == "HZ202"
    assert "`InitializedMutableBufferPass`" in finding.help
    assert runner.observe(build, bytes(manager.buffer))["outcome"] == "MISMATCH"
    with_values = made(without("init")(build()), runner)
    assert hazard.check(with_values).verdict == "proved"
    assert runner.observe(build, bytes(with_values.buffer)) == {"outcome": "match"}


def test_a_copy_is_not_advised_where_the_kernel_is_put_over_what_it_reads(runner: ModuleType) -> None:
    """The copy would share its storage in turn."""
    manager = made(runner.load_build("c16i_reinplace_extra_annotation_two_siblings")(), runner)
    advice = {f.message: f.help for f in hazard.check(manager).findings if f.code == "HZ403"}
    assert {"(`.clone()`)" in text for message, text in advice.items() if "still reads it" in message} == {False}
    assert {"(`.clone()`)" in text for message, text in advice.items() if "is read after" in message} == {True}


def test_an_input_called_as_a_buffer_is_renamed(runner: ModuleType) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", floats(1, 2))

        def forward(self, x: Any) -> Any:
            out = self.a * 1
            self.a.copy_(x + 1)
            return out

    class Namesake(Model):
        def forward(self, a: Any) -> Any:
            return super().forward(a)

    def experiment(model: type[torch.nn.Module]) -> Experiment:
        calls = [(floats(3, 4),), (floats(5, 6),), (floats(7, 8),)]
        return Experiment(model(), (floats(0, 0),), sequences=[calls])

    manager = made(experiment(Namesake), runner)
    (finding,) = [f for f in hazard.check(manager).findings if f.severity != "note"]
    assert (finding.code, finding.help) == ("HZ301", "call the input or the buffer `a` by another name")
    assert runner.observe(lambda: experiment(Namesake), bytes(manager.buffer))["outcome"] == "MISMATCH"
    renamed = made(experiment(Model), runner)
    assert hazard.check(renamed).verdict == "proved"
    assert runner.observe(lambda: experiment(Model), bytes(renamed.buffer)) == {"outcome": "match"}
