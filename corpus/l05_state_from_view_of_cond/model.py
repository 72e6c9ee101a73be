"""A state becomes a view of a cond's result."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.zeros(2, 2))

    def forward(self, x):
        o = self.s * 1
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        self.s.copy_(a.view(2, 2))
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(1, 1, 1, 1),)]],
    )
