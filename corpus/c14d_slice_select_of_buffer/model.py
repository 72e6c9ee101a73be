"""Slices, a column, a transpose of a buffer, read after the buffer has been updated."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4).view(2, 2))

    def forward(self, x):
        y = self.buf[0]
        w = self.buf[:, 1]
        r = self.buf.reshape(4, 1)
        tr = self.buf.t()
        s = y + 0
        self.buf.add_(1)
        return s, y + x, w + x, r + x[0], tr + 0, tr


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(0, 0),), (floats(1, 1),)]],
    )
