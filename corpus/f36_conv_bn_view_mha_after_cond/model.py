"""An attention block after a cond."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q = nn.Linear(4, 4)
        self.k = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.cond(x.sum() > 0, lambda v: torch.relu(v) + 1, lambda v: v * 0.5, (x,))
        q = self.q(h).view(1, 3, 2, 2).transpose(1, 2)
        k = self.k(h).view(1, 3, 2, 2).transpose(1, 2)
        return torch.softmax(q @ k.transpose(-1, -2), -1)


INPUT = torch.arange(12.0).view(1, 3, 4) / 10


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"tol": 1e-4},
        sequences=[[(INPUT,), (-INPUT,)]],
    )
