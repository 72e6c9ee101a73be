"""A view of an inner cond's result, inside the outer branch."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        return torch.cond(
            predicate,
            lambda v: torch.cond(v[0] > 1, lambda w: w + 1, lambda w: w - 1, (v,)).view(2, 2) * 3,
            lambda v: v.view(2, 2) * 5,
            (x,),
        )


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(5, 6, 7, 8),)]],
    )
