"""A view of a clone of a buffer is returned after the buffer has been updated."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4).view(2, 2))

    def forward(self, x):
        y = self.buf.clone().view(-1)
        self.buf.add_(1)
        return y, y + x


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[[(floats(0, 0, 0, 0),), (floats(1, 1, 1, 1),)]],
    )
