"""A decoder with trainable weights that caches keys and values and picks its attention by cond."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q = nn.Linear(4, 4)
        self.k = nn.Linear(4, 4)
        self.v = nn.Linear(4, 4)
        self.register_buffer("kc", torch.zeros(6, 4))
        self.register_buffer("vc", torch.zeros(6, 4))

    def forward(self, x, pos, pre):
        q, k, v = self.q(x), self.k(x), self.v(x)
        old = self.kc.clone()
        self.kc.index_copy_(0, pos, k)
        self.vc.index_put_((pos,), v)

        def dec(q, kc, vc, pos):
            return torch.softmax(q @ kc.t(), -1) @ vc

        def prefill(q, kc, vc, pos):
            m = (torch.arange(6)[None, :] <= pos[:, None]).to(torch.float32)
            return (torch.exp(q @ kc.t()) * m) @ vc

        o = torch.cond(pre, prefill, dec, (q, self.kc.clone(), self.vc.clone(), pos))
        s = torch.cond(pre, lambda o: o.abs() + 1, lambda o: o * 2, (o,))
        return o, s, old.sum()


INPUT = torch.arange(4.0).view(1, 4) / 4


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT, torch.tensor([0]), torch.tensor(True)),
        options={"tol": 1e-3},
        sequences=[
            [
                (INPUT, torch.tensor([0]), torch.tensor(True)),
                (INPUT * 2, torch.tensor([1]), torch.tensor(False)),
                (INPUT * 3, torch.tensor([2]), torch.tensor(True)),
                (INPUT * 4, torch.tensor([3]), torch.tensor(False)),
            ]
        ],
    )
