"""Pages of the site that are made from the program itself: the rules as `hazard explain` tells them, and the commands.

A hook of mkdocs; it also takes the words off the fences of code blocks that are for ``tests/test_docs.py`` only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from hazard.cli.app import app
from hazard.cli.explain import page
from hazard.rule import Rule, all_rules

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

#: What the rules of one hundred have in common.
GROUPS = {
    "1": "Values and branch results",
    "2": "Reads of bytes that nobody wrote",
    "3": "State",
    "4": "Shared storage and updates in place",
    "5": "Several methods",
    "6": "Memory of the caller",
    "7": "Arenas and constants",
    "8": "What the analysis cannot see",
}


def pages() -> dict[str, str]:
    """All generated pages by their path below ``docs/``."""
    rules = all_rules()
    made = {f"rules/{rule.code}.md": page(rule) for rule in rules}
    return {"rules/index.md": _table(rules), **made, "commands.md": _commands()}


def _table(rules: tuple[Rule, ...]) -> str:
    lines = [
        "# Rules",
        "",
        "Each page is the text that `hazard explain` shows. Its examples are executed by the tests of the project.",
    ]
    for digit, title in GROUPS.items():
        lines += ["", f"## HZ{digit}xx: {title}", "", "| code | name | severity | reports |", "| --- | --- | --- | --- |"]
        for rule in rules:
            if rule.code.startswith(f"HZ{digit}"):
                severity = rule.severity if rule.default else f"{rule.severity}, off"
                lines.append(f"| [{rule.code}]({rule.code}.md) | {rule.name} | {severity} | {rule.summary} |")
    return "\n".join(lines) + "\n"


def _commands() -> str:
    lines = ["# Command line", "", "What `hazard COMMAND --help` says, for all commands."]
    for name, text in _helps("hazard", app, None):
        lines += ["", f"## {name}", "", "```text", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _helps(name: str, command: click.Command, parent: click.Context | None) -> list[tuple[str, str]]:
    context = click.Context(command, info_name=name.split()[-1], parent=parent, terminal_width=100)
    found = [(name, command.get_help(context))]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            child = command.get_command(context, sub)
            if child is not None and not child.hidden:
                found += _helps(f"{name} {sub}", child, context)
    return found


# --- the hooks --------------------------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    names: list[Any] = ["rules/index.md", *({f"{r.code} {r.name}": f"rules/{r.code}.md"} for r in all_rules())]
    config.nav = [{"Rules": names} if entry == {"Rules": []} else entry for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return re.sub(r"^(```\w+) .+$", r"\1", markdown, flags=re.MULTILINE)
