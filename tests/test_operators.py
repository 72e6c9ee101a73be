"""The effects that argument conventions give agree with torch's own operator schemas and tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import executorch.exir  # noqa: F401  (registers ExecuTorch's operator libraries)
import pytest
import torch

from hazard.analysis import operators
from hazard.analysis.effects import effect_of
from hazard.program import NULL, Kernel, Method, Planned, Scalar, Tensor, TensorList, Value

NAMESPACES = ("aten", "dim_order_ops", "quantized_decomposed")


def _overloads() -> Iterator[Any]:
    for name in torch._C._dispatch_get_all_op_names():
        space = name.partition("::")[0]
        if space in NAMESPACES:
            base, _, overload = name.partition("::")[2].partition(".")
            packet = getattr(getattr(torch.ops, space), base, None)
            op = getattr(packet, overload or "default", None)
            if op is not None:
                yield op


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _call(op: Any) -> tuple[Method, Kernel, set[int], set[int]] | None:
    """A call as the emitter would write it: the method around it, and the slots written and read by the schema."""
    schema = op._schema
    values: list[Value] = []
    args: list[int] = []
    written: set[int] = set()
    read: set[int] = set()

    def tensor() -> int:
        slot = len(values)
        values.append(Tensor("f32", (4,), Planned(1, 16 * slot)))
        return slot

    outs: list[int] = []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind in ("Tensor", "Optional[Tensor]"):
            slot = tensor()
            args.append(slot)
            slots = [slot]
        elif kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            slots = [tensor(), tensor()]
            args.append(len(values))
            values.append(TensorList(tuple(slots)))
        else:
            args.append(len(values))
            values.append(NULL)
            continue
        (written if _writes(argument) else read).update(slots)
        if _writes(argument):
            outs.extend(slots)
    returns = schema.returns
    if len(returns) == 1 and str(returns[0].type) == "Tensor" and len(outs) == 1:
        args.append(outs[0])
    elif outs and all("Tensor" in str(r.type) for r in returns):
        args.append(len(values))
        values.append(TensorList(tuple(outs)))
    elif len(returns) == 1 and str(returns[0].type) in ("number", "int", "float", "bool"):
        args.append(len(values))
        values.append(Scalar("int", 0))
    else:
        return None
    space, base = schema.name.split("::")
    method = Method("m", tuple(values), (), (), (), {})
    name = f"{space}::{base}.{schema.overload_name}".rstrip(".")
    return method, Kernel(name, tuple(args)), written, read


def _kernels() -> dict[str, Any]:
    """Operators that can stand in a program: out variants, and in-place operators with one tensor written."""
    found = {}
    for op in _overloads():
        name = op._schema.name.partition("::")[2]
        mutated = [a for a in op._schema.arguments if _writes(a)]
        out_variant = bool(mutated) and all(a.is_out or a.kwarg_only for a in mutated)
        in_place = name.endswith("_") and not name.startswith("__") and len(mutated) == 1
        in_place = in_place and _writes(op._schema.arguments[0]) and str(op._schema.arguments[0].type) == "Tensor"
        if out_variant or in_place:
            found[f"{op._schema.name}.{op._schema.overload_name}"] = op
    return found


KERNELS = _kernels()


def test_there_are_kernels_of_every_namespace() -> None:
    assert len(KERNELS) > 1200
    assert {k.partition("::")[0] for k in KERNELS} == set(NAMESPACES)


def test_writes_are_those_of_the_schema() -> None:
    """Nothing that a schema says is written is missed, and nothing that it says is read is dropped."""
    checked = 0
    for name, op in KERNELS.items():
        call = _call(op)
        if call is None:
            continue
        method, kernel, written, read = call
        effect = effect_of(method, kernel, {})
        assert effect.known, name
        assert {*effect.writes, *effect.updates} == written, name
        assert read <= {*effect.reads, *effect.shapes}, name
        assert set(effect.shapes) <= read | written, name
        checked += 1
    assert checked > 1200


def test_in_place_operators_that_keep_something_are_updates_or_read_their_target() -> None:
    whole = []
    for name, op in KERNELS.items():
        call = _call(op)
        base = op._schema.name.partition("::")[2]
        if call is None or not base.endswith("_") or base.startswith("__"):
            continue
        method, kernel, _, _ = call
        effect = effect_of(method, kernel, {})
        if effect.writes and effect.writes[0] not in effect.reads:
            whole.append(base)
            assert base in operators.OVERWRITES, name
    assert {"copy_", "fill_", "zero_"} <= set(whole)


@pytest.mark.parametrize("name", sorted(operators.OVERWRITES))
def test_overwriting_operators_do_not_depend_on_the_old_contents(name: str) -> None:
    """Run on two different old contents: the result is the same."""
    packet = getattr(torch.ops.aten, name)
    results = []
    for old in (1.0, 5.0):
        torch.manual_seed(0)
        target = torch.full((8,), old)
        extra: tuple[Any, ...] = {"copy_": (torch.arange(8.0),), "fill_": (3.0,)}.get(name, ())
        if name == "bernoulli_":
            extra = (0.5,)
        packet(target, *extra)
        results.append(target)
    assert torch.equal(*results)


def test_elementwise_operators_are_pointwise_or_copies() -> None:
    copies = {
        "alias_copy", "detach_copy", "lift_fresh_copy", "view_copy", "unsqueeze_copy", "squeeze_copy", "to_copy",
        "_to_copy", "_to_dim_order_copy", "_clone_dim_order", "_unsafe_view", "reshape_copy", "flatten_copy",
        "quantize_per_tensor", "dequantize_per_tensor", "true_divide",
    }  # fmt: skip
    for name in operators.ELEMENTWISE - copies:
        packet = getattr(torch.ops.aten, name)
        tags = {tag for o in packet.overloads() for tag in getattr(packet, o).tags}
        pointwise = torch.Tag.pointwise in tags
        assert pointwise or name in {"floor_divide", "hardswish", "log_sigmoid"}, name


def test_elementwise_operators_give_the_same_result_over_their_operand() -> None:
    """Those without a tag are run: writing the result over the operand changes nothing."""
    x = torch.linspace(-3, 3, 16)
    for name in ("hardswish", "log_sigmoid"):
        packet = getattr(torch.ops.aten, name)
        want = packet(x)
        over = x.clone()
        packet.out(over, out=over)
        assert torch.equal(over, want), name
    over = x.clone()
    torch.floor_divide(over, 2, out=over)
    assert torch.equal(over, torch.floor_divide(x, 2))


def test_every_operator_with_a_seed_is_known_to_be_nondeterministic() -> None:
    for name, op in KERNELS.items():
        if torch.Tag.nondeterministic_seeded in op.tags:
            assert op._schema.name.partition("::")[2] in operators.NONDETERMINISTIC, name


def test_shape_readers_do_not_depend_on_the_contents_of_their_first_operand() -> None:
    for name in ("full_like", "zeros_like", "ones_like", "copy", "new_full", "new_ones", "new_zeros"):
        packet = getattr(torch.ops.aten, name)
        extra: tuple[Any, ...] = {
            "full_like": (2.0,), "copy": (torch.arange(4.0),), "new_full": ([3], 2.0), "new_ones": ([3],),
            "new_zeros": ([3],),
        }.get(name, ())  # fmt: skip
        results = [packet(torch.full((4,), fill), *extra) for fill in (1.0, 7.0)]
        assert torch.equal(*results), name
