"""A state is reset from a parameter."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("st", floats(9, 9))
        self.p = nn.Parameter(floats(5, 6), requires_grad=False)

    def forward(self, x):
        o = self.st + x
        self.st.copy_(self.p)
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(0, 0),), (floats(1, 1),), (floats(2, 2),)]],
    )
