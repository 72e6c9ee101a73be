"""A network of adaptive depth: one cond, then flatten and a linear head."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv1d(2, 2, 3, padding=1)
        self.h = nn.Linear(8, 3)

    def forward(self, x):
        y = torch.cond(x.mean() > 0.5, lambda v: v * 1.0, lambda v: torch.relu(self.a(v)), (x,))
        return self.h(torch.flatten(y, 1))


INPUT = torch.arange(8.0).view(1, 2, 4) / 8


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"tol": 1e-4},
        sequences=[[(INPUT,), (INPUT * 5,), (-INPUT,)]],
    )
