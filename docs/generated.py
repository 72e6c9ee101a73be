"""Pages of the site that are made from the program itself: the rules as `hazard explain` tells them, and the commands.

A hook of mkdocs; it also takes the words off the fences of code blocks that are for ``tests/test_docs.py`` only.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import click

import hazard
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
    return {"rules/index.md": _table(rules), **made, "commands.md": _commands(), "python.md": _python()}


def _table(rules: tuple[Rule, ...]) -> str:
    lines = [
        "# Rules",
        "",
        "Each page is the text that `hazard explain` shows. Its examples are executed by the tests of the project.",
    ]
    for digit, title in GROUPS.items():
        lines += ["", f"## HZ{digit}xx: {title}", ""]
        lines += ["| code | name | severity | reports |", "| --- | --- | --- | --- |"]
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


def _python() -> str:
    """The public names with their docstrings."""
    lines = ["# Python", "", "All public names. `import hazard` loads nothing heavy; each is loaded when it is used."]
    for name in hazard.__all__:
        thing = getattr(hazard, name)
        if isinstance(thing, str):
            continue
        lines += ["", f"## {name}"]
        if not (inspect.isclass(thing) and issubclass(thing, Exception)):
            lines += ["", "```python", f"hazard.{name}{_signature(thing)}", "```"]
        lines += ["", _markdown(inspect.getdoc(thing) or "")]
        if inspect.isclass(thing):
            lines += _members(thing)
    return "\n".join(lines) + "\n"


def _members(thing: type) -> list[str]:
    lines = []
    for name, what in vars(thing).items():
        function = what.fget if isinstance(what, property) else what
        if not name.startswith("_") and inspect.isfunction(function):
            shown = name if isinstance(what, property) else f"{name}{_signature(function, 1000)}"
            docs = inspect.getdoc(function)
            lines += ["", f"`{shown}`{': ' + _markdown(docs) if docs else ''}"]
    return lines


def _signature(function: Any, width: int = 100) -> str:
    """The parameters as they stand in the source, one a line where they are many."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    text = re.sub(r" -> None$", "", re.sub(r"\(self(, )?", "(", text))
    if len(text) < width:
        return text
    inside, end = text[1:].rsplit(")", 1)
    parts = re.split(r", (?=[\w*]+:|\*,)", inside)
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _markdown(docstring: str) -> str:
    return docstring.replace("::\n", ":\n").replace("``", "`")


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
