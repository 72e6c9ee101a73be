"""A pass puts a product into the storage of the cond's result that it reads."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        y = a * 3
        return y + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"passes": [ShareFirstArgument("mul", {0: 0})]},
        sequences=[[(floats(1, 2),), (floats(-5, -6),)]],
    )
