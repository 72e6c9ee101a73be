"""A buffer becomes a permuted copy of itself."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(1, 2, 3, 4))

    def forward(self, x):
        self.a.copy_(torch.ops.aten.view_copy(self.a.view(2, 2).t().contiguous(), [4]))
        return self.a + x


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[[(floats(0, 0, 0, 0),), (floats(1, 1, 1, 1),)]],
    )
