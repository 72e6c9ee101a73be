"""A map over a dynamic number of rows."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        return torch_map(lambda r, k: r * k, x, x[0].clone())


INPUT = torch.arange(16.0).reshape(8, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT[:5],),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        sequences=[[(INPUT[:8],), (INPUT[:3],), (INPUT[:2],), (INPUT[:6],)]],
    )
