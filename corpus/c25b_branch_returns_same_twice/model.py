"""A branch that returns one value twice, the second time as a clone."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        def when_true(v):
            u = v + 1
            return u, u.clone()

        a, b = torch.cond(x.sum() > 0, when_true, lambda v: (v - 1, v - 1), (x,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(1, 1),)]],
    )
