"""Two conds between delegated layers."""

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
        h = self.l1(x)
        a = torch.cond(predicate, lambda v: torch.sin(v), lambda v: torch.cos(v), (h,))
        b = torch.cond(predicate, lambda v: torch.cos(v), lambda v: torch.sin(v), (h,))
        return self.l2(a) + self.l2(b)


INPUT = torch.arange(4.0).view(1, 4) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"xnnpack": True, "tol": 1e-4},
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
