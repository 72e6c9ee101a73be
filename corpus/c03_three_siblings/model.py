"""Three conds side by side under unrelated predicates, all results returned."""

import itertools

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y, z):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(y.sum() > 0, lambda v: v * 10, lambda v: v * 20, (x,))
        c = torch.cond(z.sum() > 0, lambda v: v / 3, lambda v: v / 5, (x,))
        return a, b, c


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1), floats(1)),
        sequences=[
            [(floats(s1, 2 * s1), floats(s2), floats(s3)) for s1, s2, s3 in itertools.product([1.0, -1.0], repeat=3)]
        ],
    )
