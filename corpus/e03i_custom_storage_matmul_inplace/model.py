"""A pass puts a matrix product into the storage of one of its factors."""

import torch
from torch import nn

from corpus.experiment import Experiment
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        y = torch.mm(a, x)
        return y + 1


INPUT = torch.arange(9.0).view(3, 3) + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={"passes": [ShareFirstArgument("mm", {0: 0})]},
        sequences=[[(INPUT,), (INPUT * 2,)]],
    )
