"""A cond whose result is the operand of the next cond on the same predicate."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))
        return torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (a,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(3, 4),)]],
    )
