"""Finding programs in folders, and writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

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
    data = text.encode("utf-8", "backslashreplace")
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as file:
                file.write(data)
            return
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from None
    with replacing(path) as out:
        out.write(data)


@contextlib.contextmanager
def replacing(path: str, approve: Callable[[str], None] | None = None) -> Iterator[BinaryIO]:
    """A file that takes the name ``path`` once all of it is written, and not at all if that fails.

    ``approve`` is called with the path of the finished file before, and raises what is against it. Raises InputError
    when the file cannot be written.
    """
    target = os.path.realpath(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".hazard-", dir=os.path.dirname(target))
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from None
    try:
        with open(handle, "wb") as out:
            yield out
        if approve is not None:
            approve(temporary)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _mode(path: str) -> int:
    """The mode of the file that is replaced, else that of a new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
