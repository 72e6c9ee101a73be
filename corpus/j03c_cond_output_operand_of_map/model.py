"""A cond's result is an operand of every iteration of a map."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, k):
        a = torch.cond(k.sum() > 0, lambda v: v + 1, lambda v: v - 1, (k,))
        return torch_map(lambda r, k: (r * 2 + k) * k, x, a)


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, floats(2, 3)),
        sequences=[[(INPUT, floats(2, 3)), (-INPUT, floats(-4, -5))]],
    )
