"""A branch that returns a view of the graph's input."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v.view(2, 2), lambda v: (v * 2).view(2, 2), (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
