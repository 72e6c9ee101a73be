"""A cond's result is the operand of a flip or a cumulative sum in the next cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1.5, lambda v: v - 1.5, (x,))
        return torch.cond(predicate, lambda v: v.flip(0), lambda v: torch.cumsum(v, 0), (a,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(3, 4, 5, 6),)]],
    )
