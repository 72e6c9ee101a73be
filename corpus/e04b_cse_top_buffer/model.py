"""Two equal products of a buffer, before and after its update, under common subexpression elimination."""

from executorch.exir.passes.cse_pass import CSEPass
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2))

    def forward(self, x):
        a = self.buf * 2
        self.buf.add_(x)
        b = self.buf * 2
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"edge_hook": lambda e: e.transform([CSEPass()])},
        sequences=[[(floats(1, 2),), (floats(-1, -2),)]],
    )
