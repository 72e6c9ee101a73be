"""Two conds side by side inside a branch of a third."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


def when_true(v, w):
    a = torch.cond(w.sum() > 0, lambda v, w: v + w, lambda v, w: v - w, (v, w))
    b = torch.cond(v[0] > 2, lambda v, w: v * w, lambda v, w: v / w, (v, w))
    return a + b


class Model(nn.Module):
    def forward(self, x, y):
        return torch.cond(x.sum() > 0, when_true, lambda v, w: v * w, (x, y))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1, 2)),
        sequences=[
            [
                (floats(1, 2), floats(1, 1)),
                (floats(3, 2), floats(-1, -1)),
                (floats(5, 2), floats(1, 2)),
                (floats(-1, -2), floats(-1, -2)),
                (floats(1, 2), floats(1, 1)),
            ]
        ],
    )
