"""The old state through a forced copy, returned and used after an update in place."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s", floats(1, 2, 3, 4))

    def forward(self, i, v):
        old = self.s.to(torch.float32, copy=True)
        self.s.index_put_((i,), v)
        return old * 1, old


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(torch.tensor([0]), floats(9)), (torch.tensor([1]), floats(8)), (torch.tensor([2]), floats(7))]],
    )
