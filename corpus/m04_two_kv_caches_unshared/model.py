"""Two decoders in one program, each with a cache of its own, planned at the same bytes."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Decoder(nn.Module):
    def __init__(self, start, factor):
        super().__init__()
        self.register_buffer("cache", torch.full((4, 2), float(start)))
        self.factor = factor

    def forward(self, x, position):
        self.cache.index_copy_(0, position, x.unsqueeze(0) * self.factor)
        return self.cache.sum(0)


def build():
    def step(name, position, *values):
        return (name, (floats(*values), torch.tensor([position])))

    example = (floats(1, 2), torch.tensor([0]))
    return Experiment(
        options={
            "preload": True,
            "methods": {"draft": (Decoder(0, 1.0), example), "full": (Decoder(5, 10.0), example)},
        },
        sequences=[[step("draft", 0, 1, 2), step("full", 0, 1, 2), step("draft", 1, 3, 4), step("full", 1, 3, 4)]],
    )
