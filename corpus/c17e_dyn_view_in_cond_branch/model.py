"""A branch that returns a view of dynamic size."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        t0 = x * 3
        a = torch.cond(x.sum() > 0, lambda v: v.view(-1, 1), lambda v: (v * 2).view(-1, 1), (t0,))
        u = (x + 100) * 2
        w = u * u
        z = w + 1
        return a + 1, z


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5],),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        sequences=[[(RAMP[:3],), (-RAMP[:8],), (RAMP[:2],), (RAMP,), (-RAMP[:4],)]],
    )
