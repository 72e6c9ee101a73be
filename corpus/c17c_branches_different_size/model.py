"""A cond whose branches return different sizes."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v[:2] * 1, lambda v: v * 1, (x,))


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5],),
        sequences=[[(RAMP[:5],), (-RAMP[:5],), (RAMP[:5],)]],
    )
