"""Two states of which one is only read; the program carries the initial value of neither."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", floats(2, 0))
        self.register_buffer("offset", floats(1, 2))

    def forward(self, x):
        self.total.add_(x)
        return self.total, self.offset


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        options={"init": False},
        sequences=[[(floats(1, 1),), (floats(2, 3),)]],
    )
