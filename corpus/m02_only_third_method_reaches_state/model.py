"""Three methods, of which only the largest computes over the first one's state."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", floats(10, 20))

    def forward(self, x):
        self.total.add_(x)
        return self.total / 2


class Small(nn.Module):
    def forward(self, x):
        return x + 1


class Large(nn.Module):
    def forward(self, x):
        wide = x.repeat(24)
        return torch.cos(torch.sin(wide) + wide).sum()


def build():
    x = floats(1, 2)
    return Experiment(
        options={
            "tol": 1e-5,
            "methods": {"mean": (Mean(), (x,)), "small": (Small(), (x,)), "large": (Large(), (x,))},
        },
        sequences=[[("mean", (x,)), ("small", (x,)), ("mean", (x,)), ("large", (x,)), ("mean", (x,))]],
    )
