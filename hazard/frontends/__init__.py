"""Front ends: whatever describes a planned program, made into a `hazard.program.Program`."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

from hazard.frontends import pte
from hazard.program import InputError, Program
from hazard.text import parse_program

_HEAD_BYTES = 4096


def load(path: str | os.PathLike[str]) -> Program:
    """Reads a ``.pte``, ``.bpte`` or ``.hir`` file, told apart by content; ``-`` is the standard input.

    Raises InputError when the file cannot be read or holds no usable program.
    """
    name = pte.printable(os.fspath(path))
    try:
        if path == "-":
            return _load_stream(sys.stdin.buffer, "<stdin>")
        with open(path, "rb") as file:
            return _load_stream(file, name)
    except OSError as e:
        raise InputError(f"{name}: cannot be read: {e.strerror or e}") from None


def _load_stream(file: BinaryIO, name: str) -> Program:
    head = file.read(_HEAD_BYTES)
    if _is_text(head, name, whole=len(head) < _HEAD_BYTES):
        return _parse_text(head + file.read(), name)
    return pte.read_stream(file, name, head)


def load_bytes(data: bytes, name: str = "<bytes>") -> Program:
    """Reads the content of a ``.pte``, ``.bpte`` or ``.hir`` file; ``name`` is for messages.

    Raises InputError when it holds no usable program.
    """
    head = bytes(data[:_HEAD_BYTES])
    if _is_text(head, name, whole=len(head) == len(data)):
        return _parse_text(bytes(data), name)
    return pte.parse_pte(data, name)


def _is_text(head: bytes, name: str, *, whole: bool) -> bool:
    """Whether a file that begins so is text. No program of ExecuTorch begins without a zero byte."""
    if b"\0" in head or not head:
        return False
    if name.endswith(".hir"):
        return True
    lines = (line.strip() for line in head.decode("utf-8", "replace").splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith("method ") or (not whole and not first)


def _parse_text(data: bytes, name: str) -> Program:
    try:
        return parse_program(data.decode("utf-8"), name)
    except UnicodeDecodeError as e:
        raise InputError(f"{name}: byte {e.start} is no UTF-8 text") from None
