"""A scan whose body views its carry and its row."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


def body(c, v):
    return c + v, c.view(2, 1) * v.view(2, 1)


class Model(nn.Module):
    def forward(self, x):
        c, y = scan(body, x[0].clone(), x, dim=0)
        return c, y


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
