"""Two stateless methods, called in turn; outputs are kept."""

from torch import nn

from corpus.experiment import Experiment, floats


class A(nn.Module):
    def forward(self, x):
        return x + 1


class B(nn.Module):
    def forward(self, x):
        return x * 100


def build():
    return Experiment(
        options={"methods": {"a": (A(), (floats(1, 1),)), "b": (B(), (floats(1, 1),))}, "raw_outputs": True},
        sequences=[[("a", (floats(1, 1),)), ("b", (floats(2, 2),)), ("a", (floats(3, 3),)), ("b", (floats(1, 1),))]],
    )
