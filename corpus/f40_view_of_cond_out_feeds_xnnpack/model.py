"""A view of a cond's result goes into a delegate."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.l2 = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.cond(x.sum() > 0, lambda v: torch.sin(v), lambda v: torch.cos(v), (x,))
        return self.l2(h.view(1, 4)) + 1


INPUT = torch.arange(4.0).view(2, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"xnnpack": True, "tol": 1e-4},
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
