"""A branch returns a clone of a buffer that is updated after the cond; the result is kept."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: self.buf.clone(), lambda v: v.clone(), (x,))
        self.buf.add_(x)
        return a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        options={"raw_outputs": True},
        sequences=[[(floats(1, 1),), (floats(2, 2),), (floats(-1, 2),)]],
    )
