"""ExecuTorch's own pass for removing clones removes the copy of the old state that is returned."""

from executorch.backends.transforms.remove_clone_ops import RemoveCloneOpsTransform
from torch import nn

from corpus.experiment import Experiment, floats


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", floats(1, 2, 3, 4))

    def forward(self, x):
        old = self.buf.clone()
        self.buf.copy_(x)
        return old, old * 2


def build():
    return Experiment(
        module=Model(),
        example_inputs=(floats(1, 2, 3, 4),),
        options={"edge_hook": lambda e: e.transform([RemoveCloneOpsTransform()])},
        sequences=[[(floats(5, 6, 7, 8),), (floats(-5, -6, -7, -8),), (floats(9, 9, 9, 9),)]],
    )
