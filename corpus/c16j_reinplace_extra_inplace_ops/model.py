"""relu and sigmoid were named for reinplacing."""

import torch
from executorch.exir.dialects._ops import ops
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        w = a.view(4)
        b = torch.relu(a)
        c = torch.sigmoid(a.view(4))
        return w + 1, b * 1, c * 1


INPUT = floats(-1, 2, -3, 5).view(2, 2)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={
            "tol": 1e-5,
            "ebc": {
                "run_reinplace_pass": True,
                "reinplace_extra_ops": frozenset({ops.edge.aten.relu.default, ops.edge.aten.sigmoid.default}),
            },
        },
        sequences=[[(INPUT,), (INPUT * 2,)]],
    )
