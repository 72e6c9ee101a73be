"""A map over the result of a map, both results returned."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        b = torch_map(lambda r, k: r * k, x, x[0].clone())
        c = torch_map(lambda r, k: r + k, b, x[1].clone())
        return b, c


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
