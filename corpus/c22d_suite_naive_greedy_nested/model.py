"""Nested conds, planned by the better of two algorithms."""

import torch
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x, y):
        return (
            torch.cond(
                x.sum() > 0,
                lambda v, w: torch.cond(w.sum() > 0, lambda v, w: v + w, lambda v, w: v - w, (v, w)) + v * 2,
                lambda v, w: v * w,
                (x, y),
            )
            * y
        )


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2), floats(1, 2)),
        options={"mpp": {"memory_planning_algo": MemoryPlanningAlgorithmSuite([greedy, naive])}},
        sequences=[[(floats(1, 2), floats(1, 1)), (floats(1, 2), floats(-1, -1)), (floats(-1, -2), floats(1, 2))]],
    )
