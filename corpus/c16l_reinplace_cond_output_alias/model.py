"""index_put in place on a cond's result that is a view of a living operand."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        a = x * 2
        c = torch.cond(x.sum() > 0, lambda q: q.view(4), lambda q: (q - 1).view(4), (a,))
        b = c.index_put((i,), v)
        return b * 1, a * 1


INPUT = floats(1, 2, 3, 4).view(2, 2)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(INPUT, torch.tensor([0]), floats(9)), (-INPUT, torch.tensor([1]), floats(9))]],
    )
