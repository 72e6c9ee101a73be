"""index_put is done in place with its own base as the values."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, perm):
        a = x * 2
        b = a.index_put((perm,), a)
        return b * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), torch.tensor([1, 2, 3, 0])),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [(floats(1, 2, 3, 4), torch.tensor([1, 2, 3, 0])), (floats(1, 2, 3, 4), torch.tensor([3, 2, 1, 0]))]
        ],
    )
