"""Renderers: one report, many forms. Each is a module with ``render``, imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hazard.api import Report

#: Output formats and the modules of this package that write them.
FORMATS: Final[dict[str, str]] = {
    "full": "text",
    "concise": "concise",
    "json": "json",
    "jsonl": "jsonl",
    "sarif": "sarif",
    "github": "github",
    "junit": "junit",
    "markdown": "markdown",
}

#: The formats that people read at a terminal.
HUMAN: Final = ("full", "concise")


@dataclass(frozen=True, slots=True)
class Options:
    """What a renderer may need besides the report.

    ``fail_on``, ``fail_on_unknown`` and ``fail_on_assumption`` are the gate. ``errors`` are one-line messages on inputs
    that could not be used, ``warnings`` such on suppressions that were not needed. ``color``: None lets the terminal
    decide. ``width`` is in columns, None takes the terminal's. ``quiet`` leaves out all but the findings. ``verbose``
    tells every note in full and by itself; ``hint`` says how the user gets that.
    """

    fail_on: str = "error"
    fail_on_unknown: bool = False
    fail_on_assumption: bool = False
    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    color: bool | None = False
    width: int | None = None
    quiet: bool = False
    verbose: bool = False
    hint: str = ""


def render(form: str, report: Report, options: Options | None = None) -> str:
    """The report in one of `FORMATS`. Raises KeyError for another word."""
    module = importlib.import_module(f"hazard.report.{FORMATS[form]}")
    text: str = module.render(report, options or Options())
    return text
