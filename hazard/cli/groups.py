"""Options under headings: `--help` of a command with many options is read by what one wants to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Option(click.Option):
    """An option with a heading for the help text."""

    def __init__(self, *names: Any, heading: str = "Options", **rest: Any) -> None:
        super().__init__(*names, **rest)
        self.heading = heading


class Command(click.Command):
    """A command whose help lists options under their headings and ends with examples."""

    def __init__(self, *names: Any, examples: str = "", **rest: Any) -> None:
        super().__init__(*names, **rest)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        by_heading: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                by_heading.setdefault(getattr(parameter, "heading", "Other"), []).append(record)
        for heading, records in sorted(by_heading.items(), key=lambda item: item[0] == "Other"):
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")
        super().format_epilog(ctx, formatter)


def option(*names: str, heading: str, **rest: Any) -> Callable[[Any], Any]:
    """`click.option` under a heading. What is named FILE in the help is completed as one by the shell."""
    if rest.get("metavar", "").startswith("FILE") and "type" not in rest:
        rest["type"] = click.Path()
    return click.option(*names, cls=Option, heading=heading, **rest)


def program(*names: str, **rest: Any) -> Callable[[Any], Any]:
    """`click.argument` for programs: completed as files, whatever else it may be."""
    return click.argument(*names, type=click.Path(), **rest)


def complete_rules(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Codes and names of rules for the shell, the last of those that commas separate."""
    from click.shell_completion import CompletionItem

    from hazard.rule import all_rules

    before, comma, word = incomplete.rpartition(",")
    codes = [(r.code, r.name) for r in all_rules() if r.code.startswith(word.upper())]
    names = [(r.name, r.code) for r in all_rules() if word and r.name.startswith(word)]
    return [CompletionItem(f"{before}{comma}{said}", help=other) for said, other in codes + names]
