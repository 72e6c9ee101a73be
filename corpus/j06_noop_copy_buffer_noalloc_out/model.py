"""The old state is returned through a forced copy, into an output that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        old = self.buf.to(torch.float32, copy=True)
        self.buf.copy_(x)
        return old


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[(floats(9, 0, 0, 0),), (floats(1, 1, 1, 1),), (floats(2, 2, 2, 2),)]],
    )
