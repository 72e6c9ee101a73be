"""Branches that view a constant."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", floats(1, 2, 3, 4))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: self.w.view(2, 2) * v, lambda v: self.w.view(2, 2) + v, (x,))
        return a * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4).view(2, 2),),
        sequences=[
            [(floats(1, 2, 3, 4).view(2, 2),), (floats(-1, -2, -3, -4).view(2, 2),), (floats(5, 6, 7, 8).view(2, 2),)]
        ],
    )
