"""Two conds side by side with a dynamic size that has no upper bound."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(x.sum() > 0, lambda v: v * 10, lambda v: v * 20, (x,))
        c = a * 2
        return c * b, a


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5],),
        dynamic_shapes=({0: Dim("n", min=2)},),
        sequences=[[(RAMP[:3],), (-RAMP[:5],), (RAMP[:2],), (RAMP,), (-RAMP[:4],)]],
    )
