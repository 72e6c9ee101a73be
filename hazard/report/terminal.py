"""What a terminal can show: colours, width, and text that cannot control it."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

_CODES: Final = {
    "error": "1;31", "warning": "1;33", "note": "1;36", "help": "1;36", "gutter": "1;34", "bold": "1", "good": "1;32",
    "dim": "2",
}  # fmt: skip


def wants_color(choice: bool | None, stream: TextIO | None = None) -> bool:
    """Whether to colour: the caller's word, else ``NO_COLOR`` and ``FORCE_COLOR``, else whether it is a terminal."""
    if choice is not None:
        return choice
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    stream = stream or sys.stdout
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def columns(width: int | None = None) -> int:
    """Columns to write in: the given ones, else those of the terminal, else 120; at least 60."""
    if width is None:
        import shutil

        width = shutil.get_terminal_size((120, 40)).columns
    return max(60, width)


class Paint:
    """Adds colour where it is wanted. Meaning never rests on colour alone."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and text else text


def clean(text: str) -> str:
    """The text without characters that could control a terminal; names in programs are not to be trusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)
