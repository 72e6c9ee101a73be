"""Two index_puts on one base, of which the second is done in place."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, j, v):
        a = x * 2
        b = a.index_put((i,), v)
        c = a.index_put((j,), v)
        return b * 1, c * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), torch.tensor([0]), torch.tensor([1]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(floats(1, 2, 3, 4), torch.tensor([0]), torch.tensor([1]), floats(9))]],
    )
