"""A cond's results in tensor lists and as an index."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a, i = torch.cond(
            x.sum() > 0,
            lambda v: (v + 1, torch.argmax(v).reshape(1) * 1),
            lambda v: (v - 1, torch.argmin(v).reshape(1) * 1),
            (x,),
        )
        return torch.cat([a, x, a]), x[i], torch.stack([x, a])


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        sequences=[
            [(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(4, 3, 2, 1),), (floats(-1, -2, -3, -4),)]
        ],
    )
