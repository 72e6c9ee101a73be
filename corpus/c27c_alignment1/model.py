"""Planning with an alignment of one byte."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        mask = x > 0
        y = x * 3
        q = mask.logical_not()
        return y, q, mask


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3),),
        options={"mpp": {"alignment": 1}},
        sequences=[[(floats(1, 2, 3),), (floats(-1, -2, -3),)]],
    )
