"""A pass puts a slice at an offset of its base whose other elements are read afterwards."""

import torch
from torch import nn

from corpus.experiment import Experiment
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        s = a[2:6]
        u = a[4:8]
        return s * 3, u * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.arange(8.0),),
        options={"passes": [ShareFirstArgument("slice_copy", {0: 16})]},
        sequences=[[(torch.arange(8.0),)]],
    )
