"""Workflow commands of GitHub Actions: annotations on a job and, where the source is known, on a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hazard.report import Options
from hazard.report.places import location
from hazard.report.story import plural, tell
from hazard.report.terminal import clean
from hazard.report.text import location as headline

if TYPE_CHECKING:
    from hazard.api import ProgramReport, Report
    from hazard.rule import Finding

_LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}
#: GitHub shows no more annotations of one level for one step.
LIMIT: Final = 10


def render(report: Report, options: Options) -> str:
    """One command a finding, errors first, at most `LIMIT` of a level; then one notice with what was left out."""
    lines = [f"::error title=hazard::{_data(message)}" for message in options.errors]
    pairs = [(f, p) for p in report.programs for f in p.findings]
    hidden = 0
    for severity, level in _LEVELS.items():
        chosen = [pair for pair in pairs if pair[0].severity == severity]
        lines += [_command(level, f, p) for f, p in chosen[:LIMIT]]
        hidden += max(0, len(chosen) - LIMIT)
    unknown = [(p, m) for p in report.programs for m in p.methods if m.verdict == "unknown"]
    for p, m in unknown[:LIMIT]:
        because = m.reasons[0] if m.reasons else "no reason given"
        lines.append(f"::notice title=hazard%3A unknown,file={_property(p.path)}::{_data(f'{m.name}: {because}')}")
    if hidden:
        lines.append(f"::notice title=hazard::{plural(hidden, 'more finding')} not shown as annotations")
    return "".join(line + "\n" for line in lines)


def _command(level: str, f: Finding, p: ProgramReport) -> str:
    story = tell(f, p)
    blamed = story.blamed
    at = location(blamed.place if blamed else None, p.path)
    where = f"file={_property(at.path)}" + (f",line={at.line},endLine={at.line}" if at.line else "")
    told = [f"{p.path}: {headline(story, f)}: {f.message}", story.why, *story.path, f"help: {f.help}"]
    title = f"hazard {f.code} {f.name}"
    return f"::{level} {where},title={_property(title)}::{_data(chr(10).join(t for t in told if t))}"


def _data(text: str) -> str:
    lines = [clean(line) for line in text.split("\n")]
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return clean(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
