"""A clone of the old state and a view of it are returned."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        old = self.buf.clone()
        self.buf.copy_(x)
        return old, old.view(2, 2)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0, 0, 0),),
        sequences=[[(floats(9, 0, 0, 0),), (floats(1, 1, 1, 1),)]],
    )
