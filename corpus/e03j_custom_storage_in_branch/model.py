"""A pass puts a branch's result into the storage of its operand."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        a = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (y,))
        return a + y


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"passes": [ShareFirstArgument("mul", {0: 0}, in_branches=True)]},
        sequences=[[(floats(1, 2),), (floats(-5, -6),)]],
    )
