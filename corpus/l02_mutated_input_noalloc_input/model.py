"""An input that the caller provides is updated in place."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mutated_inputs": 1, "mpp": {"alloc_graph_input": False}},
        sequences=[[(floats(1, 2),), (floats(3, 4),)]],
    )
