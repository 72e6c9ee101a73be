"""Finding programs in folders, and writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from typing import Final

from hazard.program import InputError

#: Names of files that hold programs.
SUFFIXES: Final = (".pte", ".bpte", ".hir")


def programs_in(folder: str) -> list[str]:
    """Paths of all programs below a folder, sorted; hidden folders are left out, links to folders not followed.

    Raises InputError when there is none, or when a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    found: list[str] = []
    for path, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        found.extend(os.path.join(path, n) for n in names if n.endswith(SUFFIXES))
    if not found:
        raise InputError(f"{folder}: no program here; looked for {', '.join('*' + s for s in SUFFIXES)}")
    return sorted(found)


def write_text(path: str, text: str) -> None:
    """Writes a file by way of a temporary one beside it, so that no reader ever finds half of it.

    Devices and pipes are written as they are. Raises InputError when it cannot be written.
    """
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return
        target = os.path.realpath(path)
        handle, temporary = tempfile.mkstemp(prefix=".hazard-", dir=os.path.dirname(target))
        try:
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from None


def _mode(path: str) -> int:
    """The mode of the file that is replaced, else that of a new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
