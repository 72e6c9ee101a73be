"""An input is returned, with inputs and outputs that the caller provides."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return x, x + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        options={"mpp": {"alloc_graph_output": False, "alloc_graph_input": False}},
        sequences=[[(floats(1, 1),), (floats(2, 2),)]],
    )
