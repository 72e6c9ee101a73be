"""One buffer is a view of another."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        b = floats(1, 2, 3, 4)
        self.register_buffer("a", b)
        self.register_buffer("b", b[2:])

    def forward(self, x):
        self.a.add_(x)
        return self.b * 1, self.a * 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 1, 1, 1),),
        sequences=[[(floats(1, 1, 1, 1),), (floats(2, 2, 2, 2),)]],
    )
