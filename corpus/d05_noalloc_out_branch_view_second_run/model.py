"""A branch returns a tensor and something computed from its view, into the caller's outputs."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        def when_true(v):
            u = v + 1
            return u, u.view(2, 2) * 2

        def when_false(v):
            u = v - 1
            return u, u.view(2, 2) * 3

        return torch.cond(x.sum() > 0, when_true, when_false, (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[
            [
                (floats(1, 2, 3, 4),),
                (floats(5, 6, 7, 8),),
                (floats(-1, -2, -3, -4),),
                (floats(-5, -6, -7, -8),),
                (floats(9, 9, 9, 9),),
            ]
        ],
    )
