"""Two conds side by side, planned greedily without overlapping allocations."""

import functools

import torch
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
from torch import nn

from corpus.experiment import Experiment, floats


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
        options={
            "mpp": {
                "memory_planning_algo": MemoryPlanningAlgorithmSuite(
                    [functools.partial(greedy, allow_overlapping_allocations=False)]
                )
            }
        },
        sequences=[[(floats(1, 2),), (floats(-1, -2),)]],
    )
