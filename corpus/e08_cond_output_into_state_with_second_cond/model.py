"""A cond's result becomes the state after a second cond has run; nobody returns the state."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("acc", floats(0, 0))

    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v, s: s + v, lambda v, s: s * 1, (x, self.acc))
        b = torch.cond(predicate, lambda v: v * 100, lambda v: v * 200, (x,))
        self.acc.copy_(a)
        return b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(1, 1),)]],
    )
