"""A view of a cond's result that is also an output which the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a, a.view(2, 2) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(5, 6, 7, 8),), (floats(6, 6, 7, 8),)]],
    )
