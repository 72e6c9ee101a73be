"""A map inside a map whose body keeps a tensor across it."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, k):
        def body(r, k):
            t0 = r * 10
            m = torch_map(lambda q, k: q * k + 1, r, k)
            return t0 + m * m

        return torch_map(body, x, k)


INPUT = torch.arange(12.0).reshape(2, 3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, floats(2, 3)),
        sequences=[[(INPUT, floats(2, 3)), (-INPUT, floats(4, 5))]],
    )
