"""Two conds that read a buffer which is updated between them and after them."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: self.buf.clone(), lambda v: v.clone(), (x,))
        self.buf.copy_(x * 2)
        b = torch.cond(x.sum() > 0, lambda v: self.buf.clone(), lambda v: v * 7, (x,))
        self.buf.copy_(b)
        return a + 0, self.buf + 0


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        sequences=[[(floats(1, 1),), (floats(2, 2),), (floats(-1, -2),), (floats(3, 3),)]],
    )
