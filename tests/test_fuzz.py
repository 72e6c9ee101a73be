"""A small fixed set of random models, and the tools that make, cut down and judge them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz import __main__ as command
from tests.fuzz import inputs
from tests.fuzz.generate import generate
from tests.fuzz.judge import build_module, judge
from tests.fuzz.recipe import RecipeError, source
from tests.fuzz.shrink import shrink

AGREEMENT = {"agree-clean", "agree-hazard", "shadow-confirmed"}

#: What the program file cannot show, because it is wrong in a way that its twin shares.
ONLY_GRAPHS_SHOW = "unseen"


@pytest.mark.parametrize("seed", [1, 2, 13, 14, 20, 33])
def test_runtime_and_verdicts_agree(seed: int) -> None:
    outcomes = judge(source(generate(seed)), f"fixed_{seed}", seed)
    assert outcomes
    for outcome in outcomes:
        assert outcome.status in ("ok", "export-error")
        if outcome.status == "ok":
            assert outcome.graph_kind in AGREEMENT, outcome.graph_findings
            assert outcome.kind in {*AGREEMENT, ONLY_GRAPHS_SHOW}, outcome.findings
    assert any(o.status == "ok" for o in outcomes)


# Two conds side by side: the runtime is wrong, and that must be seen by twin, eager and both analyses.
def test_a_known_fault_is_seen_by_everybody() -> None:
    recipe = _two_conds()
    (outcome,) = judge(source(recipe), "two_conds")
    assert outcome.against_twin
    assert outcome.against_eager
    assert outcome.kind == outcome.graph_kind == "agree-hazard"
    assert {f[0] for f in outcome.findings} == {"HZ101"}


def test_a_known_fault_that_bytes_do_not_show_is_seen_from_the_graph() -> None:
    recipe = _swap()
    (outcome,) = judge(source(recipe), "swap")
    assert not outcome.against_twin
    assert outcome.against_eager
    assert outcome.kind == "unseen"
    assert outcome.graph_kind == "agree-hazard"
    assert {f[0] for f in outcome.graph_findings} == {"HZ301"}


def _recipe(body: list[Any], outputs: list[Any], buffers: list[Any]) -> Any:
    method = {"inputs": [["value", [4], "x"]], "buffers": buffers, "body": body, "outputs": outputs}
    return {"name": "by hand", "seed": 0, "dtype": "torch.float32", "methods": [method], "variants": [{}]}


def _branch(name: str, op: str) -> Any:
    last = {"k": "un", "out": f"r{name}", "op": op, "a": [f"a{name}", [4]], "shape": [4]}
    return {"params": [f"a{name}"], "body": [last], "ret": [[f"r{name}", [4]]]}


def _two_conds() -> Any:
    conds = [
        {"k": "cond", "outs": [f"c{i}"], "pred": "p", "args": [["x", [4]]],
         "t": _branch(f"t{i}", f"$a * {i + 2}"), "f": _branch(f"f{i}", f"$a - {i + 2}")}
        for i in range(2)
    ]  # fmt: skip
    predicate = {"k": "pred", "out": "p", "op": "$a.sum() > 0", "a": ["x", [4]]}
    unused = {"k": "un", "out": "u", "op": "torch.abs($a)", "a": ["x", [4]], "shape": [4]}
    return _recipe([predicate, unused, *conds], [["c0", [4]], ["c1", [4]]], [])


def _swap() -> Any:
    body = [
        {"k": "un", "out": "old", "op": "$a.clone()", "a": ["b0", [4]], "shape": [4]},
        {"k": "set", "buf": "b0", "op": "$b.copy_($a)", "a": ["b1", [4]]},
        {"k": "set", "buf": "b1", "op": "$b.copy_($a)", "a": ["old", [4]]},
        {"k": "bin", "out": "y", "op": "$a + $b", "a": ["x", [4]], "b": ["b0", [4]], "shape": [4]},
    ]
    return _recipe(body, [["y", [4]]], [["b0", [4], [1, 2, 3, 4]], ["b1", [4], [5, 6, 7, 8]]])


# --- recipes


def test_a_seed_is_one_model() -> None:
    for seed in range(40):
        text = source(generate(seed))
        assert text == source(generate(seed))
        compile(text, "model", "exec")
    assert source(generate(1)) != source(generate(2))


def test_models_have_what_planning_finds_hard() -> None:
    texts = [source(generate(seed)) for seed in range(300)]
    words = """torch.cond( torch_map( scan( register_buffer index_put logical_and Model1 Dim( .view( naive
        run_reinplace_pass remove_view_copy 'alloc_graph_output':"""
    for word in words.split():
        assert sum(word in text for text in texts) >= 5, word
    nested = [t for t in texts if "                def c" in t]
    assert len(nested) >= 20


def test_a_reference_to_what_was_cut_away_finds_another_value_of_its_shape() -> None:
    recipe = _swap()
    method = recipe["methods"][0]
    method["body"] = method["body"][-1:]
    method["body"][0]["b"] = ["gone", [4]]
    assert "y = x + x" in source(recipe)
    method["body"][0]["b"] = ["gone", [7]]
    with pytest.raises(RecipeError, match="nothing of shape"):
        source(recipe)


def test_branches_return_nothing_of_outside() -> None:
    recipe = _two_conds()
    recipe["methods"][0]["body"][2]["t"]["ret"] = [["at0", [4]]]
    assert "return at0.clone()" in source(recipe)


# --- inputs


def test_calls_are_the_same_for_a_seed_and_differ_otherwise() -> None:
    shapes = [[("value", ("n", 2)), ("flag", (1,))]]
    first, again, other = (inputs.calls(s, shapes, torch.float32, ["forward"]) for s in (1, 1, 2))
    flat = [torch.cat([t.flatten().float() for step in sequence for t in step]) for sequence in (*first, *other)]
    assert all(torch.equal(a, b) for x, y in zip(first, again, strict=True)
               for s, t in zip(x, y, strict=True) for a, b in zip(s, t, strict=True))  # fmt: skip
    assert not all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(flat[:8], flat[8:], strict=True))
    assert {step[0].shape[0] for sequence in first for step in sequence} <= {2, 3, 4, 5, 6}


def test_several_methods_take_turns_at_first() -> None:
    shapes = [[("value", (2,))], [("value", (3,))]]
    sequences = inputs.calls(0, shapes, torch.int64, ["forward", "other"])
    assert [name for name, _ in sequences[0]] == ["forward", "other", "forward", "other", "forward"]
    assert all(len(step[1][0]) == (2 if step[0] == "forward" else 3) for s in sequences for step in s)


# --- cutting down


def test_what_is_not_needed_is_cut_away() -> None:
    recipe = _two_conds()
    recipe["variants"] = [{"mpp": {"alignment": "8"}, "init": "False"}]
    before = copy.deepcopy(recipe)

    def holds(candidate: Any) -> bool:
        try:
            return source(candidate).count("torch.cond(") == 2
        except RecipeError:
            return False

    small = shrink(recipe, holds)
    assert recipe == before
    assert small["variants"] == [{}]
    (method,) = small["methods"]
    assert [s["k"] for s in method["body"]] == ["pred", "cond", "cond"]
    assert len(method["outputs"]) == 1
    assert [s["t"]["body"] for s in method["body"][1:]] == [[], []]


# --- the command


def test_results_are_kept_and_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    made: list[int] = []

    def judged(seeds: list[int], out: Path, stop: float, held: bool) -> Any:
        for seed in seeds:
            made.append(seed)
            yield [{"seed": seed, "variant": v, "status": "ok", "kind": kind, "graph_kind": kind, "detail": ""}
                   for v, kind in enumerate(["agree-clean", "missed" if seed == 1 else "agree-hazard"])]  # fmt: skip

    monkeypatch.setattr(command, "_judged", judged)
    monkeypatch.setattr("sys.argv", ["fuzz", "--seeds", "0:2", "--out", str(tmp_path)])
    assert command.main() == 1
    out = capsys.readouterr().out
    assert "seed 1/1: ok missed / missed" in out
    assert "program files: 2 agree-clean, 1 agree-hazard, 1 missed" in out
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"seed": 7, "half')
    monkeypatch.setattr("sys.argv", ["fuzz", "--seeds", "0:3", "--out", str(tmp_path)])
    command.main()
    assert made == [0, 1, 2]
    assert [r["seed"] for r in command.read(tmp_path / "results.jsonl")] == [0, 0, 1, 1, 2, 2]


def test_control_flow_runs_plainly_in_eager() -> None:
    from tests.fuzz.judge import plain_control_flow

    module = build_module(source(generate(10)), "plain")
    real = torch.cond
    with plain_control_flow(module):
        assert torch.cond(torch.tensor(False), lambda v: v + 1, lambda v: v - 1, (torch.ones(1),)).item() == 0
        rows = module.torch_map(lambda r, k: r * k, torch.arange(3.0), torch.tensor(2.0))
        carry, sums = module.scan(lambda c, r: (c + r, c + r), torch.tensor(0.0), torch.arange(4.0), dim=0)
    assert torch.cond is real
    assert rows.tolist() == [0, 2, 4]
    assert carry.item() == 6
    assert sums.tolist() == [0, 1, 3, 6]
