"""Calls with random inputs for a random model. Values are small whole numbers, so that sums are exact in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

#: One input: its kind (value or flag) and its shape, in which "n" is the dynamic size.
Input = tuple[str, tuple[Any, ...]]

SEQUENCES = 8
STEPS = 5
EXAMPLE_SIZE = 3


def example(inputs: Sequence[Input], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Inputs to export with."""
    return tuple(_tensor(i, dtype, random.Random(k), "mixed", EXAMPLE_SIZE) for k, i in enumerate(inputs))


def calls(
    seed: int, inputs: Sequence[Sequence[Input]], dtype: torch.dtype, methods: Sequence[str]
) -> list[list[tuple[Any, ...]]]:
    """Sequences of steps, as `corpus.experiment.Experiment` wants them."""
    rng = random.Random(seed)
    sequences = []
    for k in range(SEQUENCES):
        steps: list[tuple[Any, ...]] = []
        for step in range(STEPS):
            # The first two sequences go through the methods in turn, so that each is called between two of another.
            m = step % len(methods) if k < 2 else rng.randrange(len(methods))
            size = rng.randint(2, 6)
            moods = rng.choices(["mixed", "positive", "negative", "zero", "large"], [6, 2, 2, 1, 1], k=len(inputs[m]))
            step_inputs = tuple(_tensor(i, dtype, rng, mood, size) for i, mood in zip(inputs[m], moods, strict=True))
            steps.append(step_inputs if len(methods) == 1 else (methods[m], step_inputs))
        sequences.append(steps)
    return sequences


def _tensor(given: Input, dtype: torch.dtype, rng: random.Random, mood: str, size: int) -> torch.Tensor:
    kind, shape = given
    concrete = [size if e == "n" else e for e in shape]
    count = 1
    for e in concrete:
        count *= e
    if kind == "flag":
        return torch.tensor([rng.random() < 0.5 for _ in range(count)]).reshape(concrete)
    low, high = {"mixed": (-4, 4), "positive": (1, 5), "negative": (-5, -1), "zero": (0, 0), "large": (-40, 40)}[mood]
    return torch.tensor([rng.randint(low, high) for _ in range(count)], dtype=dtype).reshape(concrete)
