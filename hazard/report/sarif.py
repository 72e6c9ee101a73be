"""SARIF 2.1.0, with what GitHub code scanning requires beyond the standard.

GitHub drops a result whose region lacks one of its four fields, matches alerts of successive runs by
``primaryLocationLineHash`` only, and compares the lists of rules between runs: all of these are always written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import hazard
from hazard.report import Options
from hazard.report.json import finding_object
from hazard.report.places import Location, location
from hazard.report.story import Step, Story, plural, tell
from hazard.report.terminal import clean
from hazard.rule import FINGERPRINT, SEVERITIES, Finding, Rule, all_rules

if TYPE_CHECKING:
    from hazard.api import ProgramReport, Report

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_TEXT_LIMIT: Final = 1024
#: GitHub refuses a run with more results.
_RESULTS: Final = 25_000
_PROBLEM: Final = {"error": "error", "warning": "warning", "note": "recommendation"}


def render(report: Report, options: Options) -> str:
    """The log as text."""
    return json.dumps(as_object(report, options), indent=2) + "\n"


def as_object(report: Report, options: Options) -> dict[str, Any]:
    """The log: one run."""
    rules = list(all_rules())
    index = {r.code: i for i, r in enumerate(rules)}
    entries = [_rule(r) for r in rules]
    results = []
    for program in report.programs:
        known = {id(s.finding): s for s in program.suppressed}
        for finding in (*program.findings, *(s.finding for s in program.suppressed)):
            if finding.code not in index:  # a rule of another package
                index[finding.code] = len(entries)
                entries.append(_foreign(finding))
            result = _result(finding, program, index[finding.code])
            if (suppressed := known.get(id(finding))) is not None:
                kind = "inSource" if suppressed.kind in ("source", "marker") else "external"
                entry = {"kind": kind, "status": "accepted"}
                if suppressed.reason:
                    entry["justification"] = clean(suppressed.reason)
                result["suppressions"] = [entry]
            results.append(result)
    notifications = [{"level": "error", "message": {"text": clean(message)}} for message in options.errors]
    notifications += [{"level": "warning", "message": {"text": clean(message)}} for message in options.warnings]
    if (excess := len(results) - _RESULTS) > 0:
        results.sort(key=lambda r: ("suppressions" in r, -SEVERITIES.index(r["level"])))
        del results[_RESULTS:]
        notifications.append({"level": "warning", "message": {"text": f"{plural(excess, 'result')} left out"}})
    invocation: dict[str, Any] = {"executionSuccessful": not options.errors}
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    run = {
        "tool": {
            "driver": {
                "name": "hazard",
                "version": hazard.__version__,
                "semanticVersion": hazard.__version__,
                "rules": entries,
            }
        },
        "automationDetails": {"id": "hazard/"},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary[:_TEXT_LIMIT]},
        "fullDescription": {"text": _first_paragraph(rule)},
        "help": {"text": rule.docs.strip(), "markdown": rule.docs.strip()},
        "defaultConfiguration": {"level": rule.severity, "enabled": rule.default},
        "properties": {
            "tags": ["executorch", "memory-planning", "aliasing"],
            "precision": "very-high" if rule.severity == "error" else "high",
            "problem.severity": _PROBLEM[rule.severity],
        },
    }
    if rule.references:
        entry["helpUri"] = rule.references[0]
    return entry


def _first_paragraph(rule: Rule) -> str:
    part = rule.docs.partition("## What it does")[2].strip().partition("\n\n")[0]
    return (" ".join(part.split()) or rule.summary)[:_TEXT_LIMIT]


def _foreign(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": finding.name},
        "fullDescription": {"text": finding.name},
        "help": {"text": finding.name},
    }


def _result(f: Finding, p: ProgramReport, index: int) -> dict[str, Any]:
    story = tell(f, p)
    blamed = story.blamed
    details = finding_object(f, p)
    return {
        "ruleId": f.code,
        "ruleIndex": index,
        "level": f.severity,
        "message": {"text": _message(f, story)},
        "locations": [_location(blamed, f, p)],
        "relatedLocations": [
            {"id": i, **_location(step, f, p)} for i, step in enumerate((s for s in story.steps if s is not blamed), 1)
        ],
        "codeFlows": [
            {
                "message": {"text": "; ".join(story.path) or "defined, overwritten, read"},
                "threadFlows": [
                    {
                        "locations": [
                            {"location": _location(step, f, p), "executionOrder": i, "nestingLevel": 0}
                            for i, step in enumerate(story.steps, 1)
                        ]
                    }
                ],
            }
        ]
        if story.steps
        else [],
        "partialFingerprints": {"primaryLocationLineHash": f"{f.fingerprint}:1", FINGERPRINT: f.fingerprint},
        "properties": {
            "hazard": {
                "program": p.path,
                "sha256": p.sha256,
                **{k: details[k] for k in ("method", "certainty", "define", "clobber", "use", "witness", "help")},
                **{k: v for k, v in details["properties"].items() if k == "suggestions"},
            }
        },
    }


def _message(f: Finding, story: Story) -> str:
    """GitHub takes the first sentence as the title."""
    parts = [f.message, story.why, f"help: {f.help}" if f.help else ""]
    parts += [note for note in f.notes if note.startswith("suggested: ")]
    return clean(". ".join(part for part in parts if part)) + "."


def _location(step: Step | None, f: Finding, p: ProgramReport) -> dict[str, Any]:
    at = location(step.place if step else None, p.path)
    file = {"uri": _uri(at), "uriBaseId": "%SRCROOT%"} if at.inside else {"uri": _uri(at)}
    parts = [f.method]
    if step is not None:
        parts += [step.gutter, step.place.operator] if step.gutter else [step.place.operator]
    result: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": file, "region": _region(at)},
        "logicalLocations": [
            {"name": clean(parts[-1]), "fullyQualifiedName": clean("/".join(parts)), "kind": "function"}
        ],
    }
    if step is not None:
        result["message"] = {"text": step.label}
    return result


def _region(at: Location) -> dict[str, int]:
    if at.line is None:
        return {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}
    return {"startLine": at.line, "startColumn": 1, "endLine": at.line, "endColumn": at.end_column}


def _uri(at: Location) -> str:
    path = quote(at.path.encode("utf-8", "surrogateescape"))
    return path if at.inside else f"file://{path}"
