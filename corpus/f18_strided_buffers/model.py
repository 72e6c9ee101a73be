"""Buffers that are transposed, offset, channels last."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("when_true", torch.arange(6.0).view(2, 3).t())
        self.register_buffer("ob", torch.arange(8.0)[4:])
        self.register_buffer("cl", torch.arange(16.0).view(1, 4, 2, 2).to(memory_format=torch.channels_last))

    def forward(self, x):
        self.when_true.add_(x)
        self.ob.add_(x)
        self.cl.add_(x)
        return self.when_true * 1, self.ob * 1, (self.cl * 1).contiguous()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1),),
        sequences=[[(floats(1),), (floats(2),)]],
    )
