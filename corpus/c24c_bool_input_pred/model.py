"""A cond whose predicate is an input."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, predicate):
        return torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), torch.tensor(True)),
        sequences=[
            [
                (floats(1, 2), torch.tensor(True)),
                (floats(1, 2), torch.tensor(False)),
                (floats(1, 2), torch.tensor(True)),
            ]
        ],
    )
