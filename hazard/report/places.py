"""Where a finding stands in files that people open: the model's source where it is known, else the program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hazard.analysis.conflicts import Place


@dataclass(frozen=True, slots=True)
class Location:
    """A file, relative to the working folder if it lies in it; ``line`` counts from 1, None where it is not known."""

    path: str
    line: int | None = None
    end_column: int = 2

    @property
    def inside(self) -> bool:
        """Whether the file lies in the working folder."""
        return not os.path.isabs(self.path) and not self.path.startswith("..")


def location(place: Place | None, program: str) -> Location:
    """The source line of a place if it is a file of this folder, else the program's own file."""
    origin = place.origin if place is not None else None
    if origin is not None and origin.file and origin.line:
        path = relative(origin.file)
        if not path.startswith("..") and not os.path.isabs(path) and os.path.isfile(path):
            return Location(path, origin.line, _end_column(path, origin.line))
    return Location(relative(program))


def relative(path: str) -> str:
    """The path as seen from the working folder if it lies in it, else as it is; always with ``/``."""
    inside = os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path)
    if os.path.isabs(path) and inside.startswith(".."):
        inside = path
    return inside.replace(os.sep, "/")


def _end_column(path: str, line: int) -> int:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if number == line:
                    return max(2, len(text.rstrip("\r\n")) + 1)
    except OSError:
        pass
    return 2
