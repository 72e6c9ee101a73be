"""Two conds on views of a buffer that is updated between them; the first result is read late."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v * 3, (self.buf.view(2, 2),))
        self.buf.add_(x)
        b = torch.cond(x[0] > 1, lambda v: v * 5, lambda v: v * 7, (self.buf.view(2, 2),))
        return b, a.sum()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(1, 1, 1, 1),)]],
    )
