"""Workflow commands of GitHub Actions: annotations on a job and, where the source is known, on a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hazard.report import Options
from hazard.report.places import location
from hazard.report.story import tell
from hazard.report.terminal import clean
from hazard.report.text import groups
from hazard.report.text import location as headline

if TYPE_CHECKING:
    from hazard.api import ProgramReport, Report
    from hazard.rule import Finding

_LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}
#: GitHub shows no more annotations of one level for one step.
LIMIT: Final = 10


def render(report: Report, options: Options) -> str:
    """At most `LIMIT` commands of a level, errors first: inputs that could not be used, then findings. Notices tell
    what was left out, verdicts that are unknown, and notes, those of one rule and program together."""
    told: dict[str, list[tuple[str, int]]] = {level: [] for level in _LEVELS.values()}
    told["error"] = [(f"::error title=hazard::{_data(message)}", 1) for message in options.errors]
    for p in report.programs:
        for m in p.methods:
            if m.verdict == "unknown":
                said = _data(f"{m.name}: {m.reasons[0] if m.reasons else 'no reason given'}")
                told["notice"].append((f"::notice title=hazard%3A unknown,file={_property(p.path)}::{said}", 1))
    for p in report.programs:
        for group in groups(p, options):
            level = _LEVELS[group[0].severity]
            told[level].append((_command(level, group[0], p, len(group) - 1), len(group)))
    hidden = sum(count for lines in told.values() for _, count in lines[LIMIT:])
    # The notice of what was left out has a place of its own.
    if hidden:
        hidden += sum(count for _, count in told["notice"][LIMIT - 1 : LIMIT])
        told["notice"] = told["notice"][: LIMIT - 1]
        told["notice"].append((f"::notice title=hazard::{hidden} more not shown as annotations", 0))
    return "".join(f"{line}\n" for lines in told.values() for line, _ in lines[:LIMIT])


def _command(level: str, f: Finding, p: ProgramReport, others: int) -> str:
    story = tell(f, p)
    blamed = story.blamed
    at = location(blamed.place if blamed else None, p.path)
    where = f"file={_property(at.path)}" + (f",line={at.line},endLine={at.line}" if at.line else "")
    more = f"{others} more of this rule in this program" if others else ""
    told = [f"{p.path}: {headline(story, f)}: {f.message}", story.why, *story.path, f"help: {f.help}", more]
    title = f"hazard {f.code} {f.name}"
    return f"::{level} {where},title={_property(title)}::{_data(chr(10).join(t for t in told if t))}"


def _data(text: str) -> str:
    lines = [clean(line) for line in text.split("\n")]
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return clean(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
