"""index_put is done in place on a view of a constant weight."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", floats(1, 2, 3, 4).view(2, 2))

    def forward(self, i, v):
        b = self.w.view(4).index_put((i,), v)
        return b * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(torch.tensor([0]), floats(9)), (torch.tensor([1]), floats(9)), (torch.tensor([2]), floats(9))]],
    )
