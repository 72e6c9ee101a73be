"""A size that depends on data."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        n = torch.nonzero(x > 0)
        return n + 1, n.sum()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, -2, 3),),
        sequences=[[(floats(1, -2, 3),), (floats(1, 2, 3),), (floats(-1, -1, 3),)]],
    )
