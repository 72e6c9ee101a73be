"""An input is updated in place and becomes the new state."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s", floats(1, 2))

    def forward(self, x):
        old = self.s * 1
        x.add_(self.s)
        self.s.copy_(x)
        return old


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mutated_inputs": 1},
        sequences=[[(floats(5, 6),), (floats(-5, -6),), (floats(1, 1),)]],
    )
