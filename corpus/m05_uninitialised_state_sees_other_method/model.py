"""A state without initial contents, zero in a fresh arena, is first read after another method has computed there."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 1


class Wide(nn.Module):
    def forward(self, x):
        return (x.repeat(16) + 1).prod()


def build():
    return Experiment(
        options={
            "init": False,
            "methods": {"total": (Sum(), (floats(1, 1, 1, 1),)), "wide": (Wide(), (floats(1, 2),))},
        },
        sequences=[[("wide", (floats(1, 1),)), ("total", (floats(1, 2, 3, 4),))]],
    )
