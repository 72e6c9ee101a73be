"""A scan that swaps its two carries, through clones."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


def body(c, v):
    a, b = c
    return (b.clone(), a.clone()), a + v


class Model(nn.Module):
    def forward(self, x):
        (a, b), y = scan(body, (x[0].clone(), x[1].clone()), x, dim=0)
        return a, b, y


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
