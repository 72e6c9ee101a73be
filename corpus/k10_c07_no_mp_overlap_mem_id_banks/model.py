"""A planner gives every branch an arena of its own."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats
from corpus.passes import PlanBranchesApart


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(predicate, lambda v: v * 10, lambda v: v * 20, (x,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2),),
        options={"mpp": PlanBranchesApart()},
        sequences=[[(floats(1, 2),), (floats(-1, -2),)]],
    )
