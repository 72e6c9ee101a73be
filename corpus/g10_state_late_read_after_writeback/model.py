"""Two states updated from each other, with reads of both in between."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("s", floats(1, 2))
        self.register_buffer("r", floats(3, 4))

    def forward(self, x):
        d = self.s * 2
        self.s.copy_(self.r * 1)
        e = self.s + self.r
        self.r.copy_(d)
        g = self.r - self.s
        return d, e, g, self.s.clone(), self.r.clone()


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        sequences=[[(floats(5, 6),), (floats(-5, -6),), (floats(1, 1),)]],
    )
