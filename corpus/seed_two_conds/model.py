"""The program of the public discussion that began the project: a cond's result is overwritten by the next cond."""

import torch
from torch import nn

from corpus.experiment import Experiment


class Model(nn.Module):
    """Two conds on one predicate, the second of them nested and fed by the first; a state that keeps the first."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.tensor([torch.nan], dtype=torch.float64))

    def forward(self, data):
        value = data[0].unsqueeze(0)
        predicate = value >= 0.0
        first = torch.cond(
            predicate,
            lambda v: v.clone(),
            lambda v: self.state.clone(),
            [value],
        )
        second = torch.cond(
            predicate,
            lambda r: torch.cond(
                torch.isnan(self.state),
                lambda s: s.clone(),
                lambda s: s + 1.0,
                [r],
            ),
            lambda r: self.state.clone(),
            [first],
        )
        self.state.copy_(first)
        return first, second


def inputs(value):
    return (torch.tensor([value], dtype=torch.float64),)


def build(**planning):
    return Experiment(
        module=Model(),
        example_inputs=inputs(5.0),
        options={"mpp": planning},
        sequences=[[inputs(5.0), inputs(6.0)]],
    )
