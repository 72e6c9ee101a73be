"""Two conds of which the second overwrites the first one's result on some paths only."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: (v - 1) * 2, (x,))
        b = torch.cond(y.sum() > 0, lambda v: ((v * 10) + 1).abs(), lambda v: v * 20, (y,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1, 2)),
        sequences=[
            [
                (floats(1, 2), floats(1, 1)),
                (floats(1, 2), floats(-1, -1)),
                (floats(-1, -2), floats(1, 2)),
                (floats(-1, -2), floats(-1, -2)),
            ]
        ],
    )
