"""One JSON object a line, for streams: programs, findings, errors, then the sums. ``type`` says which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hazard.report import Options
from hazard.report.json import SCHEMA_VERSION, finding_object, program_object, stats

if TYPE_CHECKING:
    from hazard.api import Report


def render(report: Report, options: Options) -> str:
    """The report in lines."""
    return "".join(json.dumps(line) + "\n" for line in _lines(report, options))


def _lines(report: Report, options: Options) -> Iterator[dict[str, Any]]:
    for program in report.programs:
        yield {"type": "program", "schema_version": SCHEMA_VERSION, **program_object(program)}
        for finding in program.findings:
            yield {"type": "finding", "schema_version": SCHEMA_VERSION, **finding_object(finding, program)}
    for message in options.errors:
        yield {"type": "error", "schema_version": SCHEMA_VERSION, "message": message}
    yield {"type": "stats", "schema_version": SCHEMA_VERSION, **stats(report)}
