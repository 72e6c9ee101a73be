"""A CNN that leaves early by one cond and picks an auxiliary head by another."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8, 5)
        self.fc2 = nn.Linear(8, 5)

    def forward(self, x):
        h = torch.relu(self.c1(x))
        g = h.mean((2, 3))
        e = self.fc2(g)
        conf = e.max() > 0.3
        deep = torch.cond(conf, lambda h, g: g * 1.0, lambda h, g: torch.relu(self.c2(h)).mean((2, 3)), (h, g))
        aux = torch.cond(conf, lambda e: torch.softmax(e, -1), lambda e: torch.sigmoid(e), (e,))
        return self.fc(deep), aux, e


torch.manual_seed(1)
INPUT = torch.randn(1, 3, 8, 8)
OTHER = torch.randn(1, 3, 8, 8) * 5


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"tol": 1e-4},
        sequences=[[(INPUT,), (OTHER,), (INPUT * 0,), (OTHER * 3,)]],
    )
