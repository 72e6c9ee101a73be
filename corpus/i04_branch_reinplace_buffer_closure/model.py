"""Linear layers in branches, on a tensor of three dimensions."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.l1 = nn.Linear(4, 4)
        self.l2 = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.l1(v), lambda v: self.l2(v), (x,))


INPUT = torch.arange(12.0).view(1, 3, 4) / 10


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"tol": 1e-4},
        sequences=[[(INPUT,), (-INPUT,)]],
    )
