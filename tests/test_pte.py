"""The `.pte` reader against ExecuTorch's own serialiser, and against files that are not what they should be."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import flatbuffers
import pytest
import torch
from executorch.exir import schema
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program, _program_to_flatbuffer
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.scalar_type import ScalarType

from hazard import program as hz
from hazard.frontends import load, load_bytes
from hazard.frontends.pte import parse_pte, read_program
from hazard.text import parse_program, print_program

ROOT = Path(__file__).parent.parent

#: Further folders of programs to compare, separated as in PATH.
FOLDERS = [ROOT / "corpus", *map(Path, filter(None, os.environ.get("HAZARD_PROGRAMS", "").split(os.pathsep)))]
PROGRAMS = sorted(p for folder in FOLDERS for p in folder.rglob("*.pte"))
NAMES = [str(p.relative_to(ROOT)) if p.is_relative_to(ROOT) else p.name for p in PROGRAMS]

DTYPES = {
    ScalarType.BYTE: "u8", ScalarType.CHAR: "i8", ScalarType.SHORT: "i16", ScalarType.INT: "i32",
    ScalarType.LONG: "i64", ScalarType.HALF: "f16", ScalarType.FLOAT: "f32", ScalarType.DOUBLE: "f64",
    ScalarType.BOOL: "bool", ScalarType.QINT8: "qi8", ScalarType.QUINT8: "qu8", ScalarType.QINT32: "qi32",
    ScalarType.BFLOAT16: "bf16", ScalarType.QUINT4x2: "qu4x2", ScalarType.QUINT2x4: "qu2x4",
    ScalarType.BITS16: "bits16", ScalarType.FLOAT8E5M2: "f8e5m2", ScalarType.FLOAT8E4M3FN: "f8e4m3fn",
    ScalarType.FLOAT8E5M2FNUZ: "f8e5m2fnuz", ScalarType.FLOAT8E4M3FNUZ: "f8e4m3fnuz", ScalarType.UINT16: "u16",
    ScalarType.UINT32: "u32", ScalarType.UINT64: "u64",
}  # fmt: skip


# --- what ExecuTorch's deserialiser says, in our terms ----------------------------------------------------------------


def flatbuffer_of(data: bytes) -> bytes:
    return data[: struct.unpack_from("<Q", data, 16)[0]] if data[8:12] == b"eh00" else data


def expected(data: bytes) -> hz.Program:
    program = _flatbuffer_to_program(flatbuffer_of(data))
    return hz.Program(tuple(expected_method(plan) for plan in program.execution_plan))


def expected_method(plan: schema.ExecutionPlan) -> hz.Method:
    devices = {d.buffer_idx: d for d in reversed(plan.non_const_buffer_device or [])}
    arenas = {}
    for i, size in list(enumerate(plan.non_const_buffer_sizes))[1:]:
        device = devices.get(i)
        on_host = device is None or device.device_type == schema.DeviceType.CPU
        arenas[i] = hz.Arena(size, None if on_host else f"cuda:{device.device_index}")
    return hz.Method(
        plan.name,
        tuple(expected_value(v.val, plan) for v in plan.values),
        tuple(plan.inputs or ()),
        tuple(plan.outputs or ()),
        tuple(tuple(expected_instructions(chain, plan)) for chain in plan.chains),
        arenas,
        tuple(d.id for d in plan.delegates),
    )


def expected_value(value: object, plan: schema.ExecutionPlan) -> hz.Value:
    match value:
        case schema.Null():
            return hz.NULL
        case schema.Int(x):
            return hz.Scalar("int", x)
        case schema.Bool(x):
            return hz.Scalar("bool", x)
        case schema.Double(x):
            return hz.Scalar("double", float(x))
        case schema.String(x):
            return hz.Scalar("string", x)
        case schema.IntList(items):
            return hz.NumberList("ints", tuple(items))
        case schema.DoubleList(items):
            return hz.NumberList("doubles", tuple(items))
        case schema.BoolList(items):
            return hz.NumberList("bools", tuple(items))
        case schema.TensorList(items):
            return hz.TensorList(tuple(items))
        case schema.OptionalTensorList(items):
            nulls = {-1, *(i for i, v in enumerate(plan.values) if isinstance(v.val, schema.Null))}
            return hz.TensorList(tuple(-1 if i in nulls else i for i in items), optional=True)
        case schema.Tensor():
            return expected_tensor(value)
    raise TypeError(value)


def expected_tensor(t: schema.Tensor) -> hz.Tensor:
    extra = t.extra_tensor_info or schema.ExtraTensorInfo()
    external = extra.location == schema.TensorDataLocation.EXTERNAL
    initial: int | None = None
    placement: hz.Placement
    if t.allocation_info is not None:
        placement = hz.Planned(t.allocation_info.memory_id, t.allocation_info.memory_offset)
        if external:
            initial = 0
        elif t.data_buffer_idx:
            initial = t.data_buffer_idx + 2**32 * extra.mutable_data_segments_idx
    elif external:
        placement = hz.Constant(extra.fully_qualified_name)
    elif t.data_buffer_idx:
        placement = hz.Constant(t.data_buffer_idx)
    else:
        placement = hz.Unplanned()
    dynamism = {
        schema.TensorShapeDynamism.STATIC: hz.Dynamism.STATIC,
        schema.TensorShapeDynamism.DYNAMIC_BOUND: hz.Dynamism.BOUND,
        schema.TensorShapeDynamism.DYNAMIC_UNBOUND: hz.Dynamism.UNBOUND,
    }[t.shape_dynamism]
    contiguous = list(t.dim_order) == list(range(len(t.sizes)))
    return hz.Tensor(
        DTYPES[t.scalar_type],
        tuple(t.sizes),
        placement,
        dynamism,
        initial,
        extra.fully_qualified_name,
        None if contiguous else tuple(t.dim_order),
    )


def expected_instructions(chain: schema.Chain, plan: schema.ExecutionPlan) -> Iterator[hz.Instruction]:
    for i, instruction in enumerate(chain.instructions):
        origin = None
        if chain.stacktrace:
            frame = chain.stacktrace[i].items[-1]
            origin = hz.Origin(file=frame.filename, line=frame.lineno, function=frame.name, source=frame.context)
        match instruction.instr_args:
            case schema.KernelCall(op, args):
                name, overload = plan.operators[op].name, plan.operators[op].overload
                yield hz.Kernel(name + "." + overload if overload else name, tuple(args), origin)
            case schema.DelegateCall(delegate, args):
                yield hz.DelegateCall(delegate, tuple(args), None, origin)
            case schema.MoveCall(source, target):
                yield hz.Move(source, target, origin)
            case schema.JumpFalseCall(condition, target):
                yield hz.JumpFalse(condition, target, origin)
            case schema.FreeCall(value):
                yield hz.Free(value, origin)
            case other:
                raise TypeError(other)


data_reference = schema.BackendDelegateDataReference


# --- programs made by hand --------------------------------------------------------------------------------------------


def tensor(
    sizes: list[int],
    scalar_type: ScalarType = ScalarType.FLOAT,
    *,
    at: tuple[int, int] | None = None,
    constant: int = 0,
    order: list[int] | None = None,
    dynamism: schema.TensorShapeDynamism = schema.TensorShapeDynamism.STATIC,
    extra: schema.ExtraTensorInfo | None = None,
    storage_offset: int = 0,
) -> schema.Tensor:
    return schema.Tensor(
        scalar_type=scalar_type,
        storage_offset=storage_offset,
        sizes=sizes,
        dim_order=list(range(len(sizes))) if order is None else order,
        requires_grad=False,
        layout=0,
        data_buffer_idx=constant,
        allocation_info=schema.AllocationDetails(at[0], at[1] & 0xFFFFFFFF, at[1] >> 32) if at else None,
        shape_dynamism=dynamism,
        extra_tensor_info=extra,
    )


def plan(
    values: list[object],
    instructions: list[object] = (),
    *,
    name: str = "forward",
    inputs: list[int] = (),
    outputs: list[int] = (),
    stacktrace: list[schema.FrameList] | None = None,
    operators: list[tuple[str, str]] = (("aten::add", "out"),),
    delegates: list[schema.BackendDelegate] = (),
    arenas: list[int] = (0, 4096),
    devices: list[schema.NonConstBufferDevice] | None = None,
) -> schema.ExecutionPlan:
    return schema.ExecutionPlan(
        name=name,
        container_meta_type=schema.ContainerMetadata("in", "out"),
        values=[schema.EValue(v) for v in values],
        inputs=list(inputs),
        outputs=list(outputs),
        chains=[schema.Chain([], [], [schema.Instruction(i) for i in instructions], stacktrace)],
        operators=[schema.Operator(*o) for o in operators],
        delegates=list(delegates),
        non_const_buffer_sizes=list(arenas),
        non_const_buffer_device=devices,
    )


def pack(*plans: schema.ExecutionPlan, **fields: object) -> bytes:
    """The flatbuffer of a program, as ExecuTorch writes it."""
    settings = {
        "constant_buffer": [],
        "backend_delegate_data": [],
        "segments": [],
        "constant_segment": schema.SubsegmentOffsets(0, [0]),
        "mutable_data_segments": None,
        "named_data": None,
    }
    return _program_to_flatbuffer(schema.Program(version=0, execution_plan=list(plans), **settings | fields)).data


def with_header(flatbuffer: bytes, segments: bytes = b"", *, length: int = 32) -> bytes:
    """Inserts the extended header in front of the tables and appends the segments."""
    shift = 32 if length <= 24 else 48
    size = len(flatbuffer) + shift
    base = -(-size // 16) * 16
    fields = struct.pack("<4sIQQQ", b"eh00", length, size, base if segments else 0, len(segments))
    root = struct.unpack_from("<I", flatbuffer)[0] + shift
    head = struct.pack("<I", root) + flatbuffer[4:8] + fields[: max(24, min(length, 32))]
    return (head.ljust(8 + shift, b"\0") + flatbuffer[8:]).ljust(base if segments else 0, b"\0") + segments


def bundle(program: bytes) -> bytes:
    builder = flatbuffers.Builder()
    builder.StartVector(1, len(program), 32)
    builder.head -= len(program)
    builder.Bytes[builder.head : builder.head + len(program)] = program
    vector = builder.EndVector()
    builder.StartObject(3)
    builder.PrependUint32Slot(0, 2, 0)
    builder.PrependUOffsetTRelativeSlot(2, vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"BP08")
    return bytes(builder.Output())


@cache
def everything() -> bytes:
    """A program with every kind of value, instruction, placement and segment that the schema knows."""
    external = schema.ExtraTensorInfo(0, "weights.a", schema.TensorDataLocation.EXTERNAL)
    values = [
        schema.Null(),
        schema.Int(-(2**63)),
        schema.Int(0),
        schema.Bool(True),
        schema.Bool(False),
        schema.Double(math.pi),
        schema.Double(0.0),
        schema.String('a "quoted" # text\n\N{SNOWMAN}'),
        schema.String(""),
        tensor([2, 3], at=(1, 16)),
        tensor([2, 3], constant=1),
        tensor([], ScalarType.BOOL),
        tensor([4], ScalarType.LONG, at=(2, 5 << 32), extra=schema.ExtraTensorInfo(0, "state")),
        tensor([4], ScalarType.HALF, at=(2, 0), constant=1, extra=schema.ExtraTensorInfo(0, "state2")),
        tensor([4], at=(2, 8), constant=2, extra=schema.ExtraTensorInfo(1, "other")),
        tensor([1, 2, 3, 4], at=(7, 0), order=[0, 2, 3, 1]),
        tensor([9, 0], ScalarType.UINT64, at=(0, 1), dynamism=schema.TensorShapeDynamism.DYNAMIC_BOUND),
        tensor([5], dynamism=schema.TensorShapeDynamism.DYNAMIC_UNBOUND),
        tensor([3], extra=external),
        tensor([3], at=(1, 64), extra=external),
        schema.IntList([1, 2, 2]),
        schema.IntList([]),
        schema.DoubleList([1.5, -0.25]),
        schema.BoolList([True, False]),
        schema.TensorList([9, 10, 9]),
        schema.OptionalTensorList([-1, 9, 0]),
        *(tensor([1], scalar_type) for scalar_type in DTYPES),
    ]
    instructions = [
        schema.KernelCall(0, [9, 10, 1, 9, 9]),
        schema.JumpFalseCall(11, 6),
        schema.KernelCall(1, []),
        schema.DelegateCall(0, [9, 12]),
        schema.DelegateCall(1, [0]),
        schema.MoveCall(0, 12),
        schema.FreeCall(17),
        schema.KernelCall(2, [9]),
    ]
    frames = [
        schema.FrameList([schema.Frame("outer.py", 1, "f", "f()"), schema.Frame("m.py", 9 + i, "g", "x + y")])
        for i in range(len(instructions))
    ]
    spec = [CompileSpec("precision", b"half")]
    delegates = [
        schema.BackendDelegate("XnnpackBackend", data_reference(schema.DataLocation.SEGMENT, 2), spec),
        schema.BackendDelegate("Other", data_reference(schema.DataLocation.INLINE, 0), []),
    ]
    devices = [schema.NonConstBufferDevice(2, schema.DeviceType.CUDA, 1), schema.NonConstBufferDevice(1)]
    flatbuffer = pack(
        plan(
            values,
            instructions,
            inputs=[9, 2],
            outputs=[12, 12],
            stacktrace=frames,
            operators=[("aten::add", "out"), ("custom::thing", ""), ('an "odd" name, #1 (of 2)', "o\\ut")],
            delegates=delegates,
            arenas=[0, 4096, 1 << 40],
            devices=devices,
        ),
        plan([], name="second method", arenas=[]),
        backend_delegate_data=[schema.BackendDelegateInlineData(b"blob")],
        segments=[schema.DataSegment(0, 64), schema.DataSegment(64, 64), schema.DataSegment(128, 5)],
        constant_segment=schema.SubsegmentOffsets(0, [0, 16]),
        mutable_data_segments=[schema.SubsegmentOffsets(1, [0, 8, 16]), schema.SubsegmentOffsets(1, [0, 16, 16])],
        named_data=[schema.NamedData("weights.b", 2)],
    )
    return with_header(flatbuffer, bytes(133))


def small() -> bytes:
    return pack(
        plan([tensor([2], at=(1, 0)), schema.Null()], [schema.KernelCall(0, [0, 0, 1])], inputs=[0], outputs=[0])
    )


def fault(data: bytes) -> str:
    """The message about a malformed program; it has to be one line."""
    with pytest.raises(hz.InputError) as error:
        parse_pte(data, "x.pte")
    message = str(error.value)
    assert message.startswith("x.pte: malformed program at byte ")
    assert message.isprintable()
    return message


# --- agreement --------------------------------------------------------------------------------------------------------


def test_there_are_programs() -> None:
    assert PROGRAMS


@pytest.mark.parametrize("path", PROGRAMS, ids=NAMES)
def test_agrees_with_executorch(path: Path) -> None:
    assert read_program(path) == expected(path.read_bytes())


@pytest.mark.parametrize("path", PROGRAMS, ids=NAMES)
def test_text_round_trip(path: Path) -> None:
    program = load(path)
    text = print_program(program)
    assert parse_program(text) == without_origins(program)
    assert load_bytes(text.encode(), "program.hir") == without_origins(program)


def without_origins(program: hz.Program) -> hz.Program:
    return hz.Program(
        tuple(
            dataclasses.replace(
                m, chains=tuple(tuple(dataclasses.replace(i, origin=None) for i in chain) for chain in m.chains)
            )
            for m in program.methods
        )
    )


def test_agrees_on_every_kind_of_value_and_instruction() -> None:
    program = parse_pte(everything())
    assert program == expected(everything())
    assert parse_program(print_program(program)) == without_origins(program)
    kinds = {type(v) for v in program.methods[0].values} | {type(i) for _, _, i in program.methods[0].instructions()}
    assert kinds == {
        hz.Scalar, hz.Tensor, hz.NumberList, hz.TensorList, hz.Kernel, hz.DelegateCall, hz.Move, hz.JumpFalse, hz.Free,
    }  # fmt: skip


def test_placements() -> None:
    method = parse_pte(everything()).methods[0]
    placements = {i: (v.placement, v.initial) for i, v in enumerate(method.values[:20]) if isinstance(v, hz.Tensor)}
    assert placements == {
        9: (hz.Planned(1, 16), None),
        10: (hz.Constant(1), None),
        11: (hz.Unplanned(), None),
        12: (hz.Planned(2, 5 << 32), None),
        13: (hz.Planned(2, 0), 1),
        14: (hz.Planned(2, 8), (1 << 32) + 2),  # of another segment than the initial contents with index 2
        15: (hz.Planned(7, 0), None),  # no such arena: for a rule to report
        16: (hz.Planned(0, 1), None),
        17: (hz.Unplanned(), None),
        18: (hz.Constant("weights.a"), None),
        19: (hz.Planned(1, 64), 0),  # initial contents outside the file
    }
    assert method.arenas == {1: hz.Arena(4096), 2: hz.Arena(1 << 40, "cuda:1")}
    assert method.tensor(15).layout == (0, 2, 3, 1)
    assert method.tensor(9).layout is None


def test_stack_trace_gives_the_innermost_frame() -> None:
    kernel = parse_pte(everything()).methods[0].chains[0][0]
    assert kernel.origin == hz.Origin(file="m.py", line=9, function="g", source="x + y")


def test_scalar_types_are_those_of_executorch() -> None:
    assert {int(number): name for number, name in DTYPES.items()}.items() <= dict(enumerate(hz.ITEM_BYTES)).items()
    sizes = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16, "u16": torch.uint16}
    assert {name: dtype.itemsize for name, dtype in sizes.items()}.items() <= hz.ITEM_BYTES.items()


def test_constants_inside_the_flatbuffer() -> None:
    """Programs before September 2024 keep constants in Program.constant_buffer."""
    buffers = [schema.Buffer(b""), schema.Buffer(bytes(8))]
    data = pack(
        plan([tensor([2], constant=1)]), constant_buffer=buffers, constant_segment=schema.SubsegmentOffsets(0, [])
    )
    assert parse_pte(data).methods[0].tensor(0).placement == hz.Constant(1)
    too_large = pack(
        plan([tensor([3], constant=1)]), constant_buffer=buffers, constant_segment=schema.SubsegmentOffsets(0, [])
    )
    assert fault(too_large).endswith("constant 1 has 8 bytes, the tensor 12")


# --- files ------------------------------------------------------------------------------------------------------------


def test_header_variants() -> None:
    program = parse_pte(small())
    for data in (
        with_header(small()),
        with_header(small(), bytes(64)),
        with_header(small(), length=24),  # before the size of the segments was added
        with_header(small(), bytes(64), length=24),
        with_header(small(), length=32) + b"bytes after the program",
    ):
        assert parse_pte(data) == program
    unknown_magic = bytearray(with_header(small()))
    unknown_magic[8:12] = b"eh99"
    assert parse_pte(bytes(unknown_magic)) == program  # the runtime takes it for no header, too


def test_header_faults() -> None:
    good = with_header(small(), bytes(64))

    def with_field(offset: int, pattern: str, value: int) -> bytes:
        data = bytearray(good)
        struct.pack_into(pattern, data, offset, value)
        return bytes(data)

    assert "at byte 12: the header claims a length of 23 bytes" in fault(with_field(12, "<I", 23))
    assert "at byte 16: the header claims a program of 12 bytes" in fault(with_field(16, "<Q", 12))
    assert "at byte 24: segments begin at" in fault(with_field(16, "<Q", 2**64 - 1))
    assert "at byte 24: segments begin at 8, inside the program" in fault(with_field(24, "<Q", 8))
    assert "at byte 24: segments end at" in fault(with_field(32, "<Q", 65))
    good = with_header(small())
    assert f"at byte 16: the header claims a program of {len(good)} bytes, there are {len(good) - 1}" in fault(
        good[:-1]
    )


def test_bundled_program(tmp_path: Path) -> None:
    for program in (small(), everything()):
        path = tmp_path / "x.bpte"
        path.write_bytes(bundle(program))
        assert load(path) == parse_pte(program)
    inner = bytearray(small())
    inner[0:4] = struct.pack("<I", len(inner))
    data = bundle(bytes(inner))
    at = data.index(bytes(inner[:8]))
    assert f"malformed program at byte {at}:" in fault(data)  # counted from the beginning of the file
    assert "the bundled program is no ExecuTorch program" in fault(bundle(bundle(small())))


def test_segments_of_a_bundled_program_end_with_it() -> None:
    program = everything()
    assert "segments end at" in fault(bundle(program[:-1]) + bytes(1000))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no ExecuTorch program: the file has 0 bytes"),
        (b"\0\0\0", "no ExecuTorch program: the file has 3 bytes"),
        (b"\x00" * 100, r"no ExecuTorch program: bytes 4 to 7 are b'\x00\x00\x00\x00', not b'ET12'"),
        (b"\x48\0\0\0FT01FH01" + bytes(100), "data only, nothing to analyse"),
        (b"\x1c\0\0\0ET13" + bytes(100), "program format ET13 is not known"),
        (b"\x1c\0\0\0E\n", "no ExecuTorch program: the file has 6 bytes"),
        (b"\x1c\0\0\0ET12", "malformed program at byte 8: the file ends here; 64 bytes are the least"),
        (b"\x1c\0\0\0ET12eh00" + bytes(10), "malformed program at byte 22: the file ends"),
        (b"\x1c\0\0\0BP08", "malformed program at byte 8: the file ends here"),
    ],
)
def test_what_is_no_program(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.pte"
    path.write_bytes(data)
    for read in (lambda: load(path), lambda: read_program(path), lambda: load_bytes(data, str(path))):
        with pytest.raises(hz.InputError) as error:
            read()
        assert str(error.value).startswith(f"{path}: {message}")
        assert str(error.value).isprintable()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(hz.InputError, match="cannot be read: No such file"):
        load(tmp_path / "absent.pte")
    with pytest.raises(hz.InputError, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(hz.InputError) as error:
        load(tmp_path / "two\nlines.pte")
    assert "\n" not in str(error.value)


def test_text_is_told_apart_by_content(tmp_path: Path) -> None:
    text = b"# a program\n\nmethod forward\n  %0 = int 3\n  inputs\n  outputs\n  chain\n"
    path = tmp_path / "no-suffix"
    for content in (text, b"#" * 5000 + b"\n" + text, "# \N{SNOWMAN}".encode() * 2000 + b"\n" + text):
        path.write_bytes(content)
        assert load(path) == parse_program(text.decode()) == load_bytes(content)
    path.write_bytes(text + b"# \xff")
    with pytest.raises(hz.InputError, match="is no UTF-8 text"):
        load(path)
    hir = tmp_path / "x.hir"
    hir.write_bytes(b"nonsense")
    with pytest.raises(hz.InputError, match=r"x\.hir:1: expected `method NAME` first"):
        load(hir)
    hir.write_bytes(small())
    assert load(hir) == parse_pte(small())


@pytest.mark.parametrize(
    "content", [small, everything, lambda: b"method m\n  inputs\n  outputs\n", lambda: bundle(small())]
)
def test_standard_input(content: Callable[[], bytes]) -> None:
    script = (
        "from hazard.frontends import load; from hazard.text import print_program; "
        "import sys; sys.stdout.buffer.write(print_program(load('-')).encode())"
    )
    run = subprocess.run([sys.executable, "-c", script], input=content(), capture_output=True, cwd=ROOT, check=True)
    assert run.stdout.decode() == print_program(load_bytes(content()))


# --- faults inside the program ----------------------------------------------------------------------------------------

EXTRA = schema.ExtraTensorInfo


@pytest.mark.parametrize(
    ("values", "instructions", "message"),
    [
        ([], [schema.KernelCall(0, [0])], "instruction 0 uses value 0 of 0"),
        ([schema.Null()], [schema.KernelCall(0, [0, -1])], "instruction 0 uses value -1 of 1"),
        ([schema.Null()], [schema.KernelCall(1, [0])], "instruction 0 calls operator 1 of 1"),
        ([schema.Null()], [schema.KernelCall(-1, [0])], "instruction 0 calls operator -1 of 1"),
        ([schema.Null()], [schema.DelegateCall(0, [0])], "instruction 0 calls delegate 0 of 0"),
        ([schema.Null()], [schema.MoveCall(1, 0)], "instruction 0 uses value 1 of 1"),
        ([schema.Null()], [schema.MoveCall(0, -5)], "instruction 0 moves to value -5 of 1"),
        ([schema.Null()], [schema.FreeCall(1)], "instruction 0 uses value 1 of 1"),
        ([schema.Null()], [schema.JumpFalseCall(2, 0)], "instruction 0 uses value 2 of 1"),
        ([schema.Null()], [schema.JumpFalseCall(0, 2)], "instruction 0 jumps to 2; the chain has 1"),
        ([schema.Null()], [schema.JumpFalseCall(0, -1)], "instruction 0 jumps to -1; the chain has 1"),
        ([schema.IntList([1])], [], "list 0 refers to value 1 of 1"),
        ([schema.IntList([2**40])], [], "list 0 refers to value 1099511627776 of 1"),
        ([schema.TensorList([-1])], [], "list 0 refers to value -1 of 1"),
        ([schema.TensorList([0])], [], "tensor list 0 refers to value 0, which is no tensor"),
        ([schema.OptionalTensorList([-2])], [], "list 0 refers to value -2 of 1"),
        ([schema.OptionalTensorList([1]), schema.Int(1)], [], "tensor list 0 refers to value 1, which is no tensor"),
        ([tensor([-1])], [], "no tensor can have the sizes [-1]"),
        ([tensor([-1, -1])], [], "no tensor can have the sizes [-1, -1]"),
        ([tensor([0, -1])], [], "no tensor can have the sizes [0, -1]"),
        ([tensor([2**31 - 1] * 3)], [], "no tensor can have the sizes"),
        ([tensor([2**31 - 1] * 3 + [0])], [], "no tensor can have the sizes"),
        ([tensor([1] * 17)], [], "a tensor of 17 dimensions; the limit is 16"),
        ([tensor([1, 1], order=[0, 0])], [], "the order of dimensions [0, 0] does not fit 2 dimensions"),
        ([tensor([1, 1], order=[0])], [], "the order of dimensions [0] does not fit 2 dimensions"),
        ([tensor([1, 1], order=[1, 2])], [], "the order of dimensions [1, 2] does not fit 2 dimensions"),
        ([tensor([1], storage_offset=1)], [], "a tensor with a storage offset, which no runtime loads"),
        ([tensor([1], constant=1)], [], "constant 1 of 0"),
        ([tensor([1], constant=1, at=(1, 0))], [], "initial contents 1 of 0"),
        ([tensor([1], extra=EXTRA(0, None, schema.TensorDataLocation.EXTERNAL))], [], "external data has no name"),
    ],
)  # fmt: skip
def test_indices_and_sizes(values: list[object], instructions: list[object], message: str) -> None:
    assert message in fault(pack(plan(values, instructions)))


def test_limits_that_are_right() -> None:
    rank_16 = tensor([1] * 15 + [2**31 - 1])
    one_past_the_end = schema.JumpFalseCall(0, 1)
    method = parse_pte(pack(plan([rank_16], [one_past_the_end]))).methods[0]
    assert method.tensor(0).nbytes == 4 * (2**31 - 1)
    assert method.chains == ((hz.JumpFalse(0, 1),),)


def test_faults_of_methods_and_segments() -> None:
    assert "input 1 is value 1 of 1" in fault(pack(plan([schema.Null()], inputs=[0, 1])))
    assert "output 0 is value -1 of 1" in fault(pack(plan([schema.Null()], outputs=[-1])))
    assert "arena 1 has -1 bytes" in fault(pack(plan([], arenas=[0, -1])))
    assert "a device for arena 2 of 2" in fault(pack(plan([], devices=[schema.NonConstBufferDevice(2)])))
    assert "two methods have the same name" in fault(pack(plan([]), plan([])))
    assert "a segment of 8 bytes, but the file has no segments" in fault(
        pack(plan([]), segments=[schema.DataSegment(0, 8)])
    )
    segments = pack(plan([]), segments=[schema.DataSegment(60, 5)])
    assert "a segment ends at" in fault(with_header(segments, bytes(64)))
    assert parse_pte(with_header(segments, bytes(65))) == parse_pte(pack(plan([])))
    assert "segment 0 of 0" in fault(pack(plan([]), named_data=[schema.NamedData("x", 0)]))
    assert "data 1 begins at 9 in a segment of 8 bytes" in fault(
        with_header(
            pack(
                plan([]),
                segments=[schema.DataSegment(0, 8)],
                constant_segment=schema.SubsegmentOffsets(0, [0, 9]),
            ),
            bytes(8),
        )
    )
    reference = data_reference(schema.DataLocation.INLINE, 0)
    assert "the data of a delegate is entry 0 of 0" in fault(
        pack(plan([], delegates=[schema.BackendDelegate("X", reference, [])]))
    )
    with pytest.raises(hz.InputError, match="the program has no method, nothing to analyse"):
        parse_pte(pack())


def test_names_cannot_control_a_terminal() -> None:
    for name in ("two\nlines", "\x1b[31mred"):
        for data in (
            pack(plan([], name=name)),
            pack(plan([], operators=[("aten::add", name)])),
            pack(plan([tensor([1], at=(1, 0), extra=schema.ExtraTensorInfo(0, name))])),
        ):
            assert "is not printable: " in fault(data)


def test_fault_at_the_byte_that_is_wrong() -> None:
    data = bytearray(small())
    struct.pack_into("<I", data, 0, 0x7FFFFFF0)
    assert fault(bytes(data)).startswith("x.pte: malformed program at byte 0: offset 2147483632 leads outside")
    struct.pack_into("<I", data, 0, 30)  # not aligned
    assert fault(bytes(data)).startswith("x.pte: malformed program at byte 30:")
    at = small().index(b"aten::add")
    data = bytearray(small())
    data[at] = 0xFF
    assert fault(bytes(data)) == f"x.pte: malformed program at byte {at}: the name of an operator is no UTF-8 text"
    struct.pack_into("<I", data, at - 4, 0xFFFFFFFF)
    assert f"at byte {at - 4}: the name of an operator has 4294967295 items, more than" in fault(bytes(data))


# --- hostile programs -------------------------------------------------------------------------------------------------


def peak_and_time(action: Callable[[], object]) -> tuple[int, float]:
    """Bytes at most allocated, and CPU seconds."""
    tracemalloc.start()
    start = time.process_time()
    try:
        action()
    finally:
        seconds = time.process_time() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, seconds


def shared(what: str, count: int) -> bytes:
    """A program whose list of ``count`` entries leads to the same bytes again and again."""
    builder = flatbuffers.Builder()

    def table(slots: int, **fields: int) -> int:
        builder.StartObject(slots)
        for slot, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(int(slot[1:]), offset, 0)
        return builder.EndObject()

    def vector(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    def union(tag: int, value: int) -> int:
        builder.StartObject(2)
        builder.PrependUint8Slot(0, tag, 0)
        builder.PrependUOffsetTRelativeSlot(1, value, 0)
        return builder.EndObject()

    def zeros(size: int) -> int:
        builder.StartVector(size, count, size)
        for _ in range(count):
            builder.Prepend(
                flatbuffers.number_types.Int32Flags if size == 4 else flatbuffers.number_types.Int64Flags, 0
            )
        return builder.EndVector()

    fields: dict[str, int] = {"f2": vector([union(1, table(0))])}
    if what == "arguments":
        items = zeros(4)
        calls = [union(1, table(2, f1=items)) for _ in range(count)]
        operator = table(2, f0=builder.CreateString("aten::add"))
        fields |= {"f5": vector([table(4, f2=vector(calls))]), "f6": vector([operator])}
    elif what == "lists":
        items = zeros(8)
        fields["f2"] = vector([union(7, table(1, f0=items)) for _ in range(count)])
    elif what == "values":
        fields["f2"] = vector([union(7, table(1, f0=zeros(8)))] * count)
    elif what == "operators":
        name = builder.CreateString("x" * count)
        fields["f6"] = vector([table(2, f0=name, f1=name) for _ in range(count)])
    elif what == "chains":
        call = union(3, table(2))
        fields["f5"] = vector([table(4, f2=vector([call] * count))] * count)
    name = builder.CreateString("forward")
    plans = [table(10, f0=name, **fields)]
    if what == "methods":
        values = vector([union(1, table(0))] * count)
        plans = [table(10, f0=builder.CreateString(f"m{i}"), f2=values) for i in range(count)]
    builder.Finish(table(8, f1=vector(plans)), file_identifier=b"ET12")
    return bytes(builder.Output())


def test_the_shapes_of_the_hostile_programs_are_right() -> None:
    """With one entry, nothing is shared and all of them are good programs."""
    for what in ("arguments", "lists", "values", "operators", "chains", "methods"):
        parse_pte(shared(what, 1))


@pytest.mark.parametrize("what", ["arguments", "lists", "values", "chains", "methods"])
def test_shared_tables_do_not_multiply(what: str) -> None:
    data = shared(what, 3000)
    messages = []
    peak, seconds = peak_and_time(lambda: messages.append(fault(data)))
    assert "tables or vectors overlap" in messages[0]
    assert seconds < 5
    assert peak < 100 * len(data)


def test_names_shared_by_many_operators_do_not_multiply() -> None:
    assert "the name of an operator has 6000 characters" in fault(shared("operators", 3000))
    data = shared("operators", 120)
    peak, _ = peak_and_time(lambda: parse_pte(data))
    assert peak < 100 * len(data)


def test_a_count_beyond_the_file_costs_nothing() -> None:
    data = bytearray(small())
    vector = data.index(struct.pack("<4I", 3, 0, 0, 1))  # the arguments of the only instruction
    struct.pack_into("<I", data, vector, 0x3FFFFFFF)
    peak, seconds = peak_and_time(lambda: fault(bytes(data)))
    assert peak < 1 << 20
    assert seconds < 1


INTERESTING = (0, 1, 2, 3, 4, 5, 8, 12, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def mutate(data: bytes, rng: random.Random) -> bytes:
    mutant = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        position = rng.randrange(len(mutant) - 4)
        aligned = position & ~3
        match rng.randrange(7):
            case 0:
                mutant[position] ^= 1 << rng.randrange(8)
            case 1:
                mutant[position] = rng.randrange(256)
            case 2:
                del mutant[max(8, position) :]
                if len(mutant) < 16:
                    break
            case 3:
                other = rng.randrange(len(mutant) - 4) & ~3
                mutant[aligned : aligned + 4] = mutant[other : other + 4]
            case 4:
                struct.pack_into("<I", mutant, aligned, rng.choice(INTERESTING))
            case 5:
                value = struct.unpack_from("<I", mutant, aligned)[0]
                struct.pack_into("<I", mutant, aligned, (value + rng.choice((-8, -4, -1, 1, 4, 8, 64))) & 0xFFFFFFFF)
            case 6:
                half = position & ~1
                struct.pack_into("<H", mutant, half, rng.randrange(len(mutant)) & 0xFFFF)
    return bytes(mutant)


def check_invariants(program: hz.Program) -> None:
    """What every later layer relies on."""
    assert len({m.name for m in program.methods}) == len(program.methods)
    for method in program.methods:
        slots = range(len(method.values))
        for value in method.values:
            match value:
                case hz.Tensor():
                    assert 0 <= value.nbytes < 2**63
                    assert min(value.sizes, default=0) >= 0
                    assert value.layout is None or sorted(value.layout) == list(range(len(value.sizes)))
                    assert value.planned is None or value.planned.offset >= 0
                case hz.TensorList(items, optional):
                    assert all(method.is_tensor(i) if i >= 0 else optional and i == -1 for i in items)
                case hz.NumberList("ints", items):
                    assert all(i in slots for i in items)
        assert all(i in slots for i in (*method.inputs, *method.outputs))
        assert all(i >= 1 and a.size >= 0 for i, a in method.arenas.items())
        for chain, _, instruction in method.instructions():
            match instruction:
                case hz.Kernel(_, args):
                    assert all(a in slots for a in args)
                case hz.DelegateCall(delegate, args):
                    assert delegate in range(len(method.delegates))
                    assert all(a in slots for a in args)
                case hz.Move(source, target):
                    assert source in slots
                    assert target in slots
                case hz.JumpFalse(condition, target):
                    assert condition in slots
                    assert 0 <= target <= len(method.chains[chain])
                case hz.Free(value):
                    assert value in slots


def fuzz_bases() -> list[bytes]:
    small_ones = [p for p in (ROOT / "corpus").rglob("*.pte") if p.stat().st_size < 20_000]
    by_size = sorted(small_ones, key=lambda p: (p.stat().st_size, p))
    chosen = [by_size[k * (len(by_size) - 1) // 4].read_bytes() for k in range(5)]
    return [*chosen, everything(), bundle(everything()), small()]


@pytest.mark.parametrize("seed", range(8))
def test_mutated_programs(seed: int) -> None:
    rng = random.Random(seed)
    data = fuzz_bases()[seed]
    accepted, refused = 0, 0
    for _ in range(400):
        mutant = mutate(data, rng)
        outcome: list[hz.Program | hz.InputError] = []

        def read(mutant: bytes = mutant, outcome: list[hz.Program | hz.InputError] = outcome) -> None:
            try:
                outcome.append(load_bytes(mutant, "x.pte"))
            except hz.InputError as e:
                outcome.append(e)

        peak, seconds = peak_and_time(read)
        assert seconds < 2
        assert peak < 100 * len(data) + (1 << 20)
        match outcome:
            case [hz.Program() as program]:
                accepted += 1
                check_invariants(program)
            case [hz.InputError() as error]:
                refused += 1
                assert str(error).isprintable()
    assert accepted > 20
    assert refused > 100


# --- large files, and what is imported --------------------------------------------------------------------------------

MEASURE = """
import resource, sys, time
from hazard.frontends import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
program = load(sys.argv[1])
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, program.methods[0].name)
"""


@pytest.mark.parametrize("header", [True, False])
def test_a_file_of_four_gigabytes_costs_no_more_than_its_program(tmp_path: Path, header: bool) -> None:
    """With a header, the weights are segments; without one, they are inside the flatbuffer."""
    path = tmp_path / "large.pte"
    size = 4 << 30
    if header:
        segments = [schema.DataSegment(0, size - (1 << 20))]
        data = with_header(pack(plan([tensor([2], at=(1, 0))]), segments=segments), bytes(16))
    else:
        data = small()
    with open(path, "wb") as file:
        file.write(data)
        file.truncate(size)
    run = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, cwd=ROOT, check=True)
    seconds, kilobytes, name = run.stdout.split()
    assert name == "forward"
    assert float(seconds) < 0.5
    assert int(kilobytes) < 8_000


def test_reading_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "x.pte"
    path.write_bytes(everything())
    script = (
        "import sys; from hazard.frontends import load; load(sys.argv[1]); "
        "print(sorted({m.partition('.')[0] for m in sys.modules} "
        "& {'torch', 'executorch', 'numpy', 'flatbuffers', 'z3', 'rich', 'click'}))"
    )
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout.strip() == "[]"
