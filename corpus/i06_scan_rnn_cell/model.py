"""A recurrent cell under scan."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wi = nn.Linear(4, 4)
        self.wh = nn.Linear(4, 4)

    def forward(self, x, h0):
        def body(h, v):
            n = torch.tanh(self.wi(v) + self.wh(h))
            return n, n.clone()

        return scan(body, h0, x, dim=0)


INPUT = torch.arange(24.0).view(6, 1, 4).reshape(6, 1, 1, 4) / 10


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, torch.ones(1, 1, 4)),
        options={"tol": 1e-4},
        sequences=[[(INPUT, torch.ones(1, 1, 4)), (-INPUT, torch.zeros(1, 1, 4))]],
    )
