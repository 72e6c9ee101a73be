"""Architectures whose memory plans are measured: layers of torch, and models of torchvision, timm and transformers.

Weights are random and most models are small versions of themselves: what a plan looks like depends on the architecture
and not on its width. Which of the libraries are installed decides which models there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Built = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Architecture:
    """``make`` returns the module and its inputs; ``backends`` are those of `edge`."""

    name: str
    make: Callable[[], Built]
    backends: tuple[str, ...] = ("portable",)


def _image(size: int = 64) -> tuple[Any, ...]:
    import torch

    return (torch.randn(1, 3, size, size),)


def _vision(name: str, size: int = 64, **options: Any) -> Callable[[], Built]:
    def make() -> Built:
        # Wheels of torchvision for another build of torch lack only operators that no classifier has.
        sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None, **options), _image(size)

    return make


def _timm(name: str, size: int = 64, **options: Any) -> Callable[[], Built]:
    def make() -> Built:
        sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
        import timm

        return timm.create_model(name, pretrained=False, **options), _image(size)

    return make


def _text(kind: str, **options: Any) -> Callable[[], Built]:
    def make() -> Built:
        import torch
        import transformers

        config = getattr(transformers, f"{kind}Config")(vocab_size=100, attn_implementation="eager", **options)
        model = getattr(transformers, f"{kind}Model")(config)
        model.config.use_cache = False
        model.config.return_dict = False

        class First(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: Any) -> Any:
                return self.model(ids, use_cache=False)[0] if kind != "Bert" else self.model(ids)[0]

        return First(), (torch.randint(0, 100, (1, 16)),)

    return make


def _layer(make: Callable[[Any], Built]) -> Callable[[], Built]:
    def build() -> Built:
        import torch

        return make(torch)

    return build


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_BOTH = ("portable", "xnnpack")

_LAYERS = [
    Architecture("nn.LSTM", _layer(lambda t: (t.nn.LSTM(8, 16, 2), (t.randn(8, 1, 8),)))),
    Architecture("nn.GRU", _layer(lambda t: (t.nn.GRU(8, 16, 2), (t.randn(8, 1, 8),)))),
    Architecture("nn.RNN bidirectional", _layer(lambda t: (t.nn.RNN(8, 16, bidirectional=True), (t.randn(8, 1, 8),)))),
    Architecture("nn.Transformer", _layer(lambda t: (
        t.nn.Transformer(32, 2, 2, 2, 64, batch_first=True), (t.randn(1, 8, 32), t.randn(1, 6, 32))))),
    Architecture("nn.TransformerEncoder", _layer(lambda t: (
        t.nn.TransformerEncoder(t.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 4,
                                enable_nested_tensor=False), (t.randn(1, 8, 32),))), _BOTH),
    Architecture("nn.MultiheadAttention", _layer(lambda t: (
        t.nn.MultiheadAttention(32, 4, batch_first=True), tuple(t.randn(1, 8, 32) for _ in range(3))))),
]  # fmt: skip

_VISION = [
    Architecture("resnet18", _vision("resnet18"), (*_BOTH, "quantised")),
    Architecture("resnet50", _vision("resnet50")),
    Architecture("mobilenet_v2", _vision("mobilenet_v2"), (*_BOTH, "quantised")),
    Architecture("mobilenet_v3_small", _vision("mobilenet_v3_small"), _BOTH),
    Architecture("squeezenet1_1", _vision("squeezenet1_1")),
    Architecture("shufflenet_v2_x0_5", _vision("shufflenet_v2_x0_5")),
    Architecture("googlenet", _vision("googlenet", aux_logits=False, init_weights=False)),
    Architecture("densenet121", _vision("densenet121")),
    Architecture("mnasnet0_5", _vision("mnasnet0_5")),
    Architecture("regnet_y_400mf", _vision("regnet_y_400mf")),
    Architecture("convnext_tiny", _vision("convnext_tiny")),
    Architecture("efficientnet_b0", _vision("efficientnet_b0")),
    Architecture("swin_t", _vision("swin_t")),
]

_TIMM = [
    Architecture("ghostnet_050", _timm("ghostnet_050")),
    Architecture("vit_tiny", _timm("vit_tiny_patch16_224", 224), _BOTH),
    Architecture("mixer_s32", _timm("mixer_s32_224", 224)),
    Architecture("deit_tiny", _timm("deit_tiny_patch16_224", 224)),
    Architecture("mobilevit_xxs", _timm("mobilevit_xxs", 64)),
    Architecture("edgenext_xx_small", _timm("edgenext_xx_small", 64)),
    Architecture("res2net50", _timm("res2net50_14w_8s", 64)),
    Architecture("hrnet_w18_small", _timm("hrnet_w18_small", 64)),
]

_TEXT = [
    Architecture("bert", _text("Bert", **_SMALL), _BOTH),
    Architecture("distilbert", _text("DistilBert", dim=32, n_layers=2, n_heads=2, hidden_dim=64)),
    Architecture("gpt2", _text("GPT2", n_embd=32, n_layer=2, n_head=2)),
    Architecture("llama", _text("Llama", num_key_value_heads=1, **_SMALL), _BOTH),
    Architecture("qwen2", _text("Qwen2", num_key_value_heads=1, **_SMALL)),
    Architecture("gemma", _text("Gemma", num_key_value_heads=1, head_dim=16, **_SMALL)),
    Architecture("phi", _text("Phi", **_SMALL)),
]  # fmt: skip


def architectures() -> list[Architecture]:
    """All whose library is installed."""
    found = list(_LAYERS)
    for library, more in (("torchvision", _VISION), ("timm", _TIMM), ("transformers", _TEXT)):
        if find_spec(library) is not None:
            found += more
    return found


def edge(architecture: Architecture, backend: str) -> Any:
    """The edge program of an architecture: portable, lowered to XNNPACK, or quantised and lowered to XNNPACK."""
    import torch
    from executorch.exir import to_edge, to_edge_transform_and_lower

    torch.manual_seed(0)
    module, inputs = architecture.make()
    module.requires_grad_(False).eval()
    exported = torch.export.export(module, inputs, strict=False)
    if backend == "portable":
        return to_edge(exported)
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    if backend == "quantised":
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        prepared = prepare_pt2e(
            exported.module(), XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
        )
        prepared(*inputs)
        exported = torch.export.export(convert_pt2e(prepared), inputs, strict=False)
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
