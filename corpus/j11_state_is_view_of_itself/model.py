"""A buffer becomes a view of a view of itself."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(1, 2, 3, 4))

    def forward(self, x):
        o = self.a + x
        self.a.copy_(torch.ops.aten.view_copy(torch.ops.aten.view_copy(self.a, [2, 2]), [4]))
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[[(floats(0, 0, 0, 0),), (floats(1, 1, 1, 1),)]],
    )
