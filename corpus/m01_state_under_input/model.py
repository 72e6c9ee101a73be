"""The input of one method is copied over the state of another."""

from torch import nn

from corpus.experiment import Experiment, floats


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", floats(1, 2, 3, 4))

    def forward(self, x):
        self.count.add_(x)
        return self.count * 2


class Scale(nn.Module):
    def forward(self, x):
        return (x * 3).sum()


def build():
    wide = floats(*range(24))
    return Experiment(
        options={
            "preload": True,
            "methods": {"count": (Counter(), (floats(1, 1, 1, 1),)), "scale": (Scale(), (wide,))},
        },
        sequences=[
            [
                ("count", (floats(1, 1, 1, 1),)),
                ("scale", (wide + 5,)),
                ("count", (floats(2, 2, 2, 2),)),
            ]
        ],
    )
