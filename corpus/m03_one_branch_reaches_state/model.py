"""Another method's cond computes over a state in one branch and leaves it alone in the other."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", floats(7, 8, 9, 10))

    def forward(self, x):
        self.kept.mul_(x)
        return self.kept + 1


class Chooser(nn.Module):
    def forward(self, x):
        def wide(v):
            return (v.repeat(16) * 2).sum().reshape(1)

        return torch.cond(x.sum() > 0, wide, lambda v: v.sum().reshape(1), (x,))


def build():
    ones = floats(1, 1, 1, 1)
    return Experiment(
        options={
            "preload": True,
            "methods": {"keep": (Keeper(), (ones,)), "choose": (Chooser(), (floats(1, 2),))},
        },
        sequences=[
            [("keep", (ones,)), ("choose", (floats(-1, -2),)), ("keep", (ones,))],
            [("keep", (ones,)), ("choose", (floats(1, 2),)), ("keep", (ones,))],
        ],
    )
