"""index_put is done in place on a view of an input, with a copy of that view as the values; both are returned."""

import torch
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        flat = x.reshape(4)
        copy = flat.clone()
        put = flat.index_put((torch.tensor([0, 1, 2, 3]),), copy)
        return put, copy


def build():
    def inputs(*values):
        return (floats(*values).reshape(2, 2),)

    return Experiment(
        module=Model(),
        example_inputs=inputs(1, 2, 3, 4),
        options={
            "mpp": {"memory_planning_algo": MemoryPlanningAlgorithmSuite([greedy])},
            "ebc": {"run_reinplace_pass": True},
        },
        sequences=[[inputs(1, 2, 3, 4), inputs(5, 6, 7, 8)]],
    )
