"""Three registers hand their values on, written by slice assignment."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s1", floats(1, 1))
        self.register_buffer("s2", floats(2, 2))
        self.register_buffer("s3", floats(3, 3))

    def forward(self, x):
        o = self.s3 + 0
        n1, n2, n3 = x * 1, self.s1, self.s2
        self.s3[:] = n3
        self.s2[:] = n2
        self.s1[:] = n1
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(10, 10),), (floats(11, 11),), (floats(12, 12),), (floats(13, 13),), (floats(14, 14),)]],
    )
