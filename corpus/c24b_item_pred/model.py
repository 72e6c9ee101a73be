"""Two conds side by side under predicates that are Python numbers."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum().item() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(x.sum().item() > 3, lambda v: v * 10, lambda v: v * 20, (x,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(1, 1),)]],
    )
