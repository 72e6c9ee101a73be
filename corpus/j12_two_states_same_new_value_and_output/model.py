"""Two states and an output are one new value."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(1, 2))
        self.register_buffer("b", floats(3, 4))

    def forward(self, x):
        n = x * 2 + self.a
        self.a.copy_(n)
        self.b.copy_(n)
        return n, n.view(2, 1)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[(floats(0, 0),), (floats(1, 1),), (floats(2, 2),)]],
    )
