"""A state is updated in place and then replaced by another state; the write-back that replaces it is dropped."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(3, -1, 0, -2))
        self.register_buffer("b", floats(1, 1, -1, 2))
        self.register_buffer("c", floats(-2, 3, -2, 3))

    def forward(self, x):
        self.a.index_put_((torch.tensor([0, 2, 1, 3]),), self.c)
        summed = self.c + x
        self.c.copy_(self.a)
        self.a.copy_(self.b)
        self.b.copy_(summed * 2)
        return summed


def build():
    x = floats(1, 2, 3, 4)
    return Experiment(
        Model(), (x,), options={"ebc": {"run_reinplace_pass": True}}, sequences=[[(x,), (-x,), (x,), (x + 1,)]]
    )
