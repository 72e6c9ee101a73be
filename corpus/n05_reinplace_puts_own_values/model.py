"""index_put is done in place on a view of a copied state, with that view as the values; the caller brings outputs."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", floats(-2, -1, 0, 2))

    def forward(self, x):
        old = self.state.clone()
        view = torch.ops.aten.view_copy(old, old.shape)
        put = view.index_put((torch.tensor([0, 1, 2, 3]),), view)
        return put, put + 1, self.state


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        options={
            "mpp": {"alloc_graph_input": False, "alloc_graph_output": False},
            "ebc": {"run_reinplace_pass": True},
        },
        sequences=[[(floats(1, 2, 3, 4),), (floats(5, 6, 7, 8),)]],
    )
