"""index_put is done in place on a buffer while a view of the old state is read afterwards."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4).view(2, 2))

    def forward(self, i, v):
        w = torch.ops.aten.view_copy(self.buf, [4])
        self.buf.index_put_((i,), v)
        return w * 1, self.buf + 0


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), floats(9, 9).view(1, 2)),
        options={"ebc": {"run_reinplace_pass": True}},
        sequences=[[(torch.tensor([0]), floats(9, 9).view(1, 2)), (torch.tensor([1]), floats(8, 8).view(1, 2))]],
    )
