"""A planner puts what the top graph computes into arena 2 and leaves branches in arena 1."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import PlanTopInArena


class Model(nn.Module):
    def forward(self, x):
        y = x * 3
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (y,))
        return a * y


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mpp": PlanTopInArena(2)},
        sequences=[[(floats(1, 2),), (floats(-1, -2),)]],
    )
