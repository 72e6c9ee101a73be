"""A counter that returns the number before counting."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        i = self.n.to(torch.int64, copy=True)
        self.n.add_(1)
        return i, x + i


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(3, 4),), (floats(5, 6),)]],
    )
