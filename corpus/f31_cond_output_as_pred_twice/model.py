"""A cond's result is the predicate of the next cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = torch.cond(x.sum() > 0, lambda v: v[0] > 2, lambda v: v[0] < -2, (x,))
        torch.cond(predicate, lambda v: v * 0.0, lambda v: v * 0.0, (x,))
        return torch.cond(predicate, lambda v: v + 100, lambda v: v - 100, (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(3, 2),), (floats(-1, -2),), (floats(-3, -2),)]],
    )
