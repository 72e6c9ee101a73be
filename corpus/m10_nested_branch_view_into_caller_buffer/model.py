"""A branch of an inner cond returns a tensor and its view's double through both conds to the caller's outputs."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        def up(v):
            u = v + 10
            return u, u.view(4) * 2

        def down(v):
            u = v - 10
            return u, u.view(4) * 3

        def outer(v):
            return torch.cond(v.max() > 3, up, down, (v,))

        def plain(v):
            return v * 1, v.sum(0).repeat(2)

        return torch.cond(x.sum() > 0, outer, plain, (x,))


def build():
    def rows(*values):
        return (floats(*values).view(2, 2),)

    return Experiment(
        module=Model(),
        example_inputs=rows(1, 2, 3, 4),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[rows(1, 2, 3, 4), rows(5, 6, 7, 8), rows(1, 1, 1, 1), rows(2, 1, 2, 1)]],
    )
