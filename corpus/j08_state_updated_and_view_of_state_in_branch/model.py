"""A branch views the current state, which is updated after the cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("mem", torch.arange(8.0))
        self.l = nn.Linear(4, 4)

    def forward(self, x, warm):
        y = torch.cond(warm, lambda v: (self.mem.view(2, 4) + v).sum(0, keepdim=True), lambda v: v * 1, (x,))
        self.mem.copy_(torch.cat([self.mem[4:], x.view(4)]))
        return y * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4).view(1, 4), torch.tensor(True)),
        options={"tol": 1e-4},
        sequences=[
            [
                (floats(1, 2, 3, 4).view(1, 4), torch.tensor(False)),
                (floats(1, 2, 3, 4).view(1, 4), torch.tensor(True)),
                (floats(0, 0, 1, 0).view(1, 4), torch.tensor(True)),
            ]
        ],
    )
