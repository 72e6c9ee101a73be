"""The updated buffer is returned."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2))

    def forward(self, x):
        self.buf.add_(x)
        return self.buf


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1),),
        sequences=[[(floats(1, 1),), (floats(2, 2),)]],
    )
