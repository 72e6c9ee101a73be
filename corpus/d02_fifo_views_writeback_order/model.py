"""Three registers of different shapes hand their values on through views."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s1", floats(1, 1, 1, 1))
        self.register_buffer("s2", floats(2, 2, 2, 2).view(2, 2))
        self.register_buffer("s3", floats(3, 3, 3, 3))

    def forward(self, x):
        o = self.s3 + 0
        self.s3.copy_(self.s2.view(4))
        self.s2.copy_(self.s1.view(2, 2))
        self.s1.copy_(x)
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[
            [
                (floats(10, 10, 0, 0),),
                (floats(11, 11, 0, 0),),
                (floats(12, 12, 0, 0),),
                (floats(13, 13, 0, 0),),
                (floats(14, 14, 0, 0),),
            ]
        ],
    )
