"""Reads the program part of ExecuTorch's ``.pte`` and ``.bpte`` files into a `Program`.

The slots are those of ``schema/program.fbs`` of ExecuTorch 1.5.1; every earlier schema since 1.0 is a subset of it, and
an absent field means its default. What counts as malformed follows what the runtime refuses to load
(``runtime/executor/program.cpp``, ``method.cpp``, ``tensor_parser_portable.cpp``). Read as they stand are tensors
whose arena does not exist or is too small, which is for a rule to report, tensors without bound, and absent lists.

Why not the ``flatbuffers`` package and ExecuTorch's generated classes: they check nothing (an offset out of range is a
``struct.error`` or nonsense), the package imports numpy when it finds it, and they are slower. On plans of 892, 10,704
and 30,000 instructions, reading the same fields through the generated classes takes 7 to 8 times the CPU time of this
module (5 to 6 times with vectors as numpy arrays), and ExecuTorch's ``deserialize_pte_binary`` 12 to 17 times.

Only the flatbuffer is read. Weights and the data of delegates are neither read nor copied; their bounds are compared
with the size of the file.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final

from hazard.frontends.flatbuffer import FlatBuffer, TableType, malformed
from hazard.program import (
    ITEM_BYTES,
    NULL,
    Arena,
    Constant,
    DelegateCall,
    Dynamism,
    Free,
    InputError,
    Instruction,
    JumpFalse,
    Kernel,
    Method,
    Move,
    NumberList,
    Origin,
    Placement,
    Planned,
    Program,
    Scalar,
    Tensor,
    TensorList,
    Unplanned,
    Value,
)

#: Bytes that tell what a file is: root offset, identifier, extended header.
HEAD_BYTES: Final = 40
_LEAST_BYTES: Final = 64  # the runtime refuses to look at less
_HEADER: Final = struct.Struct("<4sIQQQ")
_HEADER_AT: Final = 8
_LEAST_HEADER: Final = 24
#: Flatbuffers beyond this size hold inline weights, which are never looked at; mapping them costs nothing.
_MAP_BEYOND: Final = 64 << 20
_LARGEST: Final = (1 << 63) - 1

_DTYPES: Final = tuple(ITEM_BYTES)
_DYNAMISMS: Final = (Dynamism.STATIC, Dynamism.BOUND, Dynamism.UNBOUND)
_UNPLANNED: Final = Unplanned()
#: ``kTensorDimensionLimit`` of the runtime.
_RANK_LIMIT: Final = 16
_CONTIGUOUS: Final = tuple(bytes(range(n)) for n in range(_RANK_LIMIT + 1))
_EXTERNAL: Final = 1
#: The runtime gives up at 100 bytes. Without a limit, many operators could share one huge name and fill the memory.
_OPERATOR_LIMIT: Final = 255


def read_program(path: str | os.PathLike[str]) -> Program:
    """Reads the program of a ``.pte`` or ``.bpte`` file; of a file with weights, only the part before them.

    Raises InputError when the file cannot be read, is none of these, or is malformed.
    """
    name = printable(os.fspath(path))
    try:
        with open(path, "rb") as file:
            return read_stream(file, name)
    except OSError as e:
        raise InputError(f"{name}: cannot be read: {e.strerror or e}") from None


def read_stream(file: BinaryIO, name: str, head: bytes = b"") -> Program:
    """As `read_program`, from an open file or pipe of which ``head`` has been read; ``name`` is for messages.

    Raises InputError when it holds no usable program, OSError when it cannot be read.
    """
    data, file_size = _program_part(file, name, head)
    return _parse_file(data, name, file_size)


def parse_pte(data: bytes | bytearray | memoryview, name: str = "<bytes>") -> Program:
    """Reads the program of a whole ``.pte`` or ``.bpte`` file that is in memory.

    Raises InputError when it is none of these or is malformed.
    """
    view = memoryview(data).cast("B").toreadonly()
    return _parse_file(view, printable(name), len(view))


def printable(name: str) -> str:
    """The name as it can stand in a one-line message."""
    name = name if len(name) <= 1000 else name[:1000] + "..."
    return name if name.isprintable() else repr(name)


# --- files ------------------------------------------------------------------------------------------------------------


def _program_part(file: BinaryIO, name: str, head: bytes) -> tuple[memoryview, int | None]:
    """The flatbuffer of a file of which ``head`` has been read, and the size of the file if that is known."""
    head += file.read(max(0, HEAD_BYTES - len(head)))
    _check_kind(head, name)
    header = _extended_header(head, name) if head[4:6] == b"ET" else None
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        data = head + _read_pipe(file, None if header is None else header.program_size - len(head))
        return memoryview(data), None if header else len(data)
    file_size = status.st_size
    wanted = min(header.program_size, file_size) if header else file_size
    if wanted <= _MAP_BEYOND:
        return memoryview(head[:wanted] + file.read(max(0, wanted - len(head)))), file_size
    try:
        return memoryview(mmap.mmap(file.fileno(), wanted, access=mmap.ACCESS_READ)), file_size
    except ValueError:  # the file has become shorter
        raise InputError(f"{name}: the file changed while it was read") from None


def _read_pipe(file: BinaryIO, count: int | None) -> bytes:
    """``count`` bytes or all that there are. A read of a hostile count at once would take that much memory."""
    pieces = []
    while count is None or count > 0:
        piece = file.read(1 << 20 if count is None else min(count, 1 << 20))
        if not piece:
            break
        pieces.append(piece)
        if count is not None:
            count -= len(piece)
    return b"".join(pieces)


def _check_kind(head: bytes, name: str) -> None:
    identifier = head[4:8]
    if identifier == b"ET12" or (identifier[:2] == b"BP" and len(identifier) == 4):
        return
    if identifier[:2] == b"FT":
        raise InputError(f"{name}: data only, nothing to analyse: this is the .ptd of a program; check its .pte")
    if identifier[:2] == b"ET":
        shown = identifier.decode("ascii", "backslashreplace")
        raise InputError(f"{name}: program format {printable(shown)} is not known; ExecuTorch 1.0 to 1.5 write ET12")
    if len(head) < 8:
        raise InputError(f"{name}: no ExecuTorch program: the file has {len(head)} bytes")
    raise InputError(f"{name}: no ExecuTorch program: bytes 4 to 7 are {identifier!r}, not b'ET12'")


@dataclass(frozen=True, slots=True)
class _Header:
    program_size: int
    segment_base: int
    segments_size: int


def _extended_header(head: bytes | memoryview, name: str, start: int = 0) -> _Header | None:
    if bytes(head[_HEADER_AT : _HEADER_AT + 4]) != b"eh00":
        return None
    if len(head) < HEAD_BYTES:
        raise malformed(name, start + len(head), "the file ends within its header")
    _, length, program_size, segment_base, segments_size = _HEADER.unpack_from(head, _HEADER_AT)
    if length < _LEAST_HEADER:
        raise malformed(name, start + 12, f"the header claims a length of {length} bytes")
    if length < _HEADER.size:
        segments_size = 0
    if program_size < _HEADER_AT + length:
        raise malformed(name, start + 16, f"the header claims a program of {program_size} bytes")
    if segment_base and segment_base < program_size:
        raise malformed(name, start + 24, f"segments begin at {segment_base}, inside the program")
    return _Header(program_size, segment_base, segments_size)


def _parse_file(data: memoryview, name: str, file_size: int | None) -> Program:
    _check_kind(bytes(data[:8]), name)
    if bytes(data[4:6]) == b"BP":
        data, start = _embedded(data, name)
        if bytes(data[4:8]) != b"ET12":
            raise malformed(name, start + 4, "the bundled program is no ExecuTorch program")
        return _parse_program(data, name, start, len(data))
    return _parse_program(data, name, 0, file_size)


def embedded_program(data: bytes, name: str) -> bytes:
    """The program file inside a bundled program. Raises InputError when there is none."""
    return bytes(_embedded(memoryview(data), name)[0])


def _embedded(data: memoryview, name: str) -> tuple[memoryview, int]:
    """The program inside a bundled program (``bundled_program_schema.fbs``), and where it begins."""
    if len(data) < _LEAST_BYTES:
        raise malformed(name, len(data), "the file ends here; no bundled program is so short")
    buffer = FlatBuffer(data, name)
    root = buffer.root()
    field = TableType(buffer, "BundledProgram", 4, 4, 4).layout(root)[2]
    if not field:
        raise malformed(name, root, "the bundled program holds no program")
    first, count = buffer.vector(root + field, 1, "the embedded program")
    return data[first : first + count], first


# --- program ----------------------------------------------------------------------------------------------------------


def _parse_program(data: memoryview, name: str, start: int, file_size: int | None) -> Program:
    """``data`` is the program part or more; ``file_size`` counts from ``start`` and is None where it is not known."""
    if len(data) < _LEAST_BYTES:
        raise malformed(name, start + len(data), f"the file ends here; {_LEAST_BYTES} bytes are the least")
    header = _extended_header(data[:HEAD_BYTES], name, start)
    if header:
        if header.program_size > len(data):
            what = f"the header claims a program of {header.program_size} bytes, there are {len(data)}"
            raise malformed(name, start + 16, what)
        if file_size is not None and header.segment_base + header.segments_size > file_size:
            what = f"segments end at {header.segment_base + header.segments_size}, the file at {file_size}"
            raise malformed(name, start + 24, what)
        data = data[: header.program_size]
    return _Reader(FlatBuffer(data, name, start), header, file_size).program()


class _Reader:
    """Reads one program; the tables are in the order of ``program.fbs``."""

    def __init__(self, buffer: FlatBuffer, header: _Header | None, file_size: int | None) -> None:
        self._buffer = buffer
        self._header = header
        self._file_size = file_size
        self._container = TableType(buffer, "ContainerMetadata", 4, 4)
        self._allocation = TableType(buffer, "AllocationDetails", 4, 4, 4)
        self._extra = TableType(buffer, "ExtraTensorInfo", 8, 4, 1, 1, 1)
        self._tensor_type = TableType(buffer, "Tensor", 1, 4, 4, 4, 1, 4, 4, 1, 1, 4)
        self._evalue = TableType(buffer, "EValue", 1, 4)
        self._null = TableType(buffer, "Null")
        self._byte = TableType(buffer, "Bool", 1)
        self._long = TableType(buffer, "Int or Double", 8)
        self._reference = TableType(buffer, "String or list", 4)
        self._operator = TableType(buffer, "Operator", 4, 4)
        self._call = TableType(buffer, "call", 4, 4)
        self._instruction_type = TableType(buffer, "Instruction", 1, 4)
        self._frame = TableType(buffer, "Frame", 4, 4, 4, 4)
        self._data_reference = TableType(buffer, "BackendDelegateDataReference", 1, 4)
        self._delegate = TableType(buffer, "BackendDelegate", 4, 4, 4)
        self._compile_spec = TableType(buffer, "CompileSpec", 4, 4)
        self._chain = TableType(buffer, "Chain", 4, 4, 4, 4)
        self._plan = TableType(buffer, "ExecutionPlan", 4, 4, 4, 4, 4, 4, 4, 4, 4, 4)
        self._device = TableType(buffer, "NonConstBufferDevice", 4, 1, 1)
        self._segment = TableType(buffer, "DataSegment", 8, 8)
        self._subsegment = TableType(buffer, "SubsegmentOffsets", 4, 4)
        self._named = TableType(buffer, "NamedData", 4, 4)
        self._value_readers: tuple[Callable[[int], Value], ...] = (
            self._read_null, self._read_int, self._read_bool, self._read_double, self._read_tensor, self._read_string,
            self._read_ints, self._read_doubles, self._read_bools, self._read_tensors, self._read_optional_tensors,
        )  # fmt: skip
        self._segment_sizes: list[int] = []
        self._inline_blobs = 0
        self._constants: tuple[int, ...] = ()  # room for each constant, in bytes
        self._initials: list[tuple[int, ...]] = []  # the same for the initial states of each mutable segment

    # -- small helpers

    def _i32(self, position: int) -> int:
        return self._buffer.words[position >> 2]

    def _u32(self, position: int) -> int:
        return self._buffer.words[position >> 2] & 0xFFFFFFFF

    def _tables(self, position: int, field: int, what: str) -> list[int]:
        return self._buffer.tables(position + field, what) if field else []

    def _text(self, position: int, field: int, what: str) -> str:
        """A name that has to be there. Names are shown to people, so nothing in them may control a terminal."""
        if not field:
            self._buffer.fail(position, f"{what} is missing")
        text = self._buffer.string(position + field, what)
        if not text.isprintable():
            self._buffer.fail(position + field, f"{what} is not printable: {text[:80]!r}")
        return text

    # -- Program

    def program(self) -> Program:
        buffer = self._buffer
        root = buffer.root()
        fields = TableType(buffer, "Program", 4, 4, 4, 4, 4, 4, 4, 4).layout(root)
        _, plans, inline_constants, inline_blobs, segments, constants, mutables, named, _ = fields
        self._segment_sizes = [self._read_segment(p) for p in self._tables(root, segments, "the list of segments")]
        self._inline_blobs = len(self._tables(root, inline_blobs, "the list of delegate data"))
        self._constants = self._room(root, constants)
        if len(self._constants) < 2:  # item 0 is a placeholder: there is no segment of constants
            self._constants = self._inline_constants(root, inline_constants)
        for position in self._tables(root, mutables, "the list of mutable segments"):
            self._initials.append(self._subsegment_room(position))
        for position in self._tables(root, named, "the list of named data"):
            key, segment, _ = self._named.layout(position)
            self._text(position, key, "the key of named data")
            self._segment_size(position, segment)
        methods = [self._read_method(p) for p in self._tables(root, plans, "the list of methods")]
        if not methods:
            raise InputError(f"{buffer.name}: the program has no method, nothing to analyse")
        if len({m.name for m in methods}) != len(methods):
            buffer.fail(root + plans, "two methods have the same name")
        return Program(tuple(methods))

    def _read_segment(self, position: int) -> int:
        """Size of a segment in bytes. Its data has to be in the file."""
        offset_field, size_field, _ = self._segment.layout(position)
        offset = self._buffer.u64(position + offset_field) if offset_field else 0
        size = self._buffer.u64(position + size_field) if size_field else 0
        if size:
            base = self._header.segment_base if self._header else 0
            if not base:
                self._buffer.fail(position, f"a segment of {size} bytes, but the file has no segments")
            if self._file_size is not None and base + offset + size > self._file_size:
                what = f"a segment ends at {base + offset + size}, the file at {self._file_size}"
                self._buffer.fail(position, what)
        return size

    def _segment_size(self, position: int, field: int) -> int:
        """Size of the segment whose index is in a field."""
        index = self._u32(position + field) if field else 0
        if index >= len(self._segment_sizes):
            self._buffer.fail(position + field, f"segment {index} of {len(self._segment_sizes)}")
        return self._segment_sizes[index]

    def _room(self, position: int, field: int) -> tuple[int, ...]:
        return self._subsegment_room(self._buffer.follow(position + field)) if field else ()

    def _subsegment_room(self, position: int) -> tuple[int, ...]:
        """For each offset into a segment, the bytes from there to the end of the segment."""
        index, offsets_field, _ = self._subsegment.layout(position)
        if not offsets_field:
            return ()
        offsets = self._buffer.longs(position + offsets_field, "the list of offsets into a segment")
        if len(offsets) < 2:
            return (0,) * len(offsets)
        size = self._segment_size(position, index)
        if min(offsets) < 0 or max(offsets) > size:
            at = next(i for i, offset in enumerate(offsets) if not 0 <= offset <= size)
            offset = offsets[at] & ((1 << 64) - 1)
            self._buffer.fail(position, f"data {at} begins at {offset} in a segment of {size} bytes")
        return tuple(size - offset for offset in offsets)

    def _inline_constants(self, position: int, field: int) -> tuple[int, ...]:
        """Sizes of constants inside the flatbuffer, as programs before September 2024 have them."""
        table = TableType(self._buffer, "Buffer", 4)
        sizes = []
        for p in self._tables(position, field, "the list of constants"):
            storage, _ = table.layout(p)
            sizes.append(self._buffer.vector(p + storage, 1, "a constant")[1] if storage else 0)
        return tuple(sizes)

    # -- ExecutionPlan

    def _read_method(self, position: int) -> Method:
        buffer = self._buffer
        name, container, values, inputs, outputs, chains, operators, delegates, sizes, devices, _ = self._plan.layout(
            position
        )
        method = self._text(position, name, "the name of a method")
        if container:
            self._check_strings(self._container, buffer.follow(position + container))
        table = self._read_values(position, values)
        count = len(table)
        operator_names = [self._read_operator(p) for p in self._tables(position, operators, "the list of operators")]
        delegate_names = [self._read_delegate(p) for p in self._tables(position, delegates, "the list of delegates")]
        reader = _Instructions(self, count, operator_names, len(delegate_names))
        return Method(
            name=method,
            values=table,
            inputs=self._slots(position, inputs, count, "input"),
            outputs=self._slots(position, outputs, count, "output"),
            chains=tuple(self._read_chain(p, reader) for p in self._tables(position, chains, "the list of chains")),
            arenas=self._read_arenas(position, sizes, devices),
            delegates=tuple(delegate_names),
        )

    def _check_strings(self, table: TableType, position: int) -> None:
        for field in table.layout(position)[:-1]:
            if field:
                self._buffer.vector(position + field, 1, "a text")

    def _slots(self, position: int, field: int, count: int, what: str) -> tuple[int, ...]:
        slots = self._buffer.ints(position + field, f"the list of {what}s") if field else ()
        if slots and (min(slots) < 0 or max(slots) >= count):
            at = next(i for i, slot in enumerate(slots) if not 0 <= slot < count)
            self._buffer.fail(position + field, f"{what} {at} is value {slots[at]} of {count}")
        return slots

    def _read_operator(self, position: int) -> str:
        name, overload, _ = self._operator.layout(position)
        text = self._text(position, name, "the name of an operator")
        suffix = self._text(position, overload, "the overload of an operator") if overload else ""
        if len(text) + len(suffix) > _OPERATOR_LIMIT:
            self._buffer.fail(position, f"the name of an operator has {len(text) + len(suffix)} characters")
        return f"{text}.{suffix}" if suffix else text

    def _read_delegate(self, position: int) -> str:
        buffer = self._buffer
        name, processed, specs, _ = self._delegate.layout(position)
        backend = self._text(position, name, "the name of a delegate")
        if not processed:
            buffer.fail(position, f"delegate {backend[:80]} has no data")
        target = buffer.follow(position + processed)
        location_field, index_field, _ = self._data_reference.layout(target)
        location = buffer.data[target + location_field] if location_field else 0
        index = self._u32(target + index_field) if index_field else 0
        if location > 1:
            buffer.fail(target + location_field, f"unknown location {location} of the data of a delegate")
        available = len(self._segment_sizes) if location else self._inline_blobs
        if index >= available:
            buffer.fail(target + index_field, f"the data of a delegate is entry {index} of {available}")
        for p in self._tables(position, specs, "the list of compile specs"):
            self._check_strings(self._compile_spec, p)
        return backend

    def _read_arenas(self, position: int, sizes_field: int, devices_field: int) -> dict[int, Arena]:
        buffer = self._buffer
        sizes = buffer.longs(position + sizes_field, "the list of arenas") if sizes_field else ()
        devices: dict[int, str] = {}
        for p in self._tables(position, devices_field, "the list of devices"):
            index_field, kind_field, number_field, _ = self._device.layout(p)
            index = self._i32(p + index_field) if index_field else 0
            kind = buffer.data[p + kind_field] if kind_field else 0
            number = buffer.data[p + number_field] if number_field else 0
            if not 0 <= index < len(sizes):
                buffer.fail(p + index_field, f"a device for arena {index} of {len(sizes)}")
            if kind > 1:
                buffer.fail(p + kind_field, f"unknown type {kind} of a device")
            # The runtime takes the first entry of an arena.
            if kind and index not in devices:
                devices[index] = f"cuda:{number if number < 128 else number - 256}"
        if sizes[1:] and min(sizes[1:]) < 0:
            at = next(i for i, size in enumerate(sizes) if i and size < 0)
            buffer.fail(position + sizes_field, f"arena {at} has {sizes[at]} bytes")
        return {i: Arena(size, devices.get(i)) for i, size in enumerate(sizes) if i}

    def _read_chain(self, position: int, reader: _Instructions) -> tuple[Instruction, ...]:
        inputs, outputs, instructions, stacktrace, _ = self._chain.layout(position)
        for field in (inputs, outputs):
            if field:
                self._buffer.vector(position + field, 4, "a list of a chain")
        tables = self._tables(position, instructions, "the list of instructions")
        frames = self._tables(position, stacktrace, "the list of stack traces")
        # The runtime does not look at stack traces; a list of another length cannot be told apart by instruction.
        origins = [self._read_origin(p) for p in frames] if len(frames) == len(tables) else None
        return reader.read(tables, origins)

    def _read_origin(self, position: int) -> Origin | None:
        """The innermost frame: what is nearest to the operator."""
        buffer = self._buffer
        items, _ = self._reference.layout(position)
        if not items:
            return None
        first, count = buffer.vector(position + items, 4, "a stack trace")
        if not count:
            return None
        frame = buffer.follow(first + 4 * (count - 1))
        file, line, function, source, _ = self._frame.layout(frame)
        text = [
            buffer.string(frame + field, "a text of a stack trace") if field else None
            for field in (file, function, source)
        ]
        return Origin(file=text[0], line=self._i32(frame + line) if line else None, function=text[1], source=text[2])

    # -- EValue

    def _read_values(self, position: int, field: int) -> tuple[Value, ...]:
        buffer = self._buffer
        data, words, layout_of, readers = buffer.data, buffer.words, self._evalue.layout, self._value_readers
        values: list[Value] = []
        lists: list[tuple[int, int]] = []
        for index, table in enumerate(self._tables(position, field, "the table of values")):
            tag_field, value_field, _ = layout_of(table)
            tag = data[table + tag_field] if tag_field else 0
            if not 0 < tag <= 11:
                buffer.fail(table + tag_field, f"unknown type {tag} of value {index}")
            if not value_field:
                buffer.fail(table, f"value {index} is missing")
            at = table + value_field
            offset = words[at >> 2]
            if offset <= 0 or at + offset > buffer.size - 4:
                buffer.follow(at)
            values.append(readers[tag - 1](at + offset))
            if tag == 7 or tag >= 10:
                lists.append((index, table))
        for index, table in lists:
            values[index] = self._checked_list(values, index, table)
        return tuple(values)

    def _checked_list(self, values: list[Value], index: int, position: int) -> Value:
        """The list, after its items have been compared with the table of values."""
        value = values[index]
        assert isinstance(value, TensorList | NumberList)
        optional = isinstance(value, TensorList) and value.optional
        for item in value.items:
            if not (0 <= item < len(values) or (optional and item == -1)):
                self._buffer.fail(position, f"list {index} refers to value {item} of {len(values)}")
        if isinstance(value, NumberList):
            return value
        items = value.items
        if optional:
            # None may be written as -1 or as the index of a null.
            items = tuple(-1 if item < 0 or values[item] is NULL else item for item in items)
        for item in items:
            if item >= 0 and not isinstance(values[item], Tensor):
                self._buffer.fail(position, f"tensor list {index} refers to value {item}, which is no tensor")
        return TensorList(items, optional)

    def _read_null(self, position: int) -> Value:
        self._null.layout(position)
        return NULL

    def _read_int(self, position: int) -> Value:
        field, _ = self._long.layout(position)
        return Scalar("int", self._buffer.i64(position + field) if field else 0)

    def _read_bool(self, position: int) -> Value:
        field, _ = self._byte.layout(position)
        return Scalar("bool", bool(self._buffer.data[position + field]) if field else False)

    def _read_double(self, position: int) -> Value:
        field, _ = self._long.layout(position)
        return Scalar("double", self._buffer.f64(position + field) if field else 0.0)

    def _list_field(self, position: int) -> int:
        field, _ = self._reference.layout(position)
        if not field:
            self._buffer.fail(position, "a list or a string is missing")
        return position + field

    def _read_string(self, position: int) -> Value:
        return Scalar("string", self._buffer.string(self._list_field(position), "a string"))

    def _read_ints(self, position: int) -> Value:
        return NumberList("ints", self._buffer.longs(self._list_field(position), "a list of ints"))

    def _read_doubles(self, position: int) -> Value:
        return NumberList("doubles", self._buffer.doubles(self._list_field(position), "a list of doubles"))

    def _read_bools(self, position: int) -> Value:
        return NumberList("bools", tuple(map(bool, self._buffer.octets(self._list_field(position), "a list of bools"))))

    def _read_tensors(self, position: int) -> Value:
        return TensorList(self._buffer.ints(self._list_field(position), "a list of tensors"))

    def _read_optional_tensors(self, position: int) -> Value:
        return TensorList(self._buffer.ints(self._list_field(position), "a list of tensors"), optional=True)

    # -- Tensor

    def _read_tensor(self, position: int) -> Value:
        buffer = self._buffer
        data = buffer.data
        (
            dtype_field, storage_field, sizes_field, order_field, _, index_field, plan_field, _, dynamism_field,
            extra_field, _,
        ) = self._tensor_type.layout(position)  # fmt: skip
        dtype_number = data[position + dtype_field] if dtype_field else 0
        if dtype_number >= len(_DTYPES):
            buffer.fail(position + dtype_field, f"unknown scalar type {dtype_number}")
        dtype = _DTYPES[dtype_number]
        if storage_field and self._i32(position + storage_field):
            buffer.fail(position + storage_field, "a tensor with a storage offset, which no runtime loads")
        dynamism = data[position + dynamism_field] if dynamism_field else 0
        if dynamism > 2:
            buffer.fail(position + dynamism_field, f"unknown dynamism {dynamism} of a tensor")
        if not sizes_field or not order_field:
            buffer.fail(position, f"the {'sizes' if order_field else 'order of dimensions'} of a tensor are missing")
        sizes = buffer.ints(position + sizes_field, "the sizes of a tensor")
        order = buffer.octets(position + order_field, "the order of dimensions of a tensor")
        rank = len(sizes)
        if rank > _RANK_LIMIT:
            buffer.fail(position + sizes_field, f"a tensor of {rank} dimensions; the limit is {_RANK_LIMIT}")
        nbytes = ITEM_BYTES[dtype]
        for size in sizes:
            nbytes *= size
            if not 0 <= nbytes <= _LARGEST or size < 0:
                buffer.fail(position + sizes_field, f"no tensor can have the sizes {list(sizes)}")
        layout = None
        if order != _CONTIGUOUS[rank]:
            if bytes(sorted(order)) != _CONTIGUOUS[rank]:
                what = f"the order of dimensions {list(order[:32])} does not fit {rank} dimensions"
                buffer.fail(position + order_field, what)
            layout = tuple(order)

        fqn, external, segment = self._read_extra(buffer.follow(position + extra_field)) if extra_field else _NO_EXTRA
        index = self._u32(position + index_field) if index_field else 0
        placement: Placement
        initial = None
        if plan_field:
            placement = self._read_allocation(buffer.follow(position + plan_field))
            if external:
                initial = 0  # item 0 is a placeholder in every segment: the contents are the entry `fqn` of a .ptd file
            elif index:
                if index >= len(room := self._initials[segment] if segment < len(self._initials) else ()):
                    buffer.fail(position + index_field, f"initial contents {index} of {len(room)}")
                if nbytes > room[index]:
                    what = f"initial contents {index} have {room[index]} bytes, the tensor {nbytes}"
                    buffer.fail(position + index_field, what)
                # Indices of different segments must not meet; nearly all programs have one segment only.
                initial = segment << 32 | index
        elif external:
            if fqn is None:
                buffer.fail(position, "a tensor of external data has no name")
            placement = Constant(fqn)
        elif index:
            if index >= len(self._constants):
                buffer.fail(position + index_field, f"constant {index} of {len(self._constants)}")
            if nbytes > self._constants[index]:
                what = f"constant {index} has {self._constants[index]} bytes, the tensor {nbytes}"
                buffer.fail(position + index_field, what)
            placement = Constant(index)
        else:
            placement = _UNPLANNED
        return Tensor(dtype, sizes, placement, _DYNAMISMS[dynamism], initial, fqn, layout)

    def _read_extra(self, position: int) -> tuple[str | None, bool, int]:
        """Name, whether the data is outside the file, and index of the mutable segment."""
        buffer = self._buffer
        segment_field, name_field, location_field, *_ = self._extra.layout(position)
        location = buffer.data[position + location_field] if location_field else 0
        if location > 1:
            buffer.fail(position + location_field, f"unknown location {location} of the data of a tensor")
        return (
            self._text(position, name_field, "the name of a tensor") if name_field else None,
            location == _EXTERNAL,
            buffer.u64(position + segment_field) if segment_field else 0,
        )

    def _read_allocation(self, position: int) -> Planned:
        arena, low, high, _ = self._allocation.layout(position)
        offset = (self._u32(position + low) if low else 0) | (self._u32(position + high) << 32 if high else 0)
        return Planned(self._u32(position + arena) if arena else 0, offset)


_NO_EXTRA: Final = (None, False, 0)


# --- instructions -----------------------------------------------------------------------------------------------------


class _Instructions:
    """Reads the instructions of one method, which has ``count`` values."""

    def __init__(self, reader: _Reader, count: int, operators: list[str], delegates: int) -> None:
        self._buffer = reader._buffer
        self._table = reader._instruction_type
        self._call = reader._call
        self._count = count
        self._operators = operators
        self._delegates = delegates

    def read(self, tables: list[int], origins: list[Origin | None] | None) -> tuple[Instruction, ...]:
        buffer, layout_of, call_layout = self._buffer, self._table.layout, self._call.layout
        data, words, count, length = buffer.data, buffer.words, self._count, len(tables)
        operators = self._operators
        instructions: list[Instruction] = []
        for index, table in enumerate(tables):
            tag_field, call_field, _ = layout_of(table)
            tag = data[table + tag_field] if tag_field else 0
            if not 0 < tag <= 5:
                buffer.fail(table + tag_field, f"unknown type {tag} of instruction {index}")
            if not call_field:
                buffer.fail(table, f"instruction {index} is missing")
            call = buffer.follow(table + call_field)
            first_field, second_field, _ = call_layout(call)
            first = words[(call + first_field) >> 2] if first_field else 0
            origin = origins[index] if origins else None
            if tag <= 2:
                if not second_field:
                    buffer.fail(call, f"the arguments of instruction {index} are missing")
                args = buffer.ints(call + second_field, "the arguments of an instruction")
                if args and (min(args) < 0 or max(args) >= count):
                    wrong = next(a for a in args if not 0 <= a < count)
                    buffer.fail(call + second_field, f"instruction {index} uses value {wrong} of {count}")
                if tag == 1:
                    if not 0 <= first < len(operators):
                        buffer.fail(
                            call + first_field, f"instruction {index} calls operator {first} of {len(operators)}"
                        )
                    instructions.append(Kernel(operators[first], args, origin))
                else:
                    if not 0 <= first < self._delegates:
                        buffer.fail(
                            call + first_field, f"instruction {index} calls delegate {first} of {self._delegates}"
                        )
                    instructions.append(DelegateCall(first, args, None, origin))
                continue
            second = words[(call + second_field) >> 2] if second_field else 0
            if not 0 <= first < count:
                buffer.fail(call + first_field, f"instruction {index} uses value {first} of {count}")
            if tag == 3:
                if not 0 <= second < count:
                    buffer.fail(call + second_field, f"instruction {index} moves to value {second} of {count}")
                instructions.append(Move(first, second, origin))
            elif tag == 4:
                if not 0 <= second <= length:
                    buffer.fail(call + second_field, f"instruction {index} jumps to {second}; the chain has {length}")
                instructions.append(JumpFalse(first, second, origin))
            else:
                instructions.append(Free(first, origin))
        return tuple(instructions)
