"""A map over the rows of a cond's result."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return torch_map(lambda r, k: r * 2 + k, a, x[0].clone())


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
