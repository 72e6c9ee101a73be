"""Running programs under ExecuTorch's Python runtime, and comparing what two of them return."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hazard.confirm.inputs import Call
from hazard.program import InputError

INSTALL: Final = "install them with `pip install 'hazard[executorch]'`"


def runtime() -> Any:
    """ExecuTorch's runtime. Raises InputError where it is not installed."""
    try:
        from executorch.runtime import Runtime
    except ImportError as e:
        raise InputError(f"running programs needs torch and executorch ({e}); {INSTALL}") from None
    return Runtime.get()


@contextlib.contextmanager
def silence() -> Iterator[Any]:
    """The runtime reports failed calls on the error stream of the process; here they are results. Yields a stream to
    where errors went before."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    stream = os.fdopen(saved, "w", errors="backslashreplace")
    try:
        yield stream
    finally:
        stream.flush()
        os.dup2(stream.fileno(), 2)
        stream.close()


@dataclass(frozen=True, slots=True)
class Result:
    """What a call returned, or the first line of its error."""

    values: tuple[Any, ...] = ()
    error: str = ""


class Session:
    """One freshly loaded program. With ``preload`` all methods are loaded before the first call."""

    def __init__(self, data: bytes, preload: Sequence[str] = ()) -> None:
        # A program can write to its own constants, which lie in these bytes: they must not be anybody else's.
        self.error = ""
        try:
            self._program = runtime().load_program(bytes(bytearray(data)))
            for name in preload:
                self._program.load_method(name)
        except RuntimeError as e:
            self.error = first_line(e)

    def call(self, call: Call) -> Result:
        """Runs one method on copies of the inputs; results are copies, too."""
        if self.error:
            return Result(error=self.error)
        name, inputs = call
        try:
            return Result(tuple(_copied(self._program.load_method(name).execute(_copied(inputs)))))
        except (RuntimeError, TypeError, ValueError) as e:
            return Result(error=first_line(e))


def first_line(error: BaseException) -> str:
    return " ".join((str(error).splitlines() or [type(error).__name__])[0].split())[:200]


def _copied(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if hasattr(v, "clone") else v for v in values]


def run(data: bytes, calls: Sequence[Call], preload: Sequence[str] = ()) -> list[Result]:
    """The results of a sequence of calls of a freshly loaded program; it ends with the first call that fails."""
    session = Session(data, preload)
    results = []
    for call in calls:
        results.append(session.call(call))
        if results[-1].error:
            break
    return results


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two runs differ. ``call`` counts from 1; ``output`` is None where one of them fails."""

    call: int
    method: str
    output: int | None
    got: Any
    expected: Any


def first_difference(calls: Sequence[Call], got: Sequence[Result], expected: Sequence[Result]) -> Difference | None:
    """Compares bit by bit, NaN being equal to NaN. Runs that both fail at one call do not differ there."""
    for number, ((method, _), a, b) in enumerate(zip(calls, got, expected, strict=False), 1):
        if a.error or b.error:
            if a.error and b.error:
                return None
            return Difference(number, method, None, a.error or "a result", b.error or "a result")
        for output, (x, y) in enumerate(zip(a.values, b.values, strict=False)):
            if not same(x, y):
                return Difference(number, method, output, x, y)
    return None


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal bit by bit, except that NaN is equal to NaN and -0 to 0."""
    import torch

    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b) or (a != a and b != b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return bool(((a == b) | (a.isnan() & b.isnan())).all())
