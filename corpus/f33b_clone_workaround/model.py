"""A clone of every cond's result, right after the cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,)).clone()
        b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,)).clone()
        return a, b, a.view(2, 2) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),)]],
    )
