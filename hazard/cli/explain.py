"""The documentation of rules on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hazard.api import chosen_rules
from hazard.program import InputError
from hazard.report.json import SCHEMA_VERSION
from hazard.report.terminal import Paint, columns, wants_color
from hazard.rule import Rule, all_rules, find_rule


def rule_object(rule: Rule) -> dict[str, Any]:
    """A rule as JSON has it."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "since": rule.since,
        "default": rule.default,
        "summary": rule.summary,
        "references": list(rule.references),
        "docs": rule.docs,
    }


def page(rule: Rule) -> str:
    """The page of a rule, as Markdown."""
    off = "" if rule.default else ", off unless selected"
    head = f"# {rule.name} ({rule.code})\n\nSeverity: {rule.severity}{off}. Since {rule.since}.\n\n"
    return head + rule.docs.strip() + "\n"


def explain_rules(words: Iterable[str], form: str, color: bool | None) -> str:
    """The pages of the named rules. Raises InputError for a word that names none."""
    found = []
    for word in words:
        rule = find_rule(word)
        if rule is None:
            chosen_rules([word], None)  # raises with a suggestion unless the word is a prefix
            raise InputError(f"`{word}` names several rules; `hazard rules` lists them")
        found.append(rule)
    if form == "json":
        return json.dumps({"schema_version": SCHEMA_VERSION, "rules": [rule_object(r) for r in found]}, indent=2) + "\n"
    text = "\n".join(page(r) for r in found)
    if form == "markdown" or not wants_color(color):
        return text
    return _laid_out(text)


def _laid_out(text: str) -> str:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(force_terminal=True, width=min(columns(), 120))
    with console.capture() as captured:
        console.print(Markdown(text))
    return captured.get()


def list_rules(form: str, color: bool | None) -> str:
    """The table of all rules."""
    table = all_rules()
    if form == "json":
        return json.dumps({"schema_version": SCHEMA_VERSION, "rules": [rule_object(r) for r in table]}, indent=2) + "\n"
    paint = Paint(wants_color(color))
    wide = max(len(r.name) for r in table)
    lines = []
    for r in table:
        severity = r.severity if r.default else f"{r.severity} (off)"
        padding = " " * (13 - len(severity))
        lines.append(f"{r.code}  {r.name:<{wide}}  {paint(r.severity, severity)}{padding}  {r.summary}")
    return "\n".join(lines) + "\n"
