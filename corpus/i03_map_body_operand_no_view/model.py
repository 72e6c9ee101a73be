"""A map with an operand."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, k):
        return torch_map(lambda r, k: r * k, x, k)


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, floats(2, 3)),
        sequences=[[(INPUT, floats(2, 3)), (-INPUT, floats(4, 5))]],
    )
