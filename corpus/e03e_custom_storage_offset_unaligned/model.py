"""A pass puts a result at an unaligned offset of its base."""

import torch
from torch import nn

from corpus.experiment import Experiment
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        s = a[2:6]
        return s * 3


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.arange(8.0),),
        options={"passes": [ShareFirstArgument("slice_copy", {0: 8})]},
        sequences=[[(torch.arange(8.0),)]],
    )
