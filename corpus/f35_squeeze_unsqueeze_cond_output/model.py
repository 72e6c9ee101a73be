"""A cond's result, squeezed and unsqueezed."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a.unsqueeze(0) * 1, torch.nn.functional.layer_norm(a.unsqueeze(0), (4,)), a.unsqueeze(-1).squeeze(-1) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"tol": 1e-4},
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),)]],
    )
