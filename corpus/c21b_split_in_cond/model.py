"""Branches that return the parts of a split."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a, b = torch.cond(
            predicate,
            lambda v: tuple(s.clone() for s in torch.split(v + 1, 2)),
            lambda v: tuple(s.clone() for s in torch.split(v - 1, 2)),
            (x,),
        )
        return a, b, torch.cat([b, a])


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (-floats(1, 2, 3, 4),)]],
    )
