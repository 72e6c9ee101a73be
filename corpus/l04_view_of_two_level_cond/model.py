"""A branch returns an explicit view_copy of an inner cond's result."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        def when_true(v):
            c = torch.cond(v[0] > 1, lambda w: w + 1, lambda w: w - 1, (v,))
            return torch.ops.aten.view_copy(c, [2, 2])

        return torch.cond(x.sum() > 0, when_true, lambda v: torch.ops.aten.view_copy(v * 5, [2, 2]), (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(5, 2, 3, 4),), (floats(-1, -2, -3, -4),)]],
    )
