"""A view of a tensor that was updated in place."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        a = x * 2
        b = a.index_put((i,), v)
        return b.view(2, 2) * 1, b.sum()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)), (floats(5, 6, 7, 8), torch.tensor([2]), floats(9))]
        ],
    )
