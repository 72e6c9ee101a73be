"""A branch returns features and, through a flattening view of them, a score, into outputs that the caller provides."""

import torch
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def forward(self, x):
        def large(v):
            features = v.reshape(2, 2) * 2
            return features, features.flatten().cumsum(0)

        def small(v):
            features = v.reshape(2, 2) + 1
            return features, features.flatten().cumsum(0)

        features, score = torch.cond(x.abs().sum() > 8, large, small, (x,))
        return features, score + 1


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"mpp": {"alloc_graph_output": False}},
        sequences=[[(floats(1, 2, 3, 4),), (floats(2, 2, 2, 2),), (floats(0, 1, 0, 1),), (floats(1, 0, 2, 0),)]],
    )
