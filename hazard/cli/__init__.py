"""The command line. `main` turns every outcome into an exit code; the commands are in `hazard.cli.app`.

Exit codes: 0 nothing at or above the threshold, 1 findings, 2 unusable input or wrong usage, 101 a fault of hazard
itself, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence

import hazard
from hazard.program import InputError

CLEAN, FOUND, UNUSABLE, FAULT, INTERRUPTED = 0, 1, 2, 101, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Never raises."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        # Answered before click is loaded: scripts ask for it often.
        return _guarded(lambda: _say_version())
    return _guarded(lambda: _run(arguments))


def _say_version() -> int:
    print(f"hazard {hazard.__version__}")
    return CLEAN


def _run(arguments: list[str]) -> int:
    import click

    from hazard.cli.app import app

    try:
        code = app.main(arguments, prog_name="hazard", standalone_mode=False)
        return code if isinstance(code, int) else CLEAN
    except click.Abort:
        return _interrupted()
    except click.exceptions.NoArgsIsHelpError as e:
        e.show()
        return UNUSABLE
    except click.ClickException as e:
        said = e.format_message().rstrip(".")
        said = said[:1].lower() + said[1:]
        context = getattr(e, "ctx", None)
        return unusable(f"{said} (`{context.command_path if context else 'hazard'} --help` shows what there is)")


def _guarded(command: object) -> int:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, io.StringIO())
    try:
        os.getcwd()
    except FileNotFoundError:
        return unusable("the working folder does not exist any more")
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding does not have must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = command()  # type: ignore[operator]
        emit("")
        return code
    except InputError as e:
        return unusable(e)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        _close_quietly()
        return CLEAN
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _fault(e)
        _close_quietly()
        return unusable(f"the output cannot be written: {e.strerror}")
    except Exception as e:
        return _fault(e)


def unusable(error: InputError | str) -> int:
    """Says on the error stream what is wrong with an input."""
    print(f"hazard: error: {error}", file=sys.stderr)
    return UNUSABLE


def emit(text: str) -> None:
    """Writes to the standard output. A reader that has seen enough (``| head``) does not change the exit code.

    Raises InputError when it cannot be written.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_quietly()
    except OSError as e:
        _close_quietly()
        raise InputError(f"the standard output cannot be written: {e.strerror or e}") from None


def _close_quietly() -> None:
    """What is still buffered must not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted() -> int:
    print("hazard: interrupted", file=sys.stderr)
    return INTERRUPTED


def _fault(error: Exception) -> int:
    if os.environ.get("HAZARD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    version = ".".join(map(str, sys.version_info[:3]))
    print(
        f"hazard: internal error: {what} (hazard {hazard.__version__}, Python {version}, {sys.platform}); this is a"
        " fault of hazard: please report this line and the output of `hazard dump` for the input;"
        " HAZARD_DEBUG=1 shows where it happened",
        file=sys.stderr,
    )
    return FAULT
