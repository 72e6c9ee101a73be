"""Two methods share one state; the second is loaded after the first has run."""

from torch import nn

from corpus.experiment import Experiment, floats


class A(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.register_buffer("st", s)

    def forward(self, x):
        self.st.add_(x)
        return self.st * 1


class B(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.register_buffer("st", s)

    def forward(self, x):
        return self.st * 1


def build():
    s = floats(1, 2)
    return Experiment(
        options={
            "methods": {"a": (A(s), (floats(1, 1),)), "b": (B(s), (floats(1, 1),))},
            "mpp": {"share_mutable_buffers": True},
        },
        sequences=[[("a", (floats(1, 1),)), ("b", (floats(2, 2),)), ("a", (floats(3, 3),)), ("b", (floats(1, 1),))]],
    )
