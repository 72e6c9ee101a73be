"""Two conds side by side, the second on a view of the input; the first result is read last."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v.abs() + 1, lambda v: v - 1, (x,))
        s = torch.cond(
            x.sum() > 100, lambda v: v.view(4).sum() * 1, lambda v: v.reshape(4, 1).prod() * 1, (x.view(2, 2) * 1,)
        )
        return a.sum() + s


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(99, 9, 9, 9),)]],
    )
