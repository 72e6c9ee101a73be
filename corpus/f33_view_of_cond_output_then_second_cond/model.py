"""A reshape after the first of two conds, in the hope that it makes a copy."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,)).reshape(2, 2)
        b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,))
        return a * 1, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),)]],
    )
