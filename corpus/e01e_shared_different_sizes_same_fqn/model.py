"""Two methods have buffers of the same name and of different sizes, and share them."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("st", floats(1, 2))
        self.register_buffer("zz", floats(5, 5))

    def forward(self, x):
        self.st.add_(x)
        self.zz.add_(1)
        return self.st * 1, self.zz * 1


class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("st", torch.arange(16.0))
        self.register_buffer("zz", floats(7, 7))

    def forward(self, x):
        self.st.mul_(2.0)
        return self.st * 1, self.zz * 1


def build():
    return Experiment(
        options={
            "preload": True,
            "mpp": {"share_mutable_buffers": True},
            "methods": {"a": (A(), (floats(1, 1),)), "b": (B(), (floats(1, 1),))},
        },
        sequences=[[("a", (floats(1, 1),)), ("b", (floats(2, 2),)), ("a", (floats(3, 3),))]],
    )
