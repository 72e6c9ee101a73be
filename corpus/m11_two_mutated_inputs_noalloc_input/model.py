"""Two inputs that the caller provides are exchanged in place."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, a, b):
        total = a + b
        a.mul_(2.0)
        b.sub_(1.0)
        return total


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(3, 4)),
        options={"mutated_inputs": 2, "mpp": {"alloc_graph_input": False}},
        sequences=[[(floats(1, 2), floats(3, 4)), (floats(5, 6), floats(7, 8))]],
    )
