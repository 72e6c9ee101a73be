"""A step function whose output the caller may feed back; right as long as every input is a tensor of its own."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return torch.sin(torch.cos(x) * 2 + 1) + x


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"tol": 1e-6, "mpp": {"alloc_graph_input": False}},
        sequences=[[(floats(1, 2, 3, 4),), (floats(5, 6, 7, 8),)]],
    )
