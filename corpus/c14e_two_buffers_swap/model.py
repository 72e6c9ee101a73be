"""Two buffers swap their values."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", floats(1, 2))
        self.register_buffer("b", floats(3, 4))

    def forward(self, x):
        ta = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(ta)
        return self.a + x, self.b + x


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(0, 0),), (floats(1, 1),), (floats(2, 2),)]],
    )
