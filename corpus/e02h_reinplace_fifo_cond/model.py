"""Two index_puts in a row, in place on a cond's result."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        c = torch.cond(x.sum() > 0, lambda q: q + 1, lambda q: q - 1, (x,))
        b = c.index_put((i,), v)
        d = b.index_put((i,), v * 2)
        return d * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [(floats(1, 2, 3, 4), torch.tensor([0]), floats(9)), (-floats(1, 2, 3, 4), torch.tensor([2]), floats(9))]
        ],
    )
