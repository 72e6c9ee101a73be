"""A branch that returns a view of an operand which looks dead after the cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        t0 = x * 3
        a = torch.cond(x.sum() > 0, lambda v: v.view(2, 2), lambda v: (v * 2).view(2, 2), (t0,))
        u = x + 100
        w = u * u
        z = w + 1
        return a + 1, z


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
