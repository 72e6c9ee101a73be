"""Checked reading of flatbuffers: every position, length and alignment is compared with the buffer before it is used.

Only what ``program.fbs`` needs is here: tables, strings, vectors of scalars and of tables. Positions are absolute byte
offsets into the buffer; the layout rules are those of the FlatBuffers internals document
(https://flatbuffers.dev/internals/).

Work is bounded: whatever a vector or a table list claims is charged against a budget proportional to the size of the
buffer, because a hostile file can let many tables share the same bytes. An honest one cannot run out of it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Final, NoReturn

from hazard.program import InputError

_U16: Final = struct.Struct("<H")
_U64: Final = struct.Struct("<Q")
_I64: Final = struct.Struct("<q")
_F64: Final = struct.Struct("<d")
_INTS: Final = tuple(struct.Struct(f"<{n}i") for n in range(64))

#: Least number of bytes that an honest writer spends on one table of a vector: its offset, and a table of three words
#: (or two tables, one within the other, as in EValue and Instruction).
_TABLE_COST: Final = 16


class FlatBuffer:
    """The bytes of one flatbuffer.

    ``name`` and ``start`` (the position of the buffer in its file) are for messages only.
    """

    __slots__ = ("_budget", "_strings", "data", "name", "size", "start", "words")

    def __init__(self, data: memoryview, name: str, start: int = 0) -> None:
        self.data = data
        self.name = name
        self.start = start
        self.size = len(data)
        self.words = _words(data)
        # Sharing of vectors is not against the rules of the format, though no writer does it; hence twice the size.
        self._budget = 2 * self.size
        self._strings: dict[int, str] = {}

    def fail(self, position: int, what: str) -> NoReturn:
        """Raises InputError for a fault at ``position``."""
        raise malformed(self.name, self.start + position, what)

    def _charge(self, position: int, cost: int) -> None:
        self._budget -= cost
        if self._budget < 0:
            self.fail(position, "tables or vectors overlap: together they are larger than the program")

    def root(self) -> int:
        """Position of the root table."""
        return self.follow(0)

    def follow(self, position: int) -> int:
        """The position that the offset stored at ``position`` leads to; at least four bytes are there."""
        offset = self.words[position >> 2]
        target = position + offset
        if offset <= 0 or target > self.size - 4:
            self.fail(position, f"offset {offset & 0xFFFFFFFF} leads outside the program of {self.size} bytes")
        return target

    def vector(self, position: int, item: int, what: str) -> tuple[int, int]:
        """Position of the first item, and number of items, of the vector that the field at ``position`` leads to.

        ``item`` is the size of one item in bytes. The items themselves are not read and cost nothing.
        """
        vector = self.follow(position)
        if vector & 3:
            self.fail(position, f"{what} is not aligned")
        count = self.words[vector >> 2] & 0xFFFFFFFF
        if count * item > self.size - vector - 4:
            self.fail(vector, f"{what} has {count} items, more than the program of {self.size} bytes can hold")
        return vector + 4, count

    def ints(self, position: int, what: str) -> tuple[int, ...]:
        """The vector of 32-bit signed integers that the field at ``position`` leads to."""
        # Most of a program is such vectors; this is `vector` and `_charge` in one, for speed.
        words = self.words
        offset = words[position >> 2]
        vector = position + offset
        if offset <= 0 or vector & 3 or vector > self.size - 4:
            self.vector(position, 4, what)
        count = words[vector >> 2]
        self._budget -= 4 + 4 * count
        if not 0 <= count <= (self.size - vector - 4) >> 2 or self._budget < 0:
            self.vector(position, 4, what)
            self._charge(vector, 0)
        if count < 64:
            return _INTS[count].unpack_from(self.data, vector + 4)
        return struct.unpack_from(f"<{count}i", self.data, vector + 4)

    def longs(self, position: int, what: str) -> tuple[int, ...]:
        """The vector of 64-bit signed integers that the field at ``position`` leads to."""
        first, count = self.vector(position, 8, what)
        self._charge(first, 4 + 8 * count)
        return struct.unpack_from(f"<{count}q", self.data, first)

    def doubles(self, position: int, what: str) -> tuple[float, ...]:
        """The vector of doubles that the field at ``position`` leads to."""
        first, count = self.vector(position, 8, what)
        self._charge(first, 4 + 8 * count)
        return struct.unpack_from(f"<{count}d", self.data, first)

    def octets(self, position: int, what: str) -> bytes:
        """A copy of the vector of bytes that the field at ``position`` leads to."""
        first, count = self.vector(position, 1, what)
        self._charge(first, 4 + count)
        return bytes(self.data[first : first + count])

    def tables(self, position: int, what: str) -> list[int]:
        """Positions of the tables of the vector that the field at ``position`` leads to."""
        first, count = self.vector(position, 4, what)
        self._charge(first, 4 + _TABLE_COST * count)
        offsets = self.words[first >> 2 : (first >> 2) + count].tolist()
        if count and min(offsets) <= 0:
            at = next(i for i, offset in enumerate(offsets) if offset <= 0)
            self.follow(first + 4 * at)
        return [position + offset for position, offset in zip(range(first, first + 4 * count, 4), offsets, strict=True)]

    def string(self, position: int, what: str) -> str:
        """The string that the field at ``position`` leads to."""
        first, count = self.vector(position, 1, what)
        text = self._strings.get(first)
        if text is None:
            self._charge(first, 4 + count)
            try:
                text = str(self.data[first : first + count], "utf-8")
            except UnicodeDecodeError:
                self.fail(first, f"{what} is no UTF-8 text")
            self._strings[first] = text
        return text

    def u64(self, position: int) -> int:
        value: int = _U64.unpack_from(self.data, position)[0]
        return value

    def i64(self, position: int) -> int:
        value: int = _I64.unpack_from(self.data, position)[0]
        return value

    def f64(self, position: int) -> float:
        value: float = _F64.unpack_from(self.data, position)[0]
        return value


class TableType:
    """The tables of one type in one buffer; ``widths`` are the sizes in bytes of its fields, in slot order."""

    __slots__ = ("_buffer", "_known", "_name", "_widths")

    def __init__(self, buffer: FlatBuffer, name: str, *widths: int) -> None:
        self._buffer = buffer
        self._name = name
        self._widths = widths
        self._known: dict[int, tuple[int, ...]] = {}

    def layout(self, position: int) -> tuple[int, ...]:
        """Where the fields of the table at ``position`` are, relative to it: 0 where a field is absent.

        One item more than there are fields: the last is the end of the last field. All of them are inside the buffer
        and aligned to four bytes, or to their own size if that is less.
        """
        buffer = self._buffer
        if position & 3 or position > buffer.size - 4:
            buffer.fail(position, f"no {self._name} can begin here")
        vtable = position - buffer.words[position >> 2]
        layout = self._known.get(vtable)
        if layout is None:
            layout = self._known[vtable] = self._read(vtable, position)
        if position + layout[-1] > buffer.size:
            buffer.fail(position, f"{self._name} of {layout[-1]} bytes ends outside the program")
        return layout

    def _read(self, vtable: int, position: int) -> tuple[int, ...]:
        """Reads the list of field offsets at ``vtable``.

        The size of the table, which stands in front of them, cannot be used for checks: some builders let two tables
        share a list without regard to it, so that a table may be larger than its list says. Public programs of 2026
        have that; flatbuffers' own verifier does not look at it either.
        """
        buffer = self._buffer
        if vtable & 1 or not 0 <= vtable <= buffer.size - 4:
            buffer.fail(position, f"the field table of {self._name} is outside the program")
        length = _U16.unpack_from(buffer.data, vtable)[0]
        if length < 4 or length & 1 or vtable + length > buffer.size:
            buffer.fail(vtable, f"the field table of {self._name} has {length} bytes")
        fields = []
        end = 4
        for slot, width in enumerate(self._widths):
            entry = 4 + 2 * slot
            offset = _U16.unpack_from(buffer.data, vtable + entry)[0] if entry < length else 0
            if offset and (offset < 4 or offset % min(width, 4)):
                buffer.fail(vtable + entry, f"field {slot} of {self._name} is at {offset}")
            fields.append(offset)
            end = max(end, offset + width if offset else 0)
        return (*fields, end)


def malformed(name: str, position: int, what: str) -> InputError:
    """The error for a fault at byte ``position`` of the file called ``name``."""
    return InputError(f"{name}: malformed program at byte {position}: {what}")


def _words(data: memoryview) -> memoryview:
    """The buffer as 32-bit signed integers; bytes after the last whole one are left out."""
    whole = data[: len(data) & ~3]
    if sys.byteorder == "little":
        return whole.cast("i")
    swapped = array("i", bytes(whole))
    swapped.byteswap()
    return memoryview(swapped)
