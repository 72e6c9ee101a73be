"""Views of the results of a map and a scan."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        b = torch_map(lambda r, k: r * k, x, x[0].clone())
        c, y = scan(lambda c, v: (c + v, c * v), x[0].clone(), x, dim=0)
        return b.view(-1) * 1, c.view(2, 1) * 1, y.view(-1) * 1


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
