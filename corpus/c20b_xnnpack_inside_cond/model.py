"""Layers inside branches, with XNNPACK asked for."""

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
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: self.l1(v), lambda v: self.l2(v), (x,))
        b = torch.cond(predicate, lambda v: self.l2(v).relu(), lambda v: self.l1(v).relu(), (x,))
        return a, b


INPUT = torch.arange(4.0).view(1, 4) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"xnnpack": True, "tol": 1e-4},
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
