"""A cond inside the body of a map that keeps tensors of its own across it."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment


def body(v, k):
    d = torch.cond(v.sum() > 3, lambda v, k: v - k, lambda v, k: v + k, (v, k))
    t1 = v * 5
    t2 = t1 + k
    return d + t2 * t1


class Model(nn.Module):
    def forward(self, x):
        q = x * 3
        r = torch_map(body, x, x[0].clone())
        return r + q, q


INPUT = torch.arange(8.0).reshape(4, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
