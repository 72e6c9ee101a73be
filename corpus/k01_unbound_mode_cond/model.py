"""Two conds side by side, with sizes that were never evaluated."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment
from corpus.passes import LeaveShapes


class Model(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = torch.cond(x.sum() > 0, lambda v: v * 10, lambda v: v * 20, (x,))
        return a + b


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5].clone(),),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        options={"ebc": {"sym_shape_eval_pass": LeaveShapes()}},
        sequences=[[(RAMP[:3].clone(),), (-RAMP[:5],)]],
    )
