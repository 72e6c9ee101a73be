"""A pass puts a result into the storage of a view."""

from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        w = a.view(4)
        y = w * 3
        return y + 1, a + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4).view(2, 2),),
        options={"passes": [ShareFirstArgument("mul", {1: 0})]},
        sequences=[[(floats(1, 2, 3, 4).view(2, 2),), (floats(5, 6, 7, 8).view(2, 2),)]],
    )
