"""One method sets the shared state, a second reads it; loading a third resets it."""

from torch import nn

from corpus.experiment import Experiment, floats


class Stateful(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.register_buffer("state", state)


class Set(Stateful):
    def forward(self, x):
        self.state.copy_(x)
        return x * x


class Get(Stateful):
    def forward(self):
        return self.state * self.state


class Double(Stateful):
    def forward(self):
        self.state.mul_(2.0)
        return self.state * self.state


def build():
    state = floats(1, 2)
    x = floats(30, 40)
    return Experiment(
        options={
            "methods": {"set": (Set(state), (x,)), "get": (Get(state), ()), "double": (Double(state), ())},
            "mpp": {"share_mutable_buffers": True},
        },
        sequences=[[("get", ()), ("set", (x,)), ("get", ()), ("double", ()), ("get", ())]],
    )
