"""Key and value caches, updated and read through views."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kc", torch.zeros(4, 2, 2))
        self.register_buffer("vc", torch.zeros(4, 2, 2))

    def forward(self, pos, k, v, q):
        self.kc.index_put_((pos,), k)
        self.vc.index_put_((pos,), v)
        s = torch.softmax(self.kc.view(4, 4) @ q, 0)
        return (s * self.vc.view(4, 4)).sum(0)


def build():
    key = floats(1, 2, 3, 4).view(1, 2, 2)
    query = floats(1, 1, 1, 1).view(4, 1)
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), key, key.clone(), query),
        options={"tol": 1e-4},
        sequences=[
            [
                (torch.tensor([0]), key, key, query),
                (torch.tensor([1]), key * 0.2, key * 3, query),
                (torch.tensor([2]), key * 0.3, key, query),
                (torch.tensor([3]), key, key, query),
            ]
        ],
    )
