"""A branch that returns a tensor, and something computed from a view of its twin."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        t0 = x * 3
        a, b = torch.cond(
            x.sum() > 0, lambda v: ((v + 1), (v + 1).view(2, 2) * 1), lambda v: ((v * 2), (v * 2).view(2, 2) * 1), (t0,)
        )
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
