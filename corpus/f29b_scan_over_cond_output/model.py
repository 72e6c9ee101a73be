"""A scan over the rows of a cond's result."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        c, y = scan(lambda c, v: (c + v, c * v), x[0].clone(), a, dim=0)
        return c, y


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
