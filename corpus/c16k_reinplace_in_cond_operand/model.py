"""index_put on a tensor that is an operand of a later cond."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        a = x * 2
        b = a.index_put((i,), v)
        c = torch.cond(x.sum() > 0, lambda q: q + 1, lambda q: q - 1, (a,))
        return b * 1, c


INPUT = floats(1, 2, 3, 4).view(2, 2)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, torch.tensor([0]), floats(9, 9).view(1, 2)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [(INPUT, torch.tensor([0]), floats(9, 9).view(1, 2)), (-INPUT, torch.tensor([1]), floats(9, 9).view(1, 2))]
        ],
    )
