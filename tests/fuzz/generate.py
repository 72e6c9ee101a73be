"""Random recipes: what memory planning finds hard, in models of a few lines."""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.recipe import Json, Shape

#: Results of one operand. Elementwise kernels may write over their operand; the others may not.
ELEMENTWISE = [
    "$a + 1",
    "$a - 2",
    "$a * 2",
    "$a * -1",
    "torch.relu($a)",
    "$a.clamp(-9, 9)",
    "torch.abs($a)",
    "$a.clone()",
]
MIXING = ["torch.cumsum($a, 0)", "torch.flip($a, [0])", "$a + $a.sum()", "$a.sum() - $a"]
BINARY = ["$a + $b", "$a - $b", "torch.maximum($a, $b)", "($a * $b).clamp(-50, 50)", "torch.where($a > $b, $b, $a)"]
PREDICATES = [
    "$a.sum() > {c}", "$a.sum() < {c}", "$a.sum() >= {c}", "$a.sum() <= {c}", "$a.sum() == {c}",
    "$a.max() > {c}", "$a.min() < {c}", "($a > {c}).any()", "($a < {c}).all()", "$a.reshape(-1)[0:1] > {c}",
    "$a.reshape(-1)[0] < {c}",
]  # fmt: skip
CONSTANTS = [-2, 0, 0, 0, 1, 3]
COMPOSED = [
    "torch.logical_not($p)",
    "torch.logical_and($p, $q)",
    "torch.logical_or($p, $q)",
    "torch.logical_xor($p, $q)",
]
STATE = ["$b.copy_($a)", "$b.copy_($a)", "$b.add_($a)", "$b.mul_(-1)", "$b.sub_(1)", "$b.copy_($a.clamp(-50, 50))"]
#: Plans of one model: lowering it costs much more than planning it once more.
VARIANTS = 6

DTYPES = ["torch.float32"] * 8 + ["torch.float64", "torch.int64"]


class _Generator:
    def __init__(self, rng: random.Random, dynamic: bool) -> None:
        self.rng = rng
        self.count = 0
        if dynamic:
            self.base: Shape = ("n", 4)
            self.shapes: list[Shape] = [("n", 4), ("n", 4), ("n", 2, 2)]
        else:
            width = rng.choice([2, 4, 4])
            self.base = (width,)
            self.shapes = [(width,), (width,), (2, width // 2), (width, 1)]
        self.dynamic = dynamic

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- picking

    def pick(self, values: dict[str, Shape], shape: Shape) -> Json:
        """A reference to a value of a shape, the younger the likelier."""
        names = [n for n, s in values.items() if s == shape]
        if not names:
            raise LookupError(shape)
        place = min(int(self.rng.expovariate(0.7)), len(names) - 1)
        return [names[len(names) - 1 - place], list(shape)]

    def shape(self, values: dict[str, Shape]) -> Shape:
        return self.rng.choice(list(values.values()))

    # --- blocks

    def block(
        self, values: dict[str, Shape], predicates: list[str], buffers: dict[str, Shape], depth: int, length: int
    ) -> list[Json]:
        """Statements; ``values`` and ``predicates`` grow by what they define."""
        statements: list[Json] = []
        for _ in range(length):
            statements += self.statement(values, predicates, buffers, depth)
        return statements

    def statement(
        self, values: dict[str, Shape], predicates: list[str], buffers: dict[str, Shape], depth: int
    ) -> list[Json]:
        top = depth == 0
        kinds = {
            "un": 6, "bin": 4, "view": 4, "put": 2 if top else 1, "cond": 7 if depth < 3 else 0,
            "map": 2 if depth < 2 and not self.dynamic else 0, "scan": 2 if depth < 2 and not self.dynamic else 0,
            "pred": 2, "set": 4 if top and buffers else 0, "shift": 2 if top and len(buffers) > 1 else 0,
        }  # fmt: skip
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        try:
            return getattr(self, "_" + kind)(values, predicates, buffers, depth)
        except LookupError:
            return self._un(values, predicates, buffers, depth)

    def _readable(self, values: dict[str, Shape], buffers: dict[str, Shape]) -> dict[str, Shape]:
        return buffers | values if self.rng.random() < 0.3 else values or buffers

    def _un(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        shape = self.shape(readable)
        op = self.rng.choice(ELEMENTWISE if self.rng.random() < 0.7 else MIXING)
        s = {"k": "un", "out": self.name(), "op": op, "a": self.pick(readable, shape), "shape": list(shape)}
        values[s["out"]] = shape
        return [s]

    def _bin(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        shape = self.shape(readable)
        a, b = self.pick(readable, shape), self.pick(readable, shape)
        s = {"k": "bin", "out": self.name(), "op": self.rng.choice(BINARY), "a": a, "b": b, "shape": list(shape)}
        values[s["out"]] = shape
        return [s]

    def _view(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        shape = self.shape(readable)
        choices: list[tuple[str, Shape]] = []
        if shape[0] == "n":
            target = ("n", 2, 2) if shape == ("n", 4) else ("n", 4)
            sizes = ", ".join(str(e) for e in target[1:])
            choices += [(f"$a.view(-1, {sizes})", target), (f"$a.reshape(-1, {sizes})", target)]
        else:
            count = 1
            for e in shape:
                count *= e
            for target in {(count,), (2, count // 2), (count, 1), (1, count)} - {shape}:
                if count % 2 == 0:
                    how = self.rng.choice(["$a.view{0}", "$a.reshape{0}", "$a.reshape{0}"])
                    choices.append((how.format(target), target))
            if len(shape) > 1:
                choices += [("$a.flatten()", (count,))] * 2
            if len(shape) == 1 and shape[0] >= 4:
                choices += [("$a[1:3]", (2,)), ("$a[0:2]", (2,))]
        choices += [
            ("$a.clone()", shape),
            ("torch.ops.aten.view_copy($a, $a.shape)", shape),
            ("$a.to(copy=True)", shape),
        ]
        if shape[0] != "n":
            choices.append(("$a.detach()", shape))
        how, target = self.rng.choice(choices)
        s = {"k": "view", "out": self.name(), "op": how, "a": self.pick(readable, shape), "shape": list(target)}
        values[s["out"]] = target
        return [s]

    def _put(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        vectors = [s for s in readable.values() if len(s) == 1 and s[0] != "n" and s[0] >= 2]
        if not vectors:
            raise LookupError
        shape = self.rng.choice(vectors)
        rows = (
            shape[0] if (shape in readable.values() and self.rng.random() < 0.4) or (2,) not in readable.values() else 2
        )
        index = [self.rng.randrange(shape[0]) for _ in range(rows)]
        if len(set(index)) < len(index):
            index = list(range(rows))
        v = self.pick(readable, (rows,))
        # Export loses tensor constants of nested branches.
        i = f"torch.tensor({index})" if depth == 0 else f"torch.arange({rows})"
        s = {"k": "put", "out": self.name(), "a": self.pick(readable, shape), "i": i, "v": v, "shape": list(shape)}
        values[s["out"]] = shape
        return [s]

    def _pred(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        if predicates and self.rng.random() < 0.45:
            of = [self.rng.choice(predicates), self.rng.choice(predicates)]
            s = {"k": "pred", "out": self.name("p"), "op": self.rng.choice(COMPOSED), "of": of}
        else:
            readable = self._readable(values, buffers)
            op = self.rng.choice(PREDICATES).format(c=self.rng.choice(CONSTANTS))
            # Often the oldest value, so that several comparisons are about the same operand.
            names = list(readable)
            a = names[0] if self.rng.random() < 0.5 else self.rng.choice(names)
            s = {"k": "pred", "out": self.name("p"), "op": op, "a": [a, list(readable[a])]}
        predicates.append(s["out"])
        return [s]

    def _some_predicate(self, values: Any, predicates: Any, buffers: Any, depth: int) -> tuple[list[Json], str]:
        if predicates and self.rng.random() < 0.55:
            return [], self.rng.choice(predicates)
        made = self._pred(values, predicates, buffers, depth)
        return made, made[0]["out"]

    def _cond(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        made, predicate = self._some_predicate(values, predicates, buffers, depth)
        readable = self._readable(values, buffers)
        shapes = [self.shape(readable) for _ in range(self.rng.choice([1, 1, 2]))]
        args = [self.pick(readable, s) for s in shapes]
        results = [self.rng.choice(shapes) for _ in range(self.rng.choice([1, 1, 1, 2]))]
        closure = self.rng.random() < 0.2
        branches = [self._branch(shapes, results, values, predicates, buffers, depth, closure) for _ in "tf"]
        s = {"k": "cond", "outs": [self.name("c") for _ in results], "pred": predicate, "args": args}
        if self.dynamic and self.rng.random() < 0.1:
            s["size"] = f"x.shape[0] > {self.rng.randint(2, 5)}" if depth == 0 else None
        s["t"], s["f"] = branches
        values.update(zip(s["outs"], results, strict=True))
        return [*made, s]

    def _branch(
        self, shapes: list[Shape], results: list[Shape], values: Any, predicates: Any, buffers: Any, depth: int,
        closure: bool,
    ) -> Json:  # fmt: skip
        params = [self.name("a") for _ in shapes]
        inner = (dict(values) if closure else {}) | dict(zip(params, shapes, strict=True))
        known = list(predicates) if closure else []
        body = self.block(inner, known, buffers, depth + 1, self.rng.choice([0, 1, 1, 2, 2, 3]))
        returned = []
        for shape in results:
            made = {n: s for n, s in inner.items() if n not in values and n not in params and s == shape}
            if made and self.rng.random() < 0.6:
                returned.append(self.pick(made, shape))
                continue
            a, b = self.pick(inner, shape), self.pick(inner, shape)
            if self.rng.random() < 0.5:
                last = {"k": "bin", "out": self.name(), "op": self.rng.choice(BINARY), "a": a, "b": b}
            else:
                last = {"k": "un", "out": self.name(), "op": self.rng.choice(ELEMENTWISE + MIXING), "a": a}
            body.append(last | {"shape": list(shape)})
            inner[last["out"]] = shape
            returned.append([last["out"], list(shape)])
        return {"params": params, "body": body, "ret": returned, "closure": closure}

    def _map(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        xs = self.pick(readable, self.rng.choice([s for s in readable.values() if len(s) == 2 and s[1] > 1] or [(0,)]))
        row = tuple(xs[1])[1:]
        shapes = [row]
        args = []
        if self.rng.random() < 0.6:
            shapes.append(self.shape(readable))
            args.append(self.pick(readable, shapes[1]))
        body = self._branch(shapes, [row], values, predicates, buffers, depth, False)
        s = {"k": "map", "out": self.name("m"), "xs": xs, "args": args, "body": body}
        values[s["out"]] = tuple(xs[1])
        return [s]

    def _scan(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        readable = self._readable(values, buffers)
        xs = self.pick(readable, self.rng.choice([s for s in readable.values() if len(s) == 2 and s[1] > 1] or [(0,)]))
        row = tuple(xs[1])[1:]
        init = self.pick(readable, self.rng.choice([self.shape(readable), row]))
        carry = tuple(init[1])
        body = self._branch(
            [carry, row], [carry, self.rng.choice([carry, row])], values, predicates, buffers, depth, False
        )
        s = {"k": "scan", "outs": [self.name("k"), self.name("y")], "init": init, "xs": xs, "body": body}
        values[s["outs"][0]] = carry
        values[s["outs"][1]] = (xs[1][0], *body["ret"][1][1])
        return [s]

    def _set(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        buf = self.rng.choice(list(buffers))
        shape = buffers[buf]
        everything = {n: s for n, s in (buffers | values).items() if n != buf}
        how = self.rng.random()
        if how < 0.2 and len(shape) == 1 and shape[0] >= 4:
            return [{"k": "set", "buf": buf, "op": "$b[1:3] = $a", "a": self.pick(everything, (2,))}]
        if how < 0.35:
            index = self.rng.randrange(shape[0])
            return [{"k": "set", "buf": buf, "op": f"$b[{index}] = {self.rng.choice(CONSTANTS)}"}]
        if how < 0.5 and len(shape) == 1:
            v = self.pick(everything, shape)
            index = self.rng.sample(range(shape[0]), shape[0])
            return [{"k": "set", "buf": buf, "op": f"$b.index_put_((torch.tensor({index}),), $a)", "a": v}]
        return [{"k": "set", "buf": buf, "op": self.rng.choice(STATE), "a": self.pick(everything, shape)}]

    def _shift(self, values: Any, predicates: Any, buffers: Any, depth: int) -> list[Json]:
        """A swap or a delay line."""
        by_shape: dict[Shape, list[str]] = {}
        for name, shape in buffers.items():
            by_shape.setdefault(shape, []).append(name)
        shape, group = self.rng.choice([(s, g) for s, g in by_shape.items() if len(g) > 1] or [((), [])])
        if not group:
            raise LookupError
        group = self.rng.sample(group, len(group))
        copy = self.rng.choice(["$a.clone()", "$a + 0", "$a * 1", "$a.view(2, -1).flatten()"])
        if shape[0] == "n" or len(shape) > 1:
            copy = "$a.clone()"
        last = self.name()
        start = {"k": "un", "out": last, "op": copy, "a": [group[-1], list(shape)], "shape": list(shape)}
        moves = [
            {"k": "set", "buf": to, "op": "$b.copy_($a)", "a": [origin, list(shape)]}
            for to, origin in zip(group[:0:-1], group[-2::-1], strict=True)
        ]
        values[last] = shape
        into = last if self.rng.random() < 0.5 else None
        first = [into, list(shape)] if into else self.pick(values, shape)
        return [start, *moves, {"k": "set", "buf": group[0], "op": "$b.copy_($a)", "a": first}]

    # --- methods

    def method(self, length: int, sizes: int) -> Json:
        rng = self.rng
        inputs: list[Json] = []
        values: dict[str, Shape] = {}
        for k in range(rng.choice([1, 2, 2])):
            shape = self.base if k == 0 or self.dynamic else rng.choice([self.base, (3, *self.base), (2, 2)])
            inputs.append(["value", list(shape), "xyz"[k]])
            values["xyz"[k]] = shape
        predicates = []
        if rng.random() < 0.3:
            inputs.append(["flag", [1] if rng.random() < 0.5 else [], "flag"])
            predicates.append("flag")
        buffers: dict[str, Shape] = {}
        stored = []
        fixed = (4,) if self.dynamic else self.base
        for k in range(sizes):
            shape = fixed if rng.random() < 0.85 or self.dynamic else (2, fixed[0])
            count = 1
            for e in shape:
                count *= e
            buffers[f"b{k}"] = shape
            stored.append([f"b{k}", list(shape), [rng.randint(-3, 3) for _ in range(count)]])
        body = []
        if self.dynamic:
            # Something of a size that buffers can take.
            body.append({"k": "un", "out": "s0", "op": "$a.sum(0)", "a": ["x", list(self.base)], "shape": [4]})
            values["s0"] = (4,)
        body += self.block(values, predicates, buffers, 0, length)
        made = [n for n in values if n not in "xyz"]
        results = [n for n in made if n[0] in "cmky"]
        wanted = rng.sample(results, min(len(results), rng.choice([1, 2, 2, 3])))
        wanted += rng.sample(made, min(len(made), rng.choice([0, 1, 1, 2])))
        outputs = [[n, list(values[n])] for n in dict.fromkeys(wanted)]
        outputs += [[b, list(buffers[b])] for b in buffers if rng.random() < 0.3]
        if not outputs:
            outputs = [[made[-1] if made else "x", list(values[made[-1] if made else "x"])]]
        # A graph output that is an input itself tells nothing about memory; a last step makes it a value.
        rng.shuffle(outputs)
        return {"inputs": inputs, "buffers": stored, "body": body, "outputs": outputs}


def generate(seed: int) -> Json:
    """The recipe of a seed."""
    rng = random.Random(seed)
    dynamic = rng.random() < 0.12
    several = not dynamic and rng.random() < 0.1
    generator = _Generator(rng, dynamic)
    methods = [
        generator.method(rng.randint(3, 8), rng.choice([0, 0, 1, 1, 2, 2, 3])) for _ in range(2 if several else 1)
    ]
    for method in methods:
        _prune(method)
    dtype = rng.choice(DTYPES)
    xnnpack = not dynamic and dtype == "torch.float32" and rng.random() < 0.08
    stateful = any(m["buffers"] for m in methods)
    variants: list[Json] = [{}] if rng.random() < 0.7 else []
    while len(variants) < VARIANTS:
        options = _options(rng, several, stateful)
        if options not in variants:
            variants.append(options)
    return {
        "name": f"seed {seed}",
        "seed": seed,
        "dtype": dtype,
        "methods": methods,
        "xnnpack": xnnpack,
        "variants": variants,
    }


def _prune(method: Json) -> None:
    """Removes statements whose results nobody uses: export drops them as well, after it has spent its time on them."""
    while True:
        used: set[str] = {o[0] for o in method["outputs"]}
        _collect(method["body"], used)
        if not _drop_unused(method["body"], used):
            break


def _collect(statements: list[Json], used: set[str]) -> None:
    for s in statements:
        for key in ("a", "b", "v", "xs", "init"):
            if key in s:
                used.add(s[key][0])
        used.update(r[0] for r in s.get("args", ()))
        used.update(s.get("of", ()))
        if "pred" in s:
            used.add(s["pred"])
        for part in ("t", "f", "body"):
            if part in s:
                used.update(r[0] for r in s[part]["ret"])
                _collect(s[part]["body"], used)


def _drop_unused(statements: list[Json], used: set[str]) -> bool:
    dropped = False
    for i in reversed(range(len(statements))):
        s = statements[i]
        results = s.get("outs") or ([s["out"]] if "out" in s else None)
        if results and not used & set(results):
            del statements[i]
            dropped = True
            continue
        for part in ("t", "f", "body"):
            if part in s:
                dropped = _drop_unused(s[part]["body"], used) or dropped
    return dropped


def _options(rng: random.Random, several: bool, stateful: bool) -> Json:
    mpp: dict[str, str] = {}
    ebc: dict[str, str] = {}
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        mpp["memory_planning_algo"] = rng.choice(
            [
                "MemoryPlanningAlgorithmSuite([naive])",
                "MemoryPlanningAlgorithmSuite([greedy])",
                "MemoryPlanningAlgorithmSuite([greedy, naive])",
                "MemoryPlanningAlgorithmSuite([functools.partial(greedy, allow_overlapping_allocations=False)])",
            ]
        )
    if rng.random() < 0.2:
        mpp["alloc_graph_input"] = "False"
    if rng.random() < 0.2:
        mpp["alloc_graph_output"] = "False"
    if rng.random() < 0.2:
        mpp["alignment"] = rng.choice(["8", "64", "256"])
    if several and stateful and rng.random() < 0.4:
        mpp["share_mutable_buffers"] = "True"
    if rng.random() < 0.15:
        ebc["remove_view_copy"] = "False"
    if rng.random() < 0.25:
        ebc["run_reinplace_pass"] = "True"
    if rng.random() < 0.05:
        options["passes"] = "[RemoveClones()]"
    elif rng.random() < 0.05:
        options["passes"] = f"[ShareFirstArgument({rng.choice(['neg', 'add', 'abs'])!r}, {{0: 0, 1: 0}})]"
    if stateful and rng.random() < 0.1:
        options["init"] = "False"
    if several and rng.random() < 0.5:
        options["preload"] = "True"
    return {k: v for k, v in {"mpp": mpp, "ebc": ebc, **options}.items() if v}
