"""A cond inside a branch of a cond, with the operand used again after the inner one."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y):
        return torch.cond(
            x.sum() > 0,
            lambda v, w: torch.cond(w.sum() > 0, lambda v, w: v + w, lambda v, w: v - w, (v, w)) + v,
            lambda v, w: v * w,
            (x, y),
        )


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1, 2)),
        sequences=[
            [
                (floats(1, 2), floats(1, 1)),
                (floats(1, 2), floats(-1, -1)),
                (floats(-1, -2), floats(1, 2)),
                (floats(-1, -2), floats(-1, -2)),
                (floats(1, 2), floats(1, 1)),
            ]
        ],
    )
