"""Two operators that were named for reinplacing have the same input."""

import torch
from executorch.exir.dialects._ops import ops
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        a = x * 2
        y1 = torch.log_softmax(a, -1)
        y2 = torch.log_softmax(a, 0)
        return y1 * 1, y2 * 1


INPUT = floats(1, 2, 3, 5).view(2, 2)


def build():
    return Experiment(
        module=Model(),
        example_inputs=(INPUT,),
        options={
            "tol": 1e-5,
            "ebc": {"run_reinplace_pass": True, "reinplace_extra_ops": frozenset({ops.edge.aten._log_softmax.default})},
        },
        sequences=[[(INPUT,), (INPUT * 2,)]],
    )
