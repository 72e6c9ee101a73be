"""Two conds side by side, the second result smaller than the first."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(y.sum() > 0, lambda v: v.abs(), lambda v: v.neg(), (y,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.arange(16.0), floats(1, 1)),
        sequences=[
            [
                (torch.arange(16.0), floats(1, 1)),
                (torch.arange(16.0), floats(-1, -1)),
                (-torch.arange(16.0), floats(1, 1)),
            ]
        ],
    )
