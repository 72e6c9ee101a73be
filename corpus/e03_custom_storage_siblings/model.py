"""A pass puts two living results into the storage of one base."""

from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import ShareFirstArgument


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        y1 = a * 3
        y2 = a * 5
        return y1 + y2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"passes": [ShareFirstArgument("mul", {1: 0, 2: 0})]},
        sequences=[[(floats(1, 2, 3, 4),), (floats(5, 6, 7, 8),)]],
    )
