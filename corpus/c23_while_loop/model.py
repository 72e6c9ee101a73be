"""A while_loop."""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, n):
        return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (n, x))


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), torch.tensor(0)),
        sequences=[[(floats(1, 2), torch.tensor(0))]],
    )
