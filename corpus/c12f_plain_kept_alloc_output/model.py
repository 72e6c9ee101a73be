"""Two plain outputs, kept as they came and read again after the last call."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        return x + 1, x * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"raw_outputs": True},
        sequences=[[(floats(1, 2),), (floats(-1, -2),), (floats(3, 4),)]],
    )
