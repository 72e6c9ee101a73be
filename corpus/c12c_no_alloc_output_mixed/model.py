"""A cond and plain operators, with inputs and outputs that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        y = x * 5
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return y, a, y + a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mpp": {"alloc_graph_output": False, "alloc_graph_input": False}},
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(3, 4),)]],
    )
