"""index_put is done in place while a view of its base is read afterwards."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, i, v):
        a = x * 2
        w = a.view(4)
        b = a.index_put((i,), v)
        return w + 1, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4).view(2, 2), torch.tensor([0]), floats(9, 9).view(1, 2)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[
            [
                (floats(1, 2, 3, 4).view(2, 2), torch.tensor([0]), floats(9, 9).view(1, 2)),
                (floats(1, 2, 3, 4).view(2, 2), torch.tensor([1]), floats(9, 9).view(1, 2)),
            ]
        ],
    )
