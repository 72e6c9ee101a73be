"""A cond after a scan whose results are still needed."""

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        c, y = scan(lambda c, v: (c + v, c * v), x[0].clone(), x, dim=0)
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return c, y, a


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
