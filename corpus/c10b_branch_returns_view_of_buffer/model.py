"""A branch that returns a view of a buffer which is updated after the cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v.view(2, 2), lambda v: (v * 2).view(2, 2), (self.buf,))
        self.buf.copy_(x)
        return a + 1, a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
