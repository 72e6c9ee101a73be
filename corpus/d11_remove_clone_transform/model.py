"""A pass removes clones, so that a branch returns its operand."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import RemoveClones


class Model(nn.Module):
    def forward(self, x):
        t0 = x * 3
        a = torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: v * 2, (t0,))
        u = x + 100
        w = u * u
        z = w + 1
        return a + 1, z


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"edge_hook": lambda e: e.transform([RemoveClones()])},
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
