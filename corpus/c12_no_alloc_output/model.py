"""One cond whose result is an output that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(3, 4),)]],
    )
