"""Two conds side by side under one predicate, which is written in two ways; right as long as both are seen to agree."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x, flag):
        never = torch.logical_xor(flag, flag)
        same = torch.logical_or(never, flag)
        first = torch.cond(same, lambda a: a.clone(), lambda a: a.clamp(-9, 9), (x,))
        second = torch.cond(flag, lambda a: a.clone(), lambda a: a.clone(), (first,))
        return first, second


def inputs(flag, rows):
    return torch.arange(4 * rows).reshape(rows, 4) * 1.5, torch.tensor(flag)


def build():
    return Experiment(
        module=Model(),
        example_inputs=inputs(True, 3),
        dynamic_shapes=({0: Dim("n", min=2, max=6)}, {}),
        sequences=[[inputs(True, 3), inputs(False, 6), inputs(True, 2), inputs(False, 3)]],
    )
