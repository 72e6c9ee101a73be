"""Writes a program file with another memory plan and nothing else changed.

The flatbuffer is not made anew. An offset or size that the file states is overwritten in place. One that it does not
state (a zero is absent from a flatbuffer), or that two tensors share, gets a new ``AllocationDetails`` behind the last
byte of the flatbuffer, and the one reference to it is changed; the references of the format lead forward, so the end of
the buffer can be reached from everywhere. All other bytes stay what they are, fields that this version has never heard
of included, and segments (weights, data of delegates) are copied as they are, on the same alignment.

Layout rules: https://flatbuffers.dev/internals/; tables and header: ``schema/program.fbs`` and
``schema/extended_header.h`` of ExecuTorch 1.5.1.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from hazard.files import replacing
from hazard.frontends.flatbuffer import FlatBuffer, TableType
from hazard.frontends.pte import HEAD_BYTES, printable
from hazard.program import InputError

_HEADER_AT: Final = 8
_HEADER: Final = struct.Struct("<4sIQQ")
#: Largest alignment of segments that is looked for, in bytes; ExecuTorch's default is 128, some use pages of 16 KiB.
_SEGMENT_ALIGNMENT: Final = 1 << 16
#: Vtable of AllocationDetails with all three fields: its size, the table's size, and where the fields are.
_VTABLE: Final = struct.pack("<5H", 10, 16, 4, 8, 12)
_TABLE_BYTES: Final = 16
_TENSOR: Final = 5
_LARGEST_OFFSET: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Plan:
    """``offsets`` in bytes by (method index, slot); ``sizes`` in bytes by (method index, arena id)."""

    offsets: Mapping[tuple[int, int], int]
    sizes: Mapping[tuple[int, int], int]


def write_plan(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    plan: Plan,
    approve: Callable[[str], None] = lambda path: None,
) -> None:
    """Writes the program of the ``.pte`` file ``source`` with another plan to ``target``, which may be the same file.

    ``approve`` is called with the path of the finished file before it takes its name, and raises what stops that. The
    file appears at once and whole, or not at all. Raises InputError when the source is no ``.pte`` that can be
    rewritten, or the target cannot be written.
    """
    name = printable(os.fspath(source))
    with _opened(source, name) as file:
        head = file.read(HEAD_BYTES)
        header = _Header.read(head)
        _refuse_bundle(head, name)
        file.seek(0)
        flatbuffer = file.read(header.program_size) if header else file.read()
        new, base = rewritten(flatbuffer, plan, name)
        with replacing(os.fspath(target), approve) as out:
            out.write(new)
            if header and header.segment_base:
                out.write(bytes(base - len(new)))
                file.seek(header.segment_base)
                shutil.copyfileobj(file, out, 1 << 20)


def rewrite_bytes(data: bytes, plan: Plan, name: str = "<bytes>") -> bytes:
    """As `write_plan`, for a program in memory."""
    _refuse_bundle(data[:HEAD_BYTES], name)
    header = _Header.read(data[:HEAD_BYTES])
    new, base = rewritten(data[: header.program_size] if header else data, plan, name)
    if not header or not header.segment_base:
        return new
    return new + bytes(base - len(new)) + data[header.segment_base :]


def _refuse_bundle(head: bytes, name: str) -> None:
    if head[4:6] == b"BP":
        raise InputError(f"{name}: a bundled program cannot be rewritten: fix its .pte and bundle it again")
    if head[4:6] != b"ET":
        raise InputError(f"{name}: only a .pte can be rewritten")


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as e:
        raise InputError(f"{name}: cannot be read: {e.strerror or e}") from None


@dataclass(frozen=True, slots=True)
class _Header:
    """The part of ``extended_header.h`` that depends on the size of the flatbuffer; both fields in bytes."""

    program_size: int
    segment_base: int

    @staticmethod
    def read(head: bytes) -> _Header | None:
        if head[_HEADER_AT : _HEADER_AT + 4] != b"eh00" or len(head) < HEAD_BYTES:
            return None
        _, _, program_size, segment_base = _HEADER.unpack_from(head, _HEADER_AT)
        return _Header(program_size, segment_base)


def rewritten(flatbuffer: bytes, plan: Plan, name: str) -> tuple[bytes, int]:
    """The flatbuffer with another plan and a header to match, and where its segments have to begin (0: none)."""
    header = _Header.read(flatbuffer[:HEAD_BYTES])
    patch = _Patch(flatbuffer, name)
    patch.apply(plan)
    data = patch.data
    if header is None:
        return bytes(data), 0
    base = header.segment_base
    if base and len(data) > base:
        step = min(base & -base, _SEGMENT_ALIGNMENT)
        base += -(-(len(data) - base) // step) * step
    struct.pack_into("<QQ", data, _HEADER_AT + 8, len(data), base)
    return bytes(data), base


class _Patch:
    """One flatbuffer that is being changed. Only positions that lie in the original are ever read."""

    def __init__(self, flatbuffer: bytes, name: str) -> None:
        self.data = bytearray(flatbuffer)
        self.buffer = FlatBuffer(memoryview(flatbuffer), name)
        self.vtable = 0  # where the vtable of new tables is, once there is one
        self.taken: dict[int, tuple[int, int]] = {}  # AllocationDetails -> (arena, offset) that it has to state
        self.vectors: dict[int, tuple[int, ...]] = {}  # vector of arena sizes -> what it has to state

    def apply(self, plan: Plan) -> None:
        buffer = self.buffer
        program = TableType(buffer, "Program", 4, 4)
        method = TableType(buffer, "ExecutionPlan", *[4] * 10)
        value = TableType(buffer, "EValue", 1, 4)
        tensor = TableType(buffer, "Tensor", 1, 4, 4, 4, 1, 4, 4, 1, 1, 4)
        details = TableType(buffer, "AllocationDetails", 4, 4, 4)
        root = buffer.root()
        plans = program.layout(root)[1]
        methods = buffer.tables(root + plans, "the list of methods") if plans else []
        # The others keep what they have; a table that several tensors share must go on serving them.
        wanted: dict[int, list[tuple[int, int]]] = {}  # AllocationDetails -> (field that refers to it, new offset)
        for m, position in enumerate(methods):
            layout = method.layout(position)
            values = buffer.tables(position + layout[2], "the table of values") if layout[2] else []
            for slot, entry in enumerate(values):
                tag, at, _ = value.layout(entry)
                if not tag or buffer.data[entry + tag] != _TENSOR or not at:
                    continue
                found = buffer.follow(entry + at)
                field = tensor.layout(found)[6]
                if field:
                    allocation = buffer.follow(found + field)
                    _, low, high, _ = details.layout(allocation)
                    old = self._u32(allocation, low) | self._u32(allocation, high) << 32
                    wanted.setdefault(allocation, []).append((found + field, plan.offsets.get((m, slot), old)))
                elif (m, slot) in plan.offsets:
                    buffer.fail(found, f"slot {slot} has no planned memory to move")
            self._sizes(m, position, layout[8], plan)
        for allocation, users in wanted.items():
            self._allocation(details, allocation, users)

    def _u32(self, position: int, field: int) -> int:
        return self.buffer.words[(position + field) >> 2] & 0xFFFFFFFF if field else 0

    def _allocation(self, details: TableType, position: int, users: list[tuple[int, int]]) -> None:
        arena, low, high, _ = details.layout(position)
        offsets = {offset for _, offset in users}
        if len(offsets) == 1 and self._in_place(position, low, high, next(iter(offsets))):
            return
        memory = self._u32(position, arena)
        made: dict[int, int] = {}
        for field, offset in dict.fromkeys(users):
            if offset not in made:
                made[offset] = self._append(memory, offset)
            struct.pack_into("<I", self.data, field, made[offset] - field)

    def _in_place(self, position: int, low: int, high: int, offset: int) -> bool:
        if not 0 <= offset < _LARGEST_OFFSET:
            raise ValueError(f"offset {offset}")
        parts = ((low, offset & 0xFFFFFFFF), (high, offset >> 32))
        if any(part and not field for field, part in parts):
            return False
        for field, part in parts:
            if field:
                struct.pack_into("<I", self.data, position + field, part)
        return True

    def _append(self, arena: int, offset: int) -> int:
        """A new AllocationDetails at the end; returns its position."""
        if not self.vtable:
            self.data.extend(bytes(-len(self.data) % 4))
            self.vtable = len(self.data)
            self.data.extend(_VTABLE)
        self.data.extend(bytes(-len(self.data) % 4))
        position = len(self.data)
        self.data.extend(struct.pack("<iIII", position - self.vtable, arena, offset & 0xFFFFFFFF, offset >> 32))
        return position

    def _sizes(self, m: int, position: int, field: int, plan: Plan) -> None:
        buffer = self.buffer
        old = buffer.longs(position + field, "the list of arenas") if field else ()
        count = max([len(old), *(a + 1 for n, a in plan.sizes if n == m)])
        new = tuple(plan.sizes.get((m, a), old[a] if a < len(old) else 0) for a in range(count))
        if new == old:
            return
        if not field:
            buffer.fail(position, "a method without a list of arenas")
        first, _ = buffer.vector(position + field, 8, "the list of arenas")
        if count == len(old) and self.vectors.setdefault(first, new) == new:
            struct.pack_into(f"<{count}q", self.data, first, *new)
            return
        # The items of a vector of 64-bit numbers are aligned to eight bytes, its length stands right before them.
        self.data.extend(bytes((4 - len(self.data)) % 8))
        struct.pack_into("<I", self.data, position + field, len(self.data) - (position + field))
        self.data.extend(struct.pack(f"<I{count}q", count, *new))
