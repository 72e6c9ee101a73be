"""Three states are rotated twice over, beside a method without state; the program carries no initial values."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Rotate(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(0, 1, 3, 0))
        self.register_buffer("b", floats(-2, -3, 2, -3))
        self.register_buffer("c", floats(-1, 3, 0, -3))

    def forward(self, x):
        old = self.b.clone()
        self.b.copy_(self.c)
        self.c.copy_(self.a)
        self.a.copy_(old)
        self.b.copy_(self.a)
        self.a.copy_(self.c)
        self.c.copy_(old + x)
        return old, self.a


class Other(nn.Module):
    def forward(self, x):
        return torch.cond(x.min() < 0, lambda a: a + a.sum(), lambda a: (a * a).clamp(-50, 50), (x,))


def build():
    x = floats(1, 2, 3, 4)
    return Experiment(
        options={"methods": {"forward": (Rotate(), (x,)), "other": (Other(), (x,))}, "init": False},
        sequences=[[("forward", (x,)), ("other", (x,)), ("forward", (x,)), ("other", (-x,)), ("forward", (x,))]],
    )
