"""A cache that the caller holds is an input, updated in place and returned, without planned inputs and outputs."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, cache, x, position):
        cache.index_copy_(0, position, x.unsqueeze(0))
        return cache.sum(0)


def build():
    cache = torch.arange(8.0).reshape(4, 2) + 1
    example = (cache, floats(1, 2), torch.tensor([1]))
    return Experiment(
        module=Model(),
        example_inputs=example,
        options={"mutated_inputs": 1, "mpp": {"alloc_graph_input": False, "alloc_graph_output": False}},
        sequences=[[example, (cache * 2, floats(3, 4), torch.tensor([2]))]],
    )
