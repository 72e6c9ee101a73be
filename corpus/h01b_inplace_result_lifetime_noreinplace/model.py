"""index_put with a result that is read last, without reinplacing."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        a = x * 2
        b = a.index_put((i,), v)
        u = x + 100
        w = u * u
        z = w + 1
        return b * 1, z


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)),
        sequences=[
            [(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)), (floats(5, 6, 7, 8), torch.tensor([2]), floats(9))]
        ],
    )
