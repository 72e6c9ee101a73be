"""Cuts a model on which analysis and runtime do not agree down to a small one on which they still do not.

    python -m tests.fuzz.shrink fuzz-results/models/seed_000091.json --out case --budget 300

Greedy: it removes statements, results, arguments, outputs, inputs, buffers and options, each for as long as the same
judgement remains. Writes ``model.py``, ``program.pte`` and ``recipe.json`` to the folder.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.recipe import Json, RecipeError, source

Holds = Callable[[Json], bool]


def shrink(recipe: Json, holds: Holds, stop: float = float("inf")) -> Json:
    """The smallest recipe found for which ``holds`` is true; it is true for ``recipe``.

    Gives up at ``stop`` (of `time.monotonic`).
    """
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(recipe):
            if time.monotonic() > stop:
                return recipe
            if holds(candidate):
                recipe = candidate
                changed = True
                break
    return recipe


def _smaller(recipe: Json) -> Iterator[Json]:
    """Recipes with one thing less, the largest pieces first."""
    if len(recipe["methods"]) > 1:
        for m in range(len(recipe["methods"])):
            yield _edited(recipe, lambda r, m=m: r["methods"].pop(1 - m))
    options = recipe["variants"][0]
    for key, value in options.items():
        if isinstance(value, dict):
            for name in value:
                yield _edited(recipe, lambda r, key=key, name=name: _drop_option(r["variants"][0], key, name))
        else:
            yield _edited(recipe, lambda r, key=key: r["variants"][0].pop(key))
    if recipe.get("xnnpack"):
        yield _edited(recipe, lambda r: r.update(xnnpack=False))
    for path in _lists(recipe):
        items = _at(recipe, path)
        for i in reversed(range(len(items))):
            yield _edited(recipe, lambda r, path=path, i=i: _at(r, path).pop(i))
    for m, method in enumerate(recipe["methods"]):
        for part in ("outputs", "buffers", "inputs"):
            if len(method[part]) > (part != "buffers"):
                for i in reversed(range(len(method[part]))):
                    yield _edited(recipe, lambda r, m=m, part=part, i=i: r["methods"][m][part].pop(i))
    for path in _conds(recipe):
        s = _at(recipe, path)
        for i in range(len(s["outs"]) if len(s["outs"]) > 1 else 0):
            yield _edited(recipe, lambda r, path=path, i=i: _drop_result(_at(r, path), i))
        for i in range(len(s["args"]) if len(s["args"]) > 1 else 0):
            yield _edited(recipe, lambda r, path=path, i=i: _drop_argument(_at(r, path), i))
        for branch in ("t", "f"):
            if s[branch].get("closure"):
                yield _edited(recipe, lambda r, path=path, branch=branch: _at(r, path)[branch].update(closure=False))
    for path in _statements(recipe):
        s = _at(recipe, path)
        if s["k"] in ("un", "bin") and s.get("op") not in ("$a + 1", "$a * 2"):
            for op in ("$a + 1", "$a * 2"):
                yield _edited(recipe, lambda r, path=path, op=op: _simplify(_at(r, path), op))
    if recipe["dtype"] != "torch.float32":
        yield _edited(recipe, lambda r: r.update(dtype="torch.float32"))


def _edited(recipe: Json, edit: Callable[[Json], Any]) -> Json:
    result = copy.deepcopy(recipe)
    edit(result)
    return result


def _at(recipe: Json, path: tuple[Any, ...]) -> Any:
    for step in path:
        recipe = recipe[step]
    return recipe


def _lists(recipe: Json) -> Iterator[tuple[Any, ...]]:
    """Paths of all lists of statements, the outer ones first."""
    work: list[tuple[Any, ...]] = [("methods", m, "body") for m in range(len(recipe["methods"]))]
    while work:
        path = work.pop(0)
        yield path
        for i, s in enumerate(_at(recipe, path)):
            work += [(*path, i, part, "body") for part in ("t", "f", "body") if isinstance(s.get(part), dict)]


def _statements(recipe: Json) -> Iterator[tuple[Any, ...]]:
    for path in _lists(recipe):
        for i in range(len(_at(recipe, path))):
            yield (*path, i)


def _conds(recipe: Json) -> Iterator[tuple[Any, ...]]:
    return (p for p in _statements(recipe) if _at(recipe, p)["k"] == "cond")


def _drop_option(options: Json, group: str, name: str) -> None:
    del options[group][name]
    if not options[group]:
        del options[group]


def _drop_result(s: Json, i: int) -> None:
    s["outs"].pop(i)
    s["t"]["ret"].pop(i)
    s["f"]["ret"].pop(i)


def _drop_argument(s: Json, i: int) -> None:
    s["args"].pop(i)
    s["t"]["params"].pop(i)
    s["f"]["params"].pop(i)


def _simplify(s: Json, op: str) -> None:
    s["k"], s["op"] = "un", op
    s.pop("b", None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, help="a recipe that the fuzzer has written (models/seed_*.json)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variant", type=int, default=0, help="which of its ways of planning")
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS")
    arguments = parser.parse_args()
    from tests.fuzz.worker import quiet

    answers = quiet()
    from tests.fuzz.judge import judge

    count = 0

    def judged(recipe: Json) -> Any:
        nonlocal count
        count += 1
        try:
            text = source(recipe)
        except RecipeError:
            return None
        return judge(text, f"candidate_{count}", recipe["seed"])[0]

    recipe = json.loads(arguments.recipe.read_text())
    recipe["variants"] = [recipe["variants"][arguments.variant]]
    start = judged(recipe)
    # Only what is wrong must remain: a change from a false alarm to agreement would be another case.
    alarming = ("missed", "unseen", "false-alarm", "unconfirmed", "twin-fault")
    wanted = {"kind": start.kind, "graph_kind": start.graph_kind} if start.kind else {"status": start.status}
    wanted = {k: v for k, v in wanted.items() if k == "status" or v in alarming} or wanted
    if codes := sorted({f[0] for f in start.findings if f[1] == "error"}):
        wanted["codes"] = codes if "unseen" not in wanted.values() else None

    def holds(candidate: Json) -> bool:
        found = judged(candidate)
        if found is None:
            return False
        if codes and wanted.get("codes") and not {f[0] for f in found.findings if f[1] == "error"} <= set(codes):
            return False
        return all(getattr(found, k) == v for k, v in wanted.items() if k != "codes")

    small = shrink(recipe, holds, time.monotonic() + arguments.budget)
    final = judged(small)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "recipe.json").write_text(json.dumps(small))
    (arguments.out / "model.py").write_text(source(small))
    (arguments.out / "program.pte").write_bytes(final.data)
    final.data = b""
    answers.write(f"{count} models judged\n{final}\n{source(small)}")
    answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
