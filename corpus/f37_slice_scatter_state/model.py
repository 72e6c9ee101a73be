"""A queue in a buffer: rows move up, the last one is new."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(4, 2))

    def forward(self, x):
        prev = self.buf[1:].clone()
        self.buf[:-1] = prev
        self.buf[-1] = x
        return self.buf.view(8) * 1, self.buf.sum(0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        sequences=[[(floats(1, 1),), (floats(2, 2),), (floats(3, 3),)]],
    )
