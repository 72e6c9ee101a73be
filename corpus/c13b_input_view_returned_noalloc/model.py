"""A view of an input is returned; the caller provides inputs and outputs and uses them again."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return x.view(2, 1), x.view(2, 1) * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={
            "mpp": {"alloc_graph_input": False, "alloc_graph_output": False},
            "reuse_inputs": True,
            "raw_outputs": True,
        },
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(3, 4),)]],
    )
