"""A key cache is updated in place and read through views before and after."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kc", torch.zeros(4, 2, 2))

    def forward(self, pos, k, q):
        past = self.kc.view(4, 4)
        s = past @ q
        self.kc.index_put_((pos,), k)
        past2 = self.kc.view(4, 4)
        return s, past2 @ q


def build():
    key = floats(1, 2, 3, 4).view(1, 2, 2)
    query = floats(1, 1, 1, 1).view(4, 1)
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), key, query),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [
                (torch.tensor([0]), key, query),
                (torch.tensor([1]), key * 2, query),
                (torch.tensor([2]), key * 3, query),
                (torch.tensor([3]), key, query),
            ]
        ],
    )
