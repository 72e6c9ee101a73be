"""A filter with two delays of different shapes, registered in the order that works."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("z2", torch.zeros(4))
        self.register_buffer("z1", torch.zeros(1, 4))

    def forward(self, x):
        y = x + 0.5 * self.z1.view(4) + 0.25 * self.z2
        self.z2.copy_(self.z1.view(4))
        self.z1.copy_(y.view(1, 4))
        return y


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"tol": 1e-5},
        sequences=[[(floats(1, 0, 0, 0),), (floats(0, 0, 0, 0),), (floats(0, 0, 0, 0),), (floats(0, 0, 0, 0),)]],
    )
