"""A map whose result is an output that the caller provides."""

import torch
from functorch.experimental.control_flow import map as torch_map
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        return torch_map(lambda r, k: r * k, x, x[0])


INPUT = torch.arange(6.0).reshape(3, 2) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"mpp": {"alloc_graph_output": False}, "raw_outputs": True},
        sequences=[[(INPUT,), (-INPUT,), (INPUT * 2,)]],
    )
