"""A cond's result is an index tensor, read after another cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        i = torch.cond(x.sum() > 0, lambda v: v.to(torch.int64) - 1, lambda v: v.to(torch.int64) * -1 - 1, (x,))
        a = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v * 3, (x,))
        return torch.index_select(x, 0, i), a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),)]],
    )
