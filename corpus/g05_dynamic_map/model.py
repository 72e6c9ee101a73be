"""A map over a dynamic number of rows, with an operand."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch.export import Dim

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, k):
        return torch_map(lambda r, k: r * k, x, k)


INPUT = torch.arange(16.0).reshape(8, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT[:5].clone(), floats(2, 3)),
        dynamic_shapes=({0: Dim("n", min=2, max=8)}, None),
        sequences=[
            [
                (INPUT[:8].clone(), floats(2, 3)),
                (INPUT[:3].clone(), floats(2, 3)),
                (INPUT[:2].clone(), floats(2, 3)),
                (INPUT[:6].clone(), floats(2, 3)),
            ]
        ],
    )
