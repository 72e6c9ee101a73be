"""Three registers hand their values on: s3 from s2, s2 from s1, s1 from the input."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        for i in (1, 2, 3):
            self.register_buffer(f"s{i}", floats(i, i))

    def forward(self, x):
        o = self.s3 + 0
        self.s3.copy_(self.s2)
        self.s2.copy_(self.s1)
        self.s1.copy_(x)
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(10, 10),), (floats(11, 11),), (floats(12, 12),), (floats(13, 13),), (floats(14, 14),)]],
    )
