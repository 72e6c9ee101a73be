"""One line a finding, one line a method whose verdict is not simply proved, and the closing line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hazard.report import Options
from hazard.report.story import site, tell
from hazard.report.terminal import Paint, clean, wants_color
from hazard.report.text import closing_line, groups, location, verdict_lines

if TYPE_CHECKING:
    from hazard.api import Report


def render(report: Report, options: Options) -> str:
    """The report in lines ``path: method[instruction]: severity[code] message (the triple)``."""
    paint = Paint(wants_color(options.color))
    lines = []
    for program in report.programs:
        for f, *others in groups(program, options):
            triple = ", ".join(
                f"{role} {site(place)}"
                for role, place in (("defined", f.define), ("overwritten", f.clobber), ("read", f.use))
                if place is not None
            )
            level = paint(f.severity, f"{f.severity}[{f.code}]")
            lines.append(
                f"{clean(program.path)}: {location(tell(f, program), f)}: {level}"
                f" {clean(f.message)} ({triple}){f'; {len(others)} more of this rule' if others else ''}"
            )
    if not options.quiet:
        for program in report.programs:
            for method in program.methods:
                if method.verdict == "unknown" or method.reasons or method.assumptions:
                    lines.extend(verdict_lines(program, method, paint, None))
        lines.extend(f"{paint('warning', 'warning')}: {clean(w)}" for w in options.warnings)
        lines.append(closing_line(report, options, paint))
    return "".join(line + "\n" for line in lines)
