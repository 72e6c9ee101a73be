"""A second cond under the negation of the first one's predicate."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))
        s = a * a
        q = torch.logical_not(predicate)
        return torch.cond(q, lambda v: v * 10, lambda v: v * 20, (s,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(1, 1),)]],
    )
