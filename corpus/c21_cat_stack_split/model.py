"""cat and stack of the results of two conds side by side."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,))
        return torch.cat([a, b]), torch.stack([a, b])


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(1, 2),), (floats(-1, -2),)]],
    )
