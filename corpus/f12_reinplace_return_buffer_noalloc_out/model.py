"""A buffer that was updated in place is returned into an output that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, i, v):
        self.buf.index_put_((i,), v)
        return self.buf, self.buf * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.tensor([0]), floats(9)),
        options={"mpp": {"alloc_graph_output": False}, "raw_outputs": True, "ebc": {"run_reinplace_pass": True}},
        sequences=[[(torch.tensor([0]), floats(9)), (torch.tensor([1]), floats(8)), (torch.tensor([2]), floats(7))]],
    )
