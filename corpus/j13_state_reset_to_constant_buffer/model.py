"""A state is reset from a constant buffer."""

from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("st", floats(9, 9))
        self.register_buffer("zero", floats(0, 0))

    def forward(self, x):
        o = self.st + x
        self.st.copy_(self.zero)
        return o


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(0, 0),),
        sequences=[[(floats(0, 0),), (floats(1, 1),), (floats(2, 2),)]],
    )
