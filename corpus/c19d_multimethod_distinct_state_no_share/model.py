"""Two methods with a state each, called in turn."""

from torch import nn

from corpus.experiment import Experiment, floats


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sa", floats(1, 2))

    def forward(self, x):
        self.sa.add_(x)
        return self.sa * 1


class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sb", floats(10, 20))

    def forward(self, x):
        y = x * 2
        z = y + self.sb
        self.sb.mul_(2.0)
        return z, y


def build():
    return Experiment(
        options={"methods": {"a": (A(), (floats(1, 1),)), "b": (B(), (floats(1, 1),))}},
        sequences=[
            [
                ("a", (floats(1, 1),)),
                ("b", (floats(2, 2),)),
                ("a", (floats(3, 3),)),
                ("b", (floats(1, 1),)),
                ("a", (floats(3, 3),)),
            ]
        ],
    )
