"""A pass puts a result into the storage of an input that is read afterwards."""

from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        return a + x, a


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"passes": [ShareFirstArgument("mul", {0: 0})]},
        sequences=[[(floats(1, 2, 3, 4),), (floats(5, 6, 7, 8),)]],
    )
