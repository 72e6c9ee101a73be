"""A clone of a view of a buffer is a cond's operand; the buffer is updated afterwards."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        w = self.buf.view(2, 2)
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 1, (w.clone(),))
        self.buf.copy_(x)
        return a, a.sum()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1, 1, 1),),
        sequences=[[(floats(1, 1, 1, 1),), (floats(2, 2, 2, 2),), (floats(-1, -2, 0, 0),), (floats(3, 3, 3, 3),)]],
    )
