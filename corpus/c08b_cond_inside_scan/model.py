"""A cond inside the body of a scan."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


def body(c, v):
    d = torch.cond(c.sum() > 3, lambda c, v: c - v, lambda c, v: c + v, (c, v))
    return d, d * 2


class Model(nn.Module):
    def forward(self, x):
        c, y = scan(body, x[0].clone(), x, dim=0)
        return c, y


INPUT = torch.arange(8.0).reshape(4, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
