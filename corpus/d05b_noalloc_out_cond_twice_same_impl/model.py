"""A cond's result is returned twice, into outputs that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a, a * 2, a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mpp": {"alloc_graph_output": False}, "raw_outputs": True},
        sequences=[[(floats(1, 2),), (floats(5, 6),), (floats(-1, -2),), (floats(-5, -6),), (floats(9, 9),)]],
    )
