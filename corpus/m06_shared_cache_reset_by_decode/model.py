"""Prefill fills the shared cache; decode is loaded afterwards and finds it reset."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Prefill(nn.Module):
    def __init__(self, cache):
        super().__init__()
        self.register_buffer("cache", cache)

    def forward(self, x):
        self.cache.copy_(x)
        return x.sum()


class Decode(nn.Module):
    def __init__(self, cache):
        super().__init__()
        self.register_buffer("cache", cache)

    def forward(self, x, position):
        self.cache.index_copy_(0, position, x.unsqueeze(0))
        return self.cache.sum(0)


def build():
    cache = torch.zeros(4, 2)
    prompt = torch.arange(8.0).reshape(4, 2)
    token = (floats(1, 2), torch.tensor([3]))
    return Experiment(
        options={
            "methods": {"prefill": (Prefill(cache), (prompt,)), "decode": (Decode(cache), token)},
            "mpp": {"share_mutable_buffers": True},
        },
        sequences=[[("prefill", (prompt,)), ("decode", token), ("decode", (floats(5, 6), torch.tensor([2])))]],
    )
