"""Where a finding stands in files that people open: the model's source where it is known, else the program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hazard.analysis.conflicts import Place


@dataclass(frozen=True, slots=True)
class Location:
    """A file. ``path`` is relative to the repository with ``/``, if it lies in it, else absolute; what is no file is
    left as it was named. ``line`` counts from 1, None where it is not known; ``end_column`` is one behind its end."""

    path: str
    line: int | None = None
    end_column: int = 2

    @property
    def inside(self) -> bool:
        """Whether the file lies in the repository."""
        return not os.path.isabs(self.path)


def location(place: Place | None, program: str) -> Location:
    """The source line of a place if its file lies in the repository, else the file of the program itself."""
    base = repository()
    origin = place.origin if place is not None else None
    if origin is not None and origin.file and origin.line and os.path.isfile(origin.file):
        path = _within(origin.file, base)
        if path is not None:
            return Location(path, origin.line, _end_column(origin.file, origin.line))
    left, _, factory = program.rpartition(":")
    file = left if left.endswith(".py") and factory.isidentifier() else program
    named = os.path.normpath(program).replace(os.sep, "/")
    if file.startswith("<") or not (named.startswith(("/", "../")) or os.path.exists(file)):
        return Location(named)
    return Location(_within(file, base) or os.path.abspath(file).replace(os.sep, "/"))


def repository() -> str:
    """The root of the repository that the working folder lies in, else the working folder: what the services that read
    reports resolve paths against, wherever in it the check was run."""
    here = os.getcwd()
    folder = here
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent
    return folder


def relative(path: str) -> str:
    """The path as seen from the working folder if it lies in it, else as it is; always with ``/``."""
    inside = os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path)
    if os.path.isabs(path) and inside.startswith(".."):
        inside = path
    return inside.replace(os.sep, "/")


def _within(path: str, base: str) -> str | None:
    """The path as seen from a folder, None if it lies outside."""
    try:
        inside = os.path.relpath(os.path.abspath(path), base)
    except ValueError:  # another drive
        return None
    return None if inside == os.pardir or inside.startswith(os.pardir + os.sep) else inside.replace(os.sep, "/")


def _end_column(path: str, line: int) -> int:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if number == line:
                    return max(2, len(text.rstrip("\r\n")) + 1)
    except OSError:
        pass
    return 2
