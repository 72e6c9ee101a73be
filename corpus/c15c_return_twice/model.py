"""One value is returned twice, and once more as a view."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        return y, y, y.view(2, 1)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        sequences=[[(floats(1, 1),), (floats(2, 2),)]],
    )
