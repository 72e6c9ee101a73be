"""A branch that returns a constant."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: torch.tensor([7.0, 8.0]), lambda v: v - 1, (x,)) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(5, 6),)]],
    )
