"""index_put on a cond's result that is a constant in one branch."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        c = torch.cond(x.sum() > 0, lambda v: torch.tensor([7.0, 8.0]), lambda v: v - 1, (x,))
        return c.index_put((i,), v) * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), torch.tensor([0]), floats(9)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [
                (floats(1, 2), torch.tensor([0]), floats(9)),
                (floats(1, 2), torch.tensor([1]), floats(9)),
                (floats(-1, -2), torch.tensor([1]), floats(9)),
            ]
        ],
    )
