"""Two conds side by side with results of different types and sizes."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    def forward(self, x):
        predicate = x.sum() > 0
        a = torch.cond(predicate, lambda v: v.to(torch.bfloat16) * 2, lambda v: v.to(torch.bfloat16) - 1, (x,))
        b = torch.cond(predicate, lambda v: (v[:3] * 10).to(torch.int32), lambda v: (v[:3] * 20).to(torch.int32), (x,))
        return a, b


def build():
    return Experiment(
        module=Model(),
        example_inputs=(torch.arange(1.0, 17.0),),
        sequences=[[(torch.arange(1.0, 17.0),), (-torch.arange(1.0, 17.0),)]],
    )
