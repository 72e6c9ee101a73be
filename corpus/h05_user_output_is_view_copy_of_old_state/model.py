"""A view_copy of the old state is returned."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s", floats(1, 2, 3, 4))

    def forward(self, x):
        old = torch.ops.aten.view_copy(self.s, [2, 2])
        self.s.copy_(x)
        return old, old * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[[(floats(10, 10, 0, 0),), (floats(11, 11, 0, 0),)]],
    )
