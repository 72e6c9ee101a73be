"""Markdown for people who read a pull request or the summary of a CI job (``$GITHUB_STEP_SUMMARY``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hazard.report import Options, text
from hazard.report.terminal import Paint, clean
from hazard.report.text import closing_line, groups
from hazard.rule import SEVERITIES

if TYPE_CHECKING:
    from hazard.api import MethodReport, Report

#: Findings that are told in full; the page of a CI job has a limit of 1 MiB.
TOLD = 100
SHOWN = 3


def render(report: Report, options: Options) -> str:
    """A table of verdicts, then each finding as the terminal shows it."""
    plain = Paint(False)
    lines = ["# hazard", "", closing_line(report, options, plain), ""]
    if report.programs:
        lines += ["| program | method | verdict | reads | findings |", "| --- | --- | --- | --- | --- |"]
        for program in report.programs:
            for method in program.methods:
                number = sum(f.method == method.name for f in program.findings)
                names = (_code(program.path), _code(method.name), _verdict(method))
                lines.append(f"| {' | '.join(names)} | {method.counts.total} | {number} |")
        lines.append("")
    for message in options.errors:
        lines += [f"- not checked: {_escaped(message)}"]
    if options.errors:
        lines.append("")
    told = [(p, g) for p in report.programs for g in groups(p, options)]
    told.sort(key=lambda pair: -SEVERITIES.index(pair[1][0].severity))
    for program, group in told[:TOLD]:
        finding = group[0]
        lines += [f"## {finding.severity} {finding.code}: {_escaped(finding.message)}", "", "```text"]
        lines += [line.replace("```", "'''") for line in text.told(group, program, options, plain, 110)]
        lines += ["```", ""]
    if len(told) > TOLD:
        lines += [f"{sum(len(g) for _, g in told[TOLD:])} more findings are not shown here.", ""]
    return "\n".join(lines)


def _verdict(method: MethodReport) -> str:
    if method.verdict == "proved":
        if not method.assumptions:
            return "proved"
        return f"proved assuming {_few(method.assumptions)}"
    if method.verdict == "unknown":
        return f"unknown: {_few(method.reasons)}" if method.reasons else "unknown"
    return "**hazard**"


def _few(words: tuple[str, ...]) -> str:
    shown = "; ".join(_escaped(w) for w in words[:SHOWN])
    return shown if len(words) <= SHOWN else f"{shown} and {len(words) - SHOWN} more"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, but for code in backticks."""
    text = clean(text)
    for sign in "\\|*_<>[]#":
        text = text.replace(sign, f"\\{sign}") if sign != "<" else text.replace("<", "&lt;")
    return text


def _code(text: str) -> str:
    return "`" + clean(text).replace("`", "'").replace("|", "\\|") + "`"
