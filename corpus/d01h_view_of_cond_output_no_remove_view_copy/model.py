"""A view of a cond's result, with view elision switched off."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        return a.view(2, 2) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"ebc": {"remove_view_copy": False}},
        sequences=[[(floats(1, 2, 3, 4),), (floats(-1, -2, -3, -4),), (floats(5, 6, 7, 8),)]],
    )
