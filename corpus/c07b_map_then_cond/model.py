"""A cond after a map whose result is still needed."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        b = torch_map(lambda r, k: r * k, x, x[0].clone())
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a, b


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
