"""Conds three deep, two of them side by side in a branch."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y):
        def inner(v, w):
            a = torch.cond(v[0] > 1, lambda q: q + 1, lambda q: q - 1, (v,))
            return a * w

        def outer(v, w):
            r = torch.cond(w[0] > 0, inner, lambda v, w: v - w, (v, w))
            s = torch.cond(w[1] > 0, inner, lambda v, w: v * w, (w, v))
            return r, s

        a, b = torch.cond(x.sum() > 0, outer, lambda v, w: (v + w, v - w), (x, y))
        return a, b, a + b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1, 2)),
        sequences=[[(floats(a, 2), floats(b, c)) for a in (3, 0.5, -9) for b in (1, -1) for c in (1, -1)]],
    )
