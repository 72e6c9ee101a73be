"""index_put is done in place with its own base as the indices."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        a = x + 0
        b = a.index_put((a,), torch.tensor([3, 2, 1, 0]))
        return b + 0


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([1, 2, 3, 0]),),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(torch.tensor([1, 2, 3, 0]),), (torch.tensor([3, 0, 1, 2]),)]],
    )
