"""Plain operators, with sizes that were never evaluated."""

import torch
from torch import nn
from torch.export import Dim

from corpus.experiment import Experiment
from corpus.passes import LeaveShapes


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        b = a + 1
        return b * a


RAMP = torch.arange(1.0, 9.0)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(RAMP[:5].clone(),),
        dynamic_shapes=({0: Dim("n", min=2, max=8)},),
        options={"ebc": {"sym_shape_eval_pass": LeaveShapes()}},
        sequences=[[(RAMP[:3].clone(),), (-RAMP[:5],)]],
    )
