"""Two conds side by side with a dynamic size."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,))
        return a + 0, b


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5],),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        sequences=[[(RAMP[:3],), (-RAMP[:8],), (RAMP[:2],), (RAMP,), (-RAMP[:4],)]],
    )
