"""A method with a state and a large one without, with shared mutable buffers."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sa", floats(1, 2))

    def forward(self, x):
        self.sa.add_(x)
        return self.sa * 1


class B(nn.Module):
    def forward(self, x):
        y = x.repeat(16)
        return torch.sin(torch.cos(y * 2) + y) * y


def build():
    return Experiment(
        options={
            "preload": True,
            "tol": 1e-5,
            "mpp": {"share_mutable_buffers": True},
            "methods": {"a": (A(), (floats(1, 1),)), "b": (B(), (floats(1, 1),))},
        },
        sequences=[
            [
                ("a", (floats(1, 1),)),
                ("b", (floats(2, 2),)),
                ("a", (floats(3, 3),)),
                ("b", (floats(1, 1),)),
                ("a", (floats(3, 3),)),
            ]
        ],
    )
