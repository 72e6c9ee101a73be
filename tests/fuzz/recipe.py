"""What a random model is made of, and its Python source.

A recipe is plain data (dicts, lists, strings, numbers), so that it can be stored, compared and cut down. A reference is
``[name, shape]``. When the name is not in scope, because what defined it was cut away, the youngest value of the same
shape stands in; so a recipe stays a model when statements are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Any
Shape = tuple[Any, ...]  # of ints, and "n" for the dynamic size


class RecipeError(Exception):
    """A reference has nothing to stand for it, or a branch has nothing that it may return."""


@dataclass
class Scope:
    """Values by name. ``fresh`` are those computed in this block and no view of anything from outside."""

    values: dict[str, Shape] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    predicates: list[str] = field(default_factory=list)
    buffers: dict[str, Shape] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)  # what a view is a view of

    def block(self, parameters: dict[str, Shape], closure: bool) -> Scope:
        """The scope of a branch or body: its parameters, all buffers, and with ``closure`` what is around it."""
        inner = dict(self.values) if closure else {}
        return Scope(inner | parameters, set(), list(self.predicates) if closure else [], self.buffers, dict(self.base))

    def resolve(self, ref: Sequence[Any]) -> str:
        name, shape = ref[0], tuple(ref[1])
        if name in self.buffers:
            if self.buffers[name] == shape:
                return f"self.{name}"
        elif self.values.get(name) == shape:
            return str(name)
        for other in reversed(self.values):
            if self.values[other] == shape:
                return other
        for other, own in self.buffers.items():
            if own == shape:
                return f"self.{other}"
        raise RecipeError(f"nothing of shape {shape}")

    def predicate(self, name: str) -> str:
        if name in self.predicates:
            return name
        if self.predicates:
            return self.predicates[-1]
        raise RecipeError("no predicate")

    def storage(self, name: str) -> str:
        while name in self.base:
            name = self.base[name]
        return name

    def add(self, name: str, shape: Iterable[Any], fresh: bool) -> None:
        self.values[name] = tuple(shape)
        self.base.pop(name, None)
        if fresh:
            self.fresh.add(name)


class _Writer:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.lines: list[str] = []

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, statements: list[Json], scope: Scope, depth: int) -> None:
        for s in statements:
            getattr(self, "_" + s["k"])(s, scope, depth)

    def _un(self, s: Json, scope: Scope, depth: int) -> None:
        a = scope.resolve(s["a"])
        self.put(depth, f"{s['out']} = {s['op'].replace('$a', a)}")
        scope.add(s["out"], s["shape"], True)

    def _bin(self, s: Json, scope: Scope, depth: int) -> None:
        a, b = scope.resolve(s["a"]), scope.resolve(s["b"])
        self.put(depth, f"{s['out']} = {s['op'].replace('$a', a).replace('$b', b)}")
        scope.add(s["out"], s["shape"], True)

    def _view(self, s: Json, scope: Scope, depth: int) -> None:
        a = scope.resolve(s["a"])
        self.put(depth, f"{s['out']} = {s['op'].replace('$a', a)}")
        scope.add(s["out"], s["shape"], a in scope.fresh)
        scope.base[s["out"]] = a

    def _put(self, s: Json, scope: Scope, depth: int) -> None:
        a, v = scope.resolve(s["a"]), scope.resolve(s["v"])
        self.put(depth, f"{s['out']} = {a}.index_put(({s['i']},), {v})")
        scope.add(s["out"], s["a"][1], True)

    def _pred(self, s: Json, scope: Scope, depth: int) -> None:
        text = s["op"]
        if "a" in s:
            text = text.replace("$a", scope.resolve(s["a"]))
        for mark, name in zip(("$p", "$q"), s.get("of", ()), strict=False):
            text = text.replace(mark, scope.predicate(name))
        self.put(depth, f"{s['out']} = {text}")
        scope.predicates.append(s["out"])

    def _function(self, name: str, block: Json, shapes: list[Shape], scope: Scope, depth: int) -> None:
        """A nested function; the results are all of its own making and contiguous, as export demands."""
        parameters = dict(zip(block["params"], shapes, strict=True))
        inner = scope.block(parameters, block.get("closure", False))
        self.put(depth, f"def {name}({', '.join(block['params'])}):")
        self.block(block["body"], inner, depth + 1)
        results = []
        for r in block["ret"]:
            found = inner.resolve(r)
            results.append(found if found in inner.fresh and found not in results else f"{found}.clone()")
        tail = results[0] if len(results) == 1 else f"({', '.join(results)})"
        self.put(depth + 1, f"return {tail}")

    def _cond(self, s: Json, scope: Scope, depth: int) -> None:
        predicate = s["size"] if s.get("size") else scope.predicate(s["pred"])
        shapes = [tuple(r[1]) for r in s["args"]]
        arguments = [scope.resolve(r) for r in s["args"]]
        self._function(s["outs"][0] + "_t", s["t"], shapes, scope, depth)
        self._function(s["outs"][0] + "_f", s["f"], shapes, scope, depth)
        names = f"{s['outs'][0]}_t, {s['outs'][0]}_f"
        self.put(depth, f"{', '.join(s['outs'])} = torch.cond({predicate}, {names}, ({', '.join(arguments)},))")
        for out, r in zip(s["outs"], s["t"]["ret"], strict=True):
            scope.add(out, r[1], True)

    def _map(self, s: Json, scope: Scope, depth: int) -> None:
        xs = scope.resolve(s["xs"])
        arguments = [scope.resolve(r) for r in s["args"]]
        # Export refuses operands of a map that share storage.
        shared = scope.storage(xs)
        arguments = [f"{a}.clone()" if scope.storage(a) == shared else a for a in arguments]
        shapes = [tuple(s["xs"][1])[1:], *(tuple(r[1]) for r in s["args"])]
        self._function(s["out"] + "_body", s["body"], shapes, scope, depth)
        self.put(depth, f"{s['out']} = torch_map({', '.join([s['out'] + '_body', xs, *arguments])})")
        scope.add(s["out"], [s["xs"][1][0], *s["body"]["ret"][0][1]], True)

    def _scan(self, s: Json, scope: Scope, depth: int) -> None:
        xs, start = scope.resolve(s["xs"]), scope.resolve(s["init"])
        shapes = [tuple(s["init"][1]), tuple(s["xs"][1])[1:]]
        self._function(s["outs"][0] + "_body", s["body"], shapes, scope, depth)
        call = f"scan({s['outs'][0]}_body, {start}.clone(), {xs}, dim=0)"
        self.put(depth, f"{', '.join(s['outs'])} = {call}")
        scope.add(s["outs"][0], s["init"][1], True)
        scope.add(s["outs"][1], [s["xs"][1][0], *s["body"]["ret"][1][1]], True)

    def _set(self, s: Json, scope: Scope, depth: int) -> None:
        if s["buf"] not in scope.buffers:
            raise RecipeError("no such buffer")
        text = s["op"].replace("$b", f"self.{s['buf']}")
        if "a" in s:
            text = text.replace("$a", scope.resolve(s["a"]))
        self.put(depth, text)


def source(recipe: Json, sequences: str | None = None) -> str:
    """The module of Python source that a recipe stands for: ``Model`` classes and ``build()``, as in the corpus.

    ``build`` takes the index of a variant: planner options, of which a recipe has several. ``sequences`` is an
    expression for the calls; by default they are made at random from the seed. Raises RecipeError.
    """
    lines = [
        f'"""A random model ({recipe["name"]})."""',
        "",
        "import functools  # noqa: F401",
        "",
        "import torch",
        "from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive  # noqa: F401",
        "from torch import nn",
        "from torch._higher_order_ops.map import map as torch_map  # noqa: F401",
        "from torch._higher_order_ops.scan import scan  # noqa: F401",
        "from torch.export import Dim  # noqa: F401",
        "",
        "from corpus.experiment import Experiment",
        "from corpus.passes import RemoveClones, ShareFirstArgument  # noqa: F401",
        "from tests.fuzz.inputs import calls, example",
        "",
    ]
    for number, method in enumerate(recipe["methods"]):
        lines += ["", *_class(f"Model{number or ''}", method, recipe), ""]
    lines += ["", *_build(recipe, sequences)]
    return "\n".join(lines) + "\n"


def _class(name: str, method: Json, recipe: Json) -> list[str]:
    writer = _Writer(recipe["dtype"])
    scope = Scope(buffers={b: tuple(shape) for b, shape, _ in method["buffers"]})
    writer.put(0, f"class {name}(nn.Module):")
    if method["buffers"]:
        writer.put(1, "def __init__(self):")
        writer.put(2, "super().__init__()")
        for b, shape, values in method["buffers"]:
            data = f"torch.tensor({values}, dtype={recipe['dtype']}).reshape({tuple(shape)})"
            writer.put(2, f'self.register_buffer("{b}", {data})')
        writer.put(0, "")
    names = []
    for kind, shape, parameter in method["inputs"]:
        names.append(parameter)
        if kind == "value":
            scope.add(parameter, shape, False)
        elif kind == "flag":
            scope.predicates.append(parameter)
    writer.put(1, f"def forward({', '.join(['self', *names])}):")
    writer.block(method["body"], scope, 2)
    results = []
    for ref in method["outputs"]:
        found = scope.resolve(ref)
        if found not in results:
            results.append(found)
    if not results:
        raise RecipeError("no outputs")
    writer.put(2, f"return {', '.join(results)}")
    return writer.lines


def _options(options: Json) -> str:
    """One variant as an expression: options are kept as expressions themselves."""
    parts = []
    for key, value in options.items():
        text = value if isinstance(value, str) else "{" + ", ".join(f"{k!r}: {v}" for k, v in value.items()) + "}"
        parts.append(f"{key!r}: {text}")
    return "{" + ", ".join(parts) + "}"


def _build(recipe: Json, sequences: str | None) -> list[str]:
    methods = recipe["methods"]
    inputs = [[(kind, tuple(shape)) for kind, shape, _ in m["inputs"]] for m in methods]
    names = ["forward", "other"]
    lines = [f"INPUTS = {inputs!r}", "VARIANTS = ["]
    lines += [f"    {_options(options)}," for options in recipe["variants"]]
    lines += ["]", "", "", "def build(variant=0):", "    options = dict(VARIANTS[variant])"]
    if recipe.get("xnnpack"):
        lines.append('    options["xnnpack"] = True')
    if len(methods) > 1:
        given = ", ".join(
            f'"{names[i]}": (Model{i or ""}(), example(INPUTS[{i}], {recipe["dtype"]}))' for i in range(len(methods))
        )
        lines.append(f'    options["methods"] = {{{given}}}')
    shown = sequences or f"calls({recipe['seed']}, INPUTS, {recipe['dtype']}, {names[: len(methods)]!r})"
    lines.append("    return Experiment(")
    if len(methods) == 1:
        lines += ["        module=Model(),", f"        example_inputs=example(INPUTS[0], {recipe['dtype']}),"]
        if any("n" in tuple(shape) for _, shape, _ in methods[0]["inputs"]):
            shapes = ", ".join(
                "{" + ", ".join(f'{d}: Dim("n", min=2, max=6)' for d, e in enumerate(shape) if e == "n") + "}"
                for _, shape, _ in methods[0]["inputs"]
            )
            lines.append(f"        dynamic_shapes=({shapes},),")
    lines += ["        options=options,", f"        sequences={shown},", "    )"]
    return lines
