"""A state whose initial value is not in the program."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(2))

    def forward(self, x):
        y = x * 3
        self.buf.add_(y)
        return self.buf * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        options={"init": False},
        sequences=[[(floats(1, 1),), (floats(2, 2),), (floats(-1, -2),), (floats(3, 3),)]],
    )
