"""A view of a cond's result, in a model that has handled a secret."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, secret):
        s = secret * 7
        m = s.max()
        a = torch.cond(m > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a.view(2, 2) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), floats(5, 6, 7, 8)),
        sequences=[[(floats(1, 2, 3, 4), floats(5, 6, 7, 8)), (floats(1, 1, 1, 1), floats(50, 60, 70, 80))]],
    )
