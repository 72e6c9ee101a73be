"""A view of dynamic size of a cond's result."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a.view(-1, 1) * 1


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5],),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        sequences=[[(RAMP[:3],), (-RAMP[:8],), (RAMP[:2],), (RAMP,)]],
    )
