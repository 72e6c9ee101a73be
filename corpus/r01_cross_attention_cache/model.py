"""A two-layer decoder that caches cross-attention keys and values behind cond: wrong from the second token on."""

import torch
from torch import nn

from corpus.experiment import Experiment

HEADS, SIZE, LENGTH = 2, 4, 3
WIDTH = HEADS * SIZE


class Layer(nn.Module):
    """Attention over encoder states; a cond picks the cached keys and values, or computes them at the first token."""

    def __init__(self):
        super().__init__()
        self.k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH)
        self.o = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, SIZE))
        self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, SIZE))
        self.register_buffer("filled", torch.tensor(False))

    def forward(self, x, enc):
        q = self.q(x).view(1, -1, HEADS, SIZE).transpose(1, 2).contiguous()

        def cached(k, v, e):
            return k.clone(), v.clone()

        def fresh(k, v, e):
            return (
                self.k(e).view(1, LENGTH, HEADS, SIZE).transpose(1, 2).contiguous(),
                self.v(e).view(1, LENGTH, HEADS, SIZE).transpose(1, 2).contiguous(),
            )

        k, v = torch.cond(self.filled, cached, fresh, (self.keys, self.values, enc))
        self.keys.copy_(k)
        self.values.copy_(v)
        self.filled.fill_(True)
        a = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return self.o(a.transpose(1, 2).reshape(1, -1, WIDTH))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x, enc):
        for layer in self.layers:
            x = x + layer(x, enc)
        return x


def build():
    generator = torch.Generator().manual_seed(1)
    encoded = torch.randn(1, LENGTH, WIDTH, generator=generator)
    steps = [(torch.randn(1, 1, WIDTH, generator=generator), encoded) for _ in range(4)]
    return Experiment(
        module=Decoder().requires_grad_(False),
        example_inputs=steps[0],
        options={"tol": 1e-4},
        sequences=[steps],
    )
