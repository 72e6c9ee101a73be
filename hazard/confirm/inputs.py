"""Inputs for a program that nobody has given any: from the shapes, dtypes and constants that it holds.

What matters is that branches go both ways. Most predicates compare with a constant of the program, so values lie around
those constants; whole calls are positive, negative, zero or large, which turns sums and maxima.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from hazard.program import Dynamism, InputError, Method, Program, Scalar, Tensor

#: A call: the method's name and its inputs, tensors or numbers.
Call = tuple[str, list[Any]]

MOODS: Final = ("small", "small", "mixed", "positive", "negative", "zero", "near", "near", "large")

#: Integers are often indices, which must stay small to be valid.
LARGEST_INTEGER: Final = 3

_DTYPES: Final = {
    "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32",
    "f64": "float64", "bool": "bool", "bf16": "bfloat16", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip


def thresholds(program: Program) -> list[float]:
    """The numbers that the program holds and compares with, as far as they are not sizes or indices for sure."""
    found = {0.0, 1.0}
    for method in program.methods:
        for value in method.values:
            if isinstance(value, Scalar) and value.kind in ("int", "double") and isinstance(value.value, int | float):
                number = float(value.value)
                if abs(number) < 1e6:
                    found.add(number)
    return sorted(found)


class Generator:
    """Calls at random, the same for the same seed. ``near`` are numbers that values should come close to."""

    def __init__(self, program: Program, near: Sequence[float], seed: int) -> None:
        self.program = program
        self.near = list(near)
        self.rng = random.Random(seed)
        self.full_size = False
        self.largest_integer = LARGEST_INTEGER

    def sequence(self, number: int, length: int) -> list[Call]:
        """The ``number``-th sequence of calls, from 0. The first ones go through the methods in turn."""
        names = [m.name for m in self.program.methods if m.chains]
        calls = []
        for step in range(length):
            name = names[step % len(names)] if number < 2 else self.rng.choice(names)
            calls.append((name, self.inputs(self.program.method(name), first=number == 0 and step == 0)))
        return calls

    def tame(self) -> None:
        """To be called when calls fail: smaller integers from now on, and no sizes but the largest."""
        self.full_size = True
        self.largest_integer = max(0, self.largest_integer - 1)

    def inputs(self, method: Method, first: bool = False) -> list[Any]:
        """Inputs of one call. Dynamic tensors have their largest size at ``first``, later any leading size."""
        full = first or self.full_size or self.rng.random() < 0.4
        fractions: dict[int, int] = {}
        result = []
        # Calls in which all inputs are of one kind are as likely as those in which each has its own.
        common = self.rng.choice(MOODS) if self.rng.random() < 0.5 else None
        for slot in method.inputs:
            value = method.values[slot]
            mood = common or self.rng.choice(MOODS)
            if isinstance(value, Tensor):
                sizes = list(value.sizes)
                if value.dynamism is not Dynamism.STATIC and not full and sizes and sizes[0] > 1:
                    # Sizes with one bound are most likely one symbol.
                    sizes[0] = fractions.setdefault(sizes[0], self.rng.randint(1, sizes[0]))
                result.append(self.tensor(value.dtype, sizes, mood))
            elif isinstance(value, Scalar):
                result.append(self._scalar(value))
            else:
                raise InputError(f"method `{method.name}` takes a list as input; give inputs with --inputs")
        return result

    def _scalar(self, value: Scalar) -> Any:
        if value.kind == "int":
            return self.rng.randint(0, self.largest_integer)
        if value.kind == "double":
            return self._number(self.rng.choice(MOODS))
        if value.kind == "bool":
            return self.rng.random() < 0.5
        return value.value

    def tensor(self, dtype: str, sizes: Sequence[int], mood: str) -> Any:
        """Raises InputError for a dtype that torch cannot fill."""
        import torch

        if dtype not in _DTYPES:
            raise InputError(f"cannot make an input of dtype {dtype}; give inputs with --inputs")
        wanted: Any = getattr(torch, _DTYPES[dtype])
        count = 1
        for size in sizes:
            count *= size
        if dtype == "bool":
            numbers: list[Any] = [self.rng.random() < 0.5 for _ in range(count)]
        elif dtype.startswith(("f", "c", "bf")):
            numbers = [self._number(mood) for _ in range(count)]
        else:
            numbers = [self.rng.randint(0, self.largest_integer) for _ in range(count)]
        exact = torch.tensor(numbers, dtype=torch.float64 if wanted.is_floating_point else None)
        return exact.to(wanted).reshape(tuple(sizes))

    def _number(self, mood: str) -> float:
        rng = self.rng
        match mood:
            case "small":
                return float(rng.randint(-3, 3))
            case "positive":
                return round(rng.uniform(0.1, 4.0), 2)
            case "negative":
                return round(rng.uniform(-4.0, -0.1), 2)
            case "zero":
                return 0.0
            case "near":
                return rng.choice(self.near) + rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0])
            case "large":
                return float(rng.randint(-100, 100))
        return round(rng.gauss(0.0, 1.5), 3)


def load_inputs(path: str, program: Program) -> list[list[Call]]:
    """Sequences of calls from a file that ``torch.save`` wrote, read without running code.

    The file holds one call (a tuple or list of tensors and numbers), a list of calls, or a dict from method names to
    lists of calls. A call of a program with several methods is a pair (name, inputs). Raises InputError.
    """
    import torch

    try:
        content = torch.load(path, weights_only=True)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
    except Exception as e:
        raise InputError(f"{path}: not a file of tensors that torch can load: {str(e).splitlines()[0]}") from None
    known = {m.name for m in program.methods}
    first = program.methods[0].name
    if isinstance(content, torch.Tensor):
        content = [content]
    if isinstance(content, dict):
        calls = [(name, list(inputs)) for name, several in content.items() for inputs in several]
    elif isinstance(content, list | tuple) and content and all(_is_value(v) for v in content):
        calls = [(first, list(content))]
    elif isinstance(content, list | tuple) and content:
        calls = [_call(entry, first, path) for entry in content]
    else:
        raise InputError(f"{path}: expected a call, a list of calls, or a dict of them by method")
    for name, _ in calls:
        if name not in known:
            raise InputError(f"{path}: the program has no method `{name}`; it has {', '.join(sorted(known))}")
    return [calls]


def _is_value(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor | bool | int | float)


def _call(entry: Any, first: str, path: str) -> Call:
    if isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], str):
        return entry[0], list(entry[1])
    if isinstance(entry, list | tuple) and all(_is_value(v) for v in entry):
        return first, list(entry)
    raise InputError(f"{path}: a call is a list of tensors and numbers, or a pair of a method's name and such a list")
